"""Exploitability of the agent that searches with a trained network (ReBeL, section 7)."""

import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

import solvers
from games import Game
from rebel_jax.config.config import Config
from rebel_jax.evaluation.finite import check_finite
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy, make_subgames
from solvers.algorithms.algorithm import Algorithm
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.search.find import FoundSubgames
from solvers.search.playthroughs import (
  Progress,
  Sampled,
  average_policy,
  no_playthroughs,
  sample_playthroughs,
)
from solvers.search.searching_agent import SearchingAgent, make_searching_agent


class Evaluator:
  """Measures the agent of one game, network and search; its programs are compiled once.

  The agent is made when it is first needed.
  """

  def __init__(
    self,
    config: Config,
    *,
    algorithm: str | None = None,
    depth: int | str | None = None,
    game: Game | None = None,
    subgames: FoundSubgames | None = None,
  ):
    """Prepares the agent.

    Args:
      config: names the game and the network.
      algorithm: what the agent searches with; None for the configuration's `eval_algorithm`.
      depth: of its searches; None for the configuration's.
      game, subgames: if they were made already, for that depth.

    Raises:
      ConfigError: the algorithm is not allowed.
    """
    game = config.make_game() if game is None else game
    self._leaf_values = NetworkLeafValues(make_network(config, game))
    # Where subgames are not made already, that may take a minute, and training need not wait.
    self._make_agent = functools.partial(
      _make_agent,
      config,
      game,
      make_algorithm(config, algorithm or config.rebel.eval_algorithm),
      self._leaf_values,
      depth,
      subgames,
    )

  @functools.cached_property
  def agent(self) -> SearchingAgent:
    """What is measured.

    Raises:
      ConfigError: the depth is not allowed.
    """
    return self._make_agent()

  def exploitability(
    self,
    params: Any,
    *,
    playthroughs: int,
    iterations: int,
    seed: int = 0,
    unsafe: bool = False,
    progress: Progress | None = None,
  ) -> float:
    """Returns the exploitability of the average of sampled playthroughs, in the game's units.

    Args:
      params: the network's.
      playthroughs: how many are averaged; the more, the tighter the bound on the agent's
        exploitability.
      iterations: of each search; one player's update is one.
      seed: of the playthroughs.
      unsafe: measure unsafe search instead, which plays the average policy of each search; one
        playthrough is all of it.
      progress: called with searches done and in all.

    Raises:
      ValueError: a number is not allowed.
    """
    course = self.course(
      params,
      playthroughs=1 if unsafe else playthroughs,
      iterations=iterations,
      seed=seed,
      unsafe=unsafe,
      progress=progress,
    )
    for _, value in course:
      last = value
    return last

  def course(
    self,
    params: Any,
    *,
    playthroughs: int,
    iterations: int,
    seed: int = 0,
    start: Sampled | None = None,
    unsafe: bool = False,
    progress: Progress | None = None,
  ) -> Iterator[tuple[Sampled, float]]:
    """Measures as `exploitability` does, and yields what it has so far after each batch.

    Args:
      start: what an earlier course with the same arguments had yielded, to go on from.
      params, playthroughs, iterations, seed, unsafe, progress: see `exploitability`.

    Yields:
      The playthroughs sampled so far, and the exploitability of their average.

    Raises:
      ValueError: a number is not allowed, or the network's are not finite.
    """
    check_finite(
      self._leaf_values,
      params,
      jnp.stack([tree.root_features[0] for tree in self.agent.subgames.trees]),
      self.agent.tree.num_infostates,
      _query,
    )
    so_far = sample_playthroughs(
      self.agent,
      params=params,
      num_playthroughs=playthroughs,
      num_iterations=iterations,
      start=no_playthroughs(self.agent, jax.random.key(seed)) if start is None else start,
      unsafe=unsafe,
      progress=progress,
    )
    for sampled in so_far:
      policy = jnp.asarray(average_policy(self.agent, sampled))
      yield sampled, float(solvers.exploitability(self.agent.tree, policy))


def _query(features: jax.Array, beliefs: jax.Array) -> LeafQuery:
  """Returns a question about public states from player 0's seat."""
  return LeafQuery(features, 0, beliefs)


def _make_agent(
  config: Config,
  game: Game,
  algorithm: Algorithm,
  leaf_values: LeafValues,
  depth: int | str | None,
  subgames: FoundSubgames | None,
) -> SearchingAgent:
  return make_searching_agent(
    game,
    make_subgames(config, game, depth) if subgames is None else subgames,
    algorithm=algorithm,
    leaf_values=leaf_values,
    policy=make_search_policy(config, game),
    average_last=config.rebel.depth == "stage",
  )
