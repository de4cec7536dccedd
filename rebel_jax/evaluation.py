"""Exploitability of the agent that searches with a trained network (ReBeL, section 7)."""

from typing import Any

import jax
import jax.numpy as jnp

import solvers
from games import Game
from rebel_jax.config import Config
from rebel_jax.networks import NetworkLeafValues
from rebel_jax.setup import (
  make_algorithm,
  make_network,
  make_search_policy,
  make_subgames,
)
from solvers.playthroughs import Progress, searching_policy
from solvers.searching_agent import make_searching_agent
from solvers.subgames import Subgames


class Evaluator:
  """Measures the agent of one game, network and search; its programs are compiled once.

  Attributes:
    agent: what is measured.
  """

  def __init__(
    self,
    config: Config,
    *,
    algorithm: str | None = None,
    depth: int | str | None = None,
    game: Game | None = None,
    subgames: Subgames | None = None,
  ):
    """Prepares the agent.

    Args:
      config: names the game and the network.
      algorithm: what the agent searches with; None for the configuration's `eval_algorithm`.
      depth: of its searches; None for the configuration's.
      game, subgames: if they were made already, for that depth.

    Raises:
      ConfigError: the depth or the algorithm is not allowed.
    """
    game = config.make_game() if game is None else game
    subgames = make_subgames(config, game, depth) if subgames is None else subgames
    self.agent = make_searching_agent(
      game,
      subgames,
      algorithm=make_algorithm(config, algorithm or config.eval_algorithm),
      leaf_values=NetworkLeafValues(make_network(config, game)),
      policy=make_search_policy(config, game),
      average_last=config.depth == "stage",
    )

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
    policy = searching_policy(
      self.agent,
      params=params,
      num_playthroughs=1 if unsafe else playthroughs,
      num_iterations=iterations,
      key=jax.random.key(seed),
      unsafe=unsafe,
      progress=progress,
    )
    return float(solvers.exploitability(self.agent.tree, jnp.asarray(policy)))


def evaluate_params(
  config: Config,
  params: Any,
  *,
  playthroughs: int,
  iterations: int,
  algorithm: str | None = None,
  depth: int | str | None = None,
  seed: int = 0,
  unsafe: bool = False,
  progress: Progress | None = None,
) -> float:
  """Returns the exploitability of one network's agent; see `Evaluator`."""
  return Evaluator(config, algorithm=algorithm, depth=depth).exploitability(
    params,
    playthroughs=playthroughs,
    iterations=iterations,
    seed=seed,
    unsafe=unsafe,
    progress=progress,
  )
