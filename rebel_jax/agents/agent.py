"""Searchers of trained networks, whatever they search in, and agents that play with them."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from games import Game
from rebel_jax.agents.chain_agent import ChainAgent, ChainSearcher
from rebel_jax.agents.playing import Agent, Search, search_for, searches
from rebel_jax.agents.street_searcher import StreetSearcher
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.allowed import check_algorithm
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import (
  made_on_device,
  make_algorithm,
  make_network,
  make_search_policy,
  make_subgames,
)
from solvers import validation
from solvers.search.batch import sample_stop
from solvers.search.searching_agent import SearchingAgent, make_searching_agent
from solvers.xla.compiler_options import work_of_solving


class Searcher:
  """Searches subgames with a trained network, several at a time; agents share one.

  Attributes:
    game: the rules.
    num_iterations: of each search; one player's update is one.
    first_root: at which games start.
  """

  first_root: Any = 0

  def __init__(
    self,
    policy: Policy,
    *,
    iterations: int = 1024,
    algorithm: str | None = None,
    depth: int | str | None = None,
    num_games: int = 1,
    seed: int = 0,
  ):
    """Prepares the compiled searches.

    Args:
      policy: from `rebel_jax.load` or `rebel_jax.load_pretrained`.
      iterations: of each search, even; one player's update is one.
      algorithm: a name as in `train.py`; None for the run's `eval_algorithm`.
      depth: public actions that each search looks ahead; None for the run's.
      num_games: how many subgames one compiled call has room for.
      seed: of the stopping iterations.

    Raises:
      ConfigError: the depth is not allowed, or the network's searches grow trees.
      ValueError: a number or the algorithm is not allowed.
    """
    usual = policy.config.rebel
    iterations = validation.check_even("iterations", iterations)
    num_games = validation.check_integer("num_games", num_games)
    name = usual.eval_algorithm if algorithm is None else algorithm
    check_algorithm("algorithm", name)
    self.game: Game = policy.config.make_game()
    self.num_iterations = iterations
    self._params = policy.params
    self._key = jax.random.key(seed)
    subgames = make_subgames(policy.config, self.game, depth)
    self._agent: SearchingAgent = make_searching_agent(
      self.game,
      subgames,
      algorithm=make_algorithm(policy.config, name),
      leaf_values=NetworkLeafValues(make_network(policy.config, self.game)),
      policy=make_search_policy(policy.config, self.game),
      # One game at a time gains nothing from narrower programs, and waits for each to compile.
      num_buckets=1 if num_games == 1 else 3,
      rows_per_call=1 if num_games == 1 else 512,
      max_lanes=num_games,
    )
    self._stages = [jax.tree.map(np.asarray, stage) for stage in self._agent.tables.stages]

  def agent(self, *, seed: int = 0) -> Agent:
    """Returns an agent that searches so."""
    return Agent(self, seed=seed)

  def only_deals(self, root: Any) -> bool:
    """Says whether chance alone moves at `root`, and `deal` follows it without a search."""
    del root
    return False

  def deal(self, root: Any, beliefs: np.ndarray, action: int) -> tuple[Any, np.ndarray]:
    """Returns the root after chance's `action`, and the beliefs `[P, H]` there."""
    raise NotImplementedError(f"chance is searched with the rest of {self.game!r}")

  def search(self, roots: Sequence[int], beliefs: np.ndarray) -> list[Search]:
    """Searches the subgames at `roots` `[M]` from `beliefs` `[M, P, H]`; root 0 starts the game."""
    agent = self._agent
    found: dict[int, Search] = {}
    chosen = np.asarray(roots, int)
    stage_of = agent.stage_of(chosen)
    for number, (stage, room) in enumerate(zip(self._stages, agent.rooms)):
      members = np.flatnonzero(stage_of == number)
      for part in room.calls(stage.num_live[stage.row_of[chosen[members]]]):
        chunk = members[part]
        for member, search in zip(chunk, self._search(number, chosen[chunk], beliefs[chunk])):
          found[int(member)] = search
    return [found[i] for i in range(len(roots))]

  def _search(self, number: int, roots: np.ndarray, beliefs: np.ndarray) -> list[Search]:
    agent, stage = self._agent, self._stages[number]
    size, lanes = len(roots), agent.rooms[number].num_lanes
    index = np.concatenate([np.arange(size), np.zeros(lanes - size, int)])
    self._key, key = jax.random.split(self._key)
    rows = stage.row_of[roots[index]]
    results = searches[work_of_solving(stage.trees, agent.leaf_values)](
      jax.tree.map(lambda x: x[rows], stage.trees),
      None if stage.node_features is None else stage.node_features[rows],
      np.asarray(beliefs, agent.tree.dtype)[index],
      sample_stop(
        key, (lanes,), self.num_iterations, agent.stop_exponent, agent.algorithm.head_start
      ),
      np.arange(lanes) < size,
      self.num_iterations,
      self._params,
      algorithm=agent.algorithm,
      leaf_values=agent.leaf_values,
      network=agent.policy,
      num_rows=agent.rooms[number].num_rows,
    )
    policy, at_nodes, below, values = (np.asarray(x) for x in results)
    return [
      Search(
        jax.tree.map(lambda x, row=row: x[row], stage.trees),
        stage.successor[row],
        policy[i],
        at_nodes[i],
        below[i],
        values[i],
      )
      for i, row in enumerate(stage.row_of[roots])
    ]


AnySearcher = Searcher | StreetSearcher | ChainSearcher
AnyAgent = Agent | ChainAgent


def prepare(agents: Sequence[AnyAgent]) -> None:
  """Searches for all agents that must, which have to share a searcher, in few calls."""
  waiting: list[Any] = [agent for agent in agents if agent.pending]
  if waiting and isinstance(waiting[0], ChainAgent):
    waiting[0].searcher.search_for(waiting)
  elif waiting:
    search_for(waiting)


def make_searcher(policy: Policy, *, seed: int = 0, **settings: Any) -> AnySearcher:
  """Returns what agents of a trained network share.

  Args:
    policy: the network.
    seed: of the stopping iterations; agents have seeds of their own where searches grow trees.
    settings: those of `Searcher`, or of `ChainSearcher` where searches grow trees.
  """
  kind = searcher_of(policy)
  return kind(policy, **settings) if policy.config.grows else kind(policy, seed=seed, **settings)


def searcher_of(policy: Policy) -> type[Any]:
  """Returns the kind of searcher that agents of a trained network share."""
  if policy.config.grows:
    return ChainSearcher
  return StreetSearcher if made_on_device(policy.config, policy.config.make_game()) else Searcher


def make_agent(policy: Policy, *, seed: int = 0, **settings: Any) -> AnyAgent:
  """Returns an agent that plays with a trained network; `settings` as for `make_searcher`."""
  return make_searcher(policy, seed=seed, **settings).agent(seed=seed)
