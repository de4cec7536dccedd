"""An agent that plays: it holds a public belief state, searches, and acts (ReBeL, section 6).

Where its subgame ends, the agent searches the next one from the beliefs that the last search's
policy led to, and keeps to the policy of one random iteration for both players (Theorem 3): what
makes search safe is that nobody knows which. An opponent's action that this policy never takes
leaves no belief; all infostates that the rules allow are then equally likely.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from games import PADDING, Game, PublicTree
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.moves import check_seat, check_turn, child_after, draw_move, moves_at
from rebel_jax.agents.resolving_agent import ResolvingAgent, ResolvingSearcher
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.allowed import ConfigError, check_algorithm
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy, make_subgames
from solvers import validation
from solvers.search.batch import node_beliefs, sample_stop, search_batch
from solvers.search.searching_agent import SearchingAgent, make_searching_agent
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem
from solvers.xla.compiler_options import jit_for_each, work_of_solving


@dataclasses.dataclass(frozen=True)
class Search:
  """One search of a subgame.

  Attributes:
    tree: the subgame in its common shape, arrays of numpy.
    successor: `[L]` the root that each leaf is.
    policy: `[n, H]` of a random iteration, both players'.
    beliefs: `[n, P, H]` at every node under that policy.
    leaf_beliefs: `[L, P, H]` from which searches go on: under that policy, or under the average
      until its iteration if the algorithm says so (CFR-AVG; ReBeL, appendix I).
    root_values: `[P, H]`.
  """

  tree: PublicTree
  successor: np.ndarray
  policy: np.ndarray
  beliefs: np.ndarray
  leaf_beliefs: np.ndarray
  root_values: np.ndarray


class Searcher:
  """Searches subgames with a trained network, several at a time; agents share one.

  Attributes:
    game: the rules.
    num_iterations: of each search; one player's update is one.
  """

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
    if policy.config.grows:
      raise ConfigError(
        f"the searches of preset={policy.config.preset!r} grow trees; take ResolvingSearcher"
      )
    iterations = validation.check_even("iterations", iterations)
    num_games = validation.check_integer("num_games", num_games)
    name = policy.config.evaluation.eval_algorithm if algorithm is None else algorithm
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

  def agent(self, *, seed: int = 0) -> "Agent":
    """Returns an agent that searches so."""
    return Agent(self, seed=seed)

  def search_for(self, agents: Sequence["Agent"]) -> None:
    """Lets agents that must search do so, side by side."""
    beliefs = np.stack([agent._root_beliefs for agent in agents])
    for agent, search in zip(agents, self.search([agent._root for agent in agents], beliefs)):
      agent._search = search

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
    agent, stage = self._agent, self._agent.tables.stages[number]
    size, lanes = len(roots), agent.rooms[number].num_lanes
    index = np.concatenate([np.arange(size), np.zeros(lanes - size, int)])
    self._key, key = jax.random.split(self._key)
    results = _searches[work_of_solving(stage.trees, agent.leaf_values)](
      stage,
      roots[index],
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
    table = self._stages[number]
    return [
      Search(
        jax.tree.map(lambda x, row=row: x[row], table.trees),
        table.successor[row],
        policy[i],
        at_nodes[i],
        below[i],
        values[i],
      )
      for i, row in enumerate(table.row_of[roots])
    ]


def _search_and_describe(
  stage, roots, beliefs, stop, active, num_iterations, params, algorithm, leaf_values, network,
  num_rows,
):  # fmt: skip
  trees, initial = stage.trees_at(roots), None
  if network is not None:
    initial = network.start(trees, stage.features_at(roots), beliefs, params)
  result = search_batch(
    trees, beliefs, stop, num_iterations, algorithm=algorithm, leaf_values=leaf_values,
    params=params, num_rows=num_rows, active=active, initial_policy=initial,
  )  # fmt: skip

  def describe(tree, beliefs, policy):
    return join_levels(policy), node_beliefs(make_problem(tree, beliefs), policy)

  described = jax.vmap(describe)(trees, beliefs, result.policy)
  return *described, result.leaf_beliefs, result.root_values


_searches = jit_for_each(
  _search_and_describe, static_argnames=("algorithm", "leaf_values", "network", "num_rows")
)


class Agent:
  """Plays one game at a time from one seat.

  `start`, then for every public action, its own and chance's among them, `observe`; `act` when
  it is its turn. Games side by side share a `Searcher`; `prepare` then searches for all at once.

  Attributes:
    player: the seat, 0 or 1.
    infostate: what the agent holds.
  """

  def __init__(self, searcher: Searcher, *, seed: int = 0):
    self.searcher = searcher
    self.player = self.infostate = 0
    self._rng = np.random.default_rng(seed)
    self._prior = np.asarray(searcher.game.prior())
    self._root = 0
    self._root_beliefs: np.ndarray = self._prior
    self._search: Search | None = None
    self._node = 0

  def start(self, player: int, infostate: int) -> None:
    """Begins a new game in seat `player`, holding `infostate`.

    Raises:
      ValueError: there is no such seat or infostate.
    """
    check_seat(self._prior, player, infostate)
    self.player, self.infostate = player, infostate
    self._root, self._root_beliefs, self._search, self._node = 0, self._prior, None, 0

  @property
  def pending(self) -> bool:
    """Whether the agent must search before it can act or observe."""
    return self._search is None

  @property
  def beliefs(self) -> np.ndarray:
    """The PBS's beliefs, `[P, H]`: what an observer who knows both policies thinks."""
    return self._found().beliefs[self._node]

  def node(self) -> tuple[Search, int]:
    """Returns the search that the agent is in, made now if need be, and the node of its tree."""
    return self._found(), self._node

  def choices(self) -> dict[Move, float]:
    """Returns the agent's moves here and their probabilities."""
    search = self._found()
    moves = moves_at(search.tree, self._node, self.player, self.infostate)
    return {move: float(search.policy[child, move.infostate]) for move, child in moves}

  def act(self) -> Move:
    """Returns the agent's move, sampled; tell it to `observe`, as any other.

    Raises:
      ValueError: it is not the agent's turn.
    """
    check_turn(self.player, int(self._found().tree.kind[self._node]))
    return draw_move(self.choices(), self._rng)

  def observe(self, action: int, infostate: int | None = None) -> None:
    """Takes note of a public action, of whoever's move it was.

    Args:
      action: the public action.
      infostate: what the agent holds afterwards; None where that has not changed.

    Raises:
      ValueError: the action is not legal.
    """
    search = self._found()
    self._node = child_after(search.tree, self._node, action)
    if infostate is not None:
      self.infostate = int(infostate)
    nodes = search.tree.leaf_nodes
    leaf = np.flatnonzero((nodes == self._node) & (search.tree.leaf_actor != PADDING))
    if leaf.size:
      self._root = int(search.successor[leaf[0]])
      self._root_beliefs = np.asarray(search.leaf_beliefs[leaf[0]])
      self._search, self._node = None, 0

  def _found(self) -> Search:
    if self._search is None:
      prepare([self])
    assert self._search is not None
    return self._search


AnySearcher = Searcher | ResolvingSearcher
AnyAgent = Agent | ResolvingAgent


def prepare(agents: Sequence[AnyAgent]) -> None:
  """Searches for all agents that must, which have to share a searcher, in few calls."""
  waiting = [agent for agent in agents if agent.pending]
  if waiting:
    searcher: Any = waiting[0].searcher
    searcher.search_for(waiting)


def make_searcher(policy: Policy, *, seed: int = 0, **settings: Any) -> AnySearcher:
  """Returns what agents of a trained network share.

  Args:
    policy: the network.
    seed: of the stopping iterations; agents have seeds of their own where searches grow trees.
    settings: those of `Searcher`, or of `ResolvingSearcher` where searches grow trees.
  """
  if policy.config.grows:
    return ResolvingSearcher(policy, **settings)
  return Searcher(policy, seed=seed, **settings)


def make_agent(policy: Policy, *, seed: int = 0, **settings: Any) -> AnyAgent:
  """Returns an agent that plays with a trained network; `settings` as for `make_searcher`."""
  return make_searcher(policy, seed=seed, **settings).agent(seed=seed)
