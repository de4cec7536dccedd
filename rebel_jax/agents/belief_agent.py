"""Agents that hold a public belief state, search, and act (ReBeL, section 6).

The agent keeps to the policy of one random iteration for both players (Theorem 3): search is safe
because the opponent does not know the iteration. After an action that this policy never takes,
beliefs are uniform.
"""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, PADDING, PublicTree
from games.arrays import checked
from games.poker import Holdem, betting
from rebel_jax.agents.dealer import Move, SearchingSeat, child_after, choices_at
from rebel_jax.agents.range_grids import Decision, played_to
from rebel_jax.checkpoints.checkpoint import Policy, checked_numbers
from rebel_jax.config import ConfigError, check_algorithm
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy, make_subgames
from solvers import validation
from solvers.leaf_values import normalise_beliefs
from solvers.search import (
  Room,
  TemplateStage,
  TemplateSubgames,
  iterations_to,
  make_searching_agent,
  posteriors,
  sample_stop,
  search_together,
  searched_starts,
  spread_stops,
)


@dataclasses.dataclass(frozen=True)
class BeliefSearch:
  """One search of a subgame."""

  tree: PublicTree  # the subgame in its common shape, arrays of numpy
  successor: np.ndarray  # `[L, ...]` the root that each leaf is
  policy: np.ndarray  # `[n, H]` of a random iteration, both players'
  leaf_beliefs: np.ndarray  # `[L, P, H]`; by CFR-AVG under the average so far (ReBeL, appendix I)


class Searcher:
  """Searches subgames with a trained network, several at a time; agents share one.

  Attributes:
    game: the rules.
    num_iterations: of each search at most; one player's update is one.
    first_root: the root at which games start.
  """

  first_root: Any = 0

  @checked
  def __init__(
    self,
    policy: Policy,
    *,
    iterations: int = 1024,
    algorithm: str | None = None,
    depth: int | str | None = None,
    average: bool = False,
    num_games: int = 1,
    seed: int = 0,
  ):
    """Prepares the compiled searches.

    Args:
      policy: from `rebel_jax.load` or `rebel_jax.load_pretrained`.
      iterations: of each search, even; one player's update is one.
      algorithm: a name as in `train.py`; None for the run's `eval_algorithm`.
      depth: public actions that each search looks ahead, a multiple of the run's; None for it.
      average: play the average policy of each search, which is unsafe. Measures that must know the
        agent's policy take it (`solvers.contrib.local_best_response`).
      num_games: how many subgames one compiled call has room for.
      seed: of the stopping iterations.

    Raises:
      ConfigError: the depth is not allowed, or the network's searches grow trees.
      ValueError: a number or the algorithm is not allowed.
    """
    config = checked_numbers(policy).config
    name = config.rebel.eval_algorithm if algorithm is None else algorithm
    self.num_iterations = validation.check_even("iterations", iterations)
    self.num_games = validation.check_integer("num_games", num_games)
    check_algorithm("algorithm", name)
    self.game: Any = config.make_game()
    self._params, self._average, self._key = policy.params, average, jax.random.key(seed)
    self._algorithm = make_algorithm(config, name)
    self._leaf_values = NetworkLeafValues(make_network(config, self.game))
    self._network = make_search_policy(config, self.game)
    self._stages, self._rooms = self._subgames(policy, depth)
    self._paces = [SearchPace()] * len(self._stages)

  def _subgames(
    self, policy: Policy, depth: int | str | None
  ) -> tuple[Sequence[Any], Sequence[Room]]:
    """Returns the stages of the subgames, and what a call of each has room for."""
    agent = make_searching_agent(
      self.game,
      make_subgames(policy.config, self.game, depth, measured=False),
      algorithm=self._algorithm,
      leaf_values=self._leaf_values,
      policy=self._network,
      # One game at a time gains nothing from narrower programs, and waits for each to compile.
      num_buckets=1 if self.num_games == 1 else 3,
      rows_per_call=1 if self.num_games == 1 else None,
      max_lanes=self.num_games,
    )
    self._number_of: Callable[[np.ndarray], np.ndarray] = agent.stage_of
    live = [np.asarray(x.num_live)[x.row_of] for x in agent.tables.stages]
    # How many leaves each subgame of a stage has: `[M]`.
    self._live: Callable[[int, np.ndarray], np.ndarray] = lambda number, roots: live[number][roots]
    return jax.device_put(agent.tables.stages), agent.rooms

  @checked
  def agent(self, *, seed: int = 0) -> "Agent":
    """Returns an agent that searches so."""
    return Agent(self, seed=seed)

  def only_deals(self, root: Any) -> bool:
    """Says whether chance alone moves at `root`, and `deal` follows it without a search."""
    return False

  def search_for(self, agents: Sequence["Agent"]) -> None:
    """Lets agents that must search do so, side by side."""
    roots = [agent._root for agent in agents]
    found = self.search(roots, np.stack([agent._root_beliefs for agent in agents]))
    for agent, search in zip(agents, found):
      agent._search = search

  def search(self, roots: Sequence[Any], beliefs: np.ndarray) -> list[BeliefSearch]:
    """Searches the subgames at `roots` `[M, ...]` from `beliefs` `[M, P, H]`."""
    found: dict[int, BeliefSearch] = {}
    chosen = np.asarray(roots)
    numbers = self._number_of(chosen)
    for number in np.unique(numbers).tolist():
      members = np.flatnonzero(numbers == number)
      for part in self._rooms[number].calls(self._live(number, chosen[members])):
        chunk = members[part]
        searches = self._search_some(number, chosen[chunk], beliefs[chunk])
        found |= zip(chunk.tolist(), searches)
    return [found[i] for i in range(len(chosen))]

  def _search_some(
    self, number: int, roots: np.ndarray, beliefs: np.ndarray, iterations: int | None = None
  ) -> list[BeliefSearch]:
    """Searches subgames of one stage; None for as many iterations as the sampled one needs."""
    size, room, algorithm = len(roots), self._rooms[number], self._algorithm
    self._key, key = jax.random.split(self._key)
    if iterations is None and self._average:
      iterations = self.limit(number)
    most = self.limit(number) if iterations is None else iterations
    shape = (room.num_lanes,)
    stops = np.asarray(sample_stop(key, shape, most, algorithm.averaging, algorithm.head_start))
    num_iterations = iterations or iterations_to(stops[:size], algorithm, most)
    began = time.monotonic()
    found = search_together(
      self._stages[number],
      room,
      roots,
      beliefs.astype(jnp.result_type(float)),
      stops[:size],
      num_iterations,
      self._params,
      algorithm=algorithm,
      leaf_values=self._leaf_values,
      policy=self._network,
      average=self._average,
    )
    rows = jax.tree.map(np.asarray, found)
    self._paces[number] = self._paces[number].after(time.monotonic() - began, num_iterations)
    return [BeliefSearch(*jax.tree.map(lambda x, i=i: x[i], rows)) for i in range(size)]

  def limit(self, number: int) -> int:
    """Returns the most iterations of a search at one stage, within its time limit if it has one."""
    return self._paces[number].iterations(self.num_iterations)


class Agent(SearchingSeat):
  """Player of one game at a time from one seat.

  `start` begins a game; `observe` is called with every public action, its own and chance's too.

  Attributes:
    player, infostate: the seat, and what the agent holds.
    rows: `[H]` probability of each of its moves of this game, for all that it could have held, by
      the public history that the move leads to.
  """

  _kept: tuple[np.ndarray, int] | None

  def _begin(self) -> None:
    self._root, self._root_beliefs = self.searcher.first_root, self._prior
    # The search, the node of its tree, and moves before the last search, until where.
    self._search: BeliefSearch | None = None
    self._node, self._kept = 0, None
    self.rows: dict[tuple[int, ...], np.ndarray] = {}
    self._history: tuple[int, ...] = ()

  @property
  def pending(self) -> bool:
    """Whether the agent must search before it can act or observe."""
    return self._search is None and not self.searcher.only_deals(self._root)

  @property
  def beliefs(self) -> np.ndarray:
    """The beliefs of the PBS, `[P, H]`: an observer's, from public actions and both policies."""
    if self.searcher.only_deals(self._root):
      return self._root_beliefs
    search, node = self.node()
    beliefs = self._root_beliefs.astype(search.tree.dtype)
    return self._as_played(np.asarray(posteriors(search.tree, search.policy, beliefs))[node])

  def node(self) -> tuple[BeliefSearch, int]:
    """Returns the search that the agent is in, made now if need be, and the node of its tree."""
    return self._found(), self._node

  def choices(self) -> dict[Move, float]:
    search = self._found()
    return choices_at(search.tree, search.policy, self._node, self.player, self.infostate)

  def act(self) -> Move:
    search, node = self.node()
    for child in np.flatnonzero(search.tree.parent == node).tolist():
      self.rows[*self._history, int(search.tree.action[child])] = search.policy[child]
    return super().act()

  def _follow(self, action: int) -> None:
    if self.searcher.only_deals(self._root):
      self._root, self._root_beliefs = self.searcher.deal(self._root, self._root_beliefs, action)
    else:
      search = self._found()
      tree, self._node = search.tree, child_after(search.tree, self._node, action)
      leaf = np.flatnonzero((tree.leaf_nodes == self._node) & (tree.leaf_actor != PADDING))
      if leaf.size:
        self._root = search.successor[leaf[0]]
        self._root_beliefs = self._as_played(np.asarray(search.leaf_beliefs[leaf[0]]))
        self._search, self._node, self._kept = None, 0, None
    self._history = (*self._history, action)

  def search_again(self, change: Callable[[Any], Any]) -> None:
    """Searches the subgame anew after a change to the state of its root.

    The agent's moves keep the probabilities that they were made with.

    Args:
      change: returns the new root, in which the moves made so far are legal too.
    """
    self._root = change(self._root)
    if self._search is None:
      return
    path, played = self._search.tree.history(self._node), self._played()
    self._search, self._node = None, 0
    for action in path:
      self._node = child_after(self._found().tree, self._node, action)
    self._kept = played, self._node

  def _played(self) -> np.ndarray:
    """Returns how likely the agent's moves since the root were, by infostate: `[H]`."""
    search, (before, first) = self._found(), self._kept or (1.0, 0)
    return before * played_to(search.tree, search.policy, self.player, self._node, first)

  def _as_played(self, beliefs: np.ndarray) -> np.ndarray:
    """Returns beliefs `[P, H]` where play is, its own by what it played, not by a later search."""
    own = self._root_beliefs[self.player] * self._played()
    if self._kept is None or own.sum() <= 0:
      return beliefs
    changed = np.array(beliefs)
    changed[self.player] = own / own.sum()
    return changed


# Stopping iterations of the first search of a hand, from which every hand draws one.
_KEPT_STARTS = 32
_TIMED = 16  # iterations of the searches by which speed is measured
_SHARE = 0.9  # of the time that there is, for searches whose end is not known yet
_FORGETS = 0.1  # of the difference to what was measured, at each faster search


class StreetSearcher(Searcher):
  """Searches rounds of hold'em with a trained network, several at a time; agents share one."""

  def __init__(
    self, policy: Policy, *, iterations: int = 256, seconds: float | None = None, **settings: Any
  ):
    """Prepares the searches; programs are compiled as they are needed.

    Args:
      policy: from `rebel_jax.load` or `rebel_jax.load_pretrained`.
      iterations: of each search at most, even.
      seconds: that a search may take at most; speed is measured here and by every search. The first
        search of a hand is made here, once for all hands. None for no limit.
      settings: of `Searcher`; its depth is `"stage"` and nothing else.

    Raises:
      ConfigError: the depth is not allowed.
      ValueError: a number or the algorithm is not allowed.
    """
    super().__init__(policy, iterations=iterations, **settings)
    if seconds is not None:
      self._keep_to(seconds)

  def _subgames(
    self, policy: Policy, depth: int | str | None
  ) -> tuple[Sequence[Any], Sequence[Room]]:
    if depth not in (None, "stage"):
      raise ConfigError(f"depth={depth!r} must be 'stage' where subgames are made on the device")
    # The sizes of bets stand in public states, each decision's its own.
    game, spread = self.game, self.game.fresh.bets or 0.0
    self.with_sizes: Holdem = game.replace(
      bets=game.bets.apart(len(game.deals) + 1), fresh=dataclasses.replace(game.fresh, bets=spread)
    )
    self.first_root = self.with_sizes.initial_state()
    self._rules: Any = self.with_sizes.templates()
    self._possible = jax.jit(self._rules.possible)
    number_of = jax.jit(self._rules.number_of)
    self._number_of = lambda states: np.asarray(number_of(jnp.asarray(states)))
    stages = TemplateSubgames(self._rules, self._network is not None).stages
    lanes = self.num_games
    self._live = lambda number, roots: np.full(len(roots), stages[number].num_leaves)
    return stages, [Room(lanes, lanes * max(stage.num_leaves, 1)) for stage in stages]

  def search(self, roots: Sequence[Any], beliefs: np.ndarray) -> list[BeliefSearch]:
    """Searches the subgames at `roots` `[M, S]` from `beliefs` `[M, P, H]`."""
    states = np.asarray(roots)
    usual = (states == self.first_root).all(axis=1)
    starts = iter([self._start() for _ in range(int(usual.sum()))])
    others = iter(() if usual.all() else super().search(states[~usual], beliefs[~usual]))
    return [next(starts if begins else others) for begins in usual]

  def only_deals(self, root: Any) -> bool:
    """Says whether chance alone moves at `root`, and `deal` follows it without a search."""
    return not self._stages[int(self._number_of(np.asarray(root)[None])[0])].decides

  def deal(self, root: Any, beliefs: np.ndarray, action: int) -> tuple[Any, np.ndarray]:
    """Returns the root after chance's `action`, and the beliefs `[P, H]` there."""
    if action == self.with_sizes.burn:  # which has been left out already
      return root, beliefs
    state = self.with_sizes.next_states(np.asarray(root)[None], np.array([action]))
    live = self._possible(jnp.asarray(state))[0]
    return state[0], np.asarray(normalise_beliefs(beliefs * live, live))

  def _start(self) -> BeliefSearch:
    """Returns one of the searches of the first round, at random."""
    starts = self._starts
    self._key, key = jax.random.split(self._key)
    return starts[int(jax.random.randint(key, (), 0, len(starts)))]

  @functools.cached_property
  def _starts(self) -> list[BeliefSearch]:
    """Searches of the first round, by the iterations that they stop at."""
    found, stage, algorithm = list[BeliefSearch](), self._stages[0], self._algorithm
    root = jnp.asarray(self.first_root, jnp.int32)[None]
    trees, _, iterates = searched_starts(
      stage, root, algorithm, self.limit(0), self._leaf_values, self._params, self._network
    )
    self._key, key = jax.random.split(self._key)
    stops = spread_stops(
      key, _KEPT_STARTS, self.limit(0), algorithm.averaging, algorithm.head_start
    )
    begun = trees, stage.successors(root, trees)
    tree, successor = jax.tree.map(lambda x: np.asarray(x[0]), begun)
    ends = [(iterates.policies[0, stop], iterates.believed[0, stop]) for stop in np.asarray(stops)]
    if self._average:
      ends = [(iterates.average_policy[0],) * 2]
    for played, known in ends:
      below = np.asarray(posteriors(tree, known))[tree.leaf_nodes]
      found.append(BeliefSearch(tree, successor, np.asarray(played), below))
    return found

  def _keep_to(self, seconds: float) -> None:
    """Measures how long searches take, so that they keep to a time; compiles all of them."""
    states = _one_of_each(self._stages, jnp.asarray(self.first_root, jnp.int32)[None])
    for number, stage in enumerate(self._stages):
      if not stage.decides or states[number] is None:
        continue
      state = np.asarray(states[number])
      beliefs = np.asarray(TemplateSubgames(self._rules).prior(jnp.asarray(state)))
      took = []
      for iterations in (_TIMED, _TIMED, 3 * _TIMED):  # the first one compiles
        began = time.monotonic()
        self._search_some(number, state, beliefs, iterations)
        took.append(time.monotonic() - began)
      each = max(took[2] - took[1], 1e-4) / (2 * _TIMED)
      self._paces[number] = SearchPace(seconds, max(took[1] - _TIMED * each, 0.0), each)
    self._start()


class SearchPace(NamedTuple):
  """Seconds of the searches of one program."""

  seconds: float = math.inf  # that one may take
  fixed: float = 0.0  # of a search without iterations
  each: float = 1.0  # of an iteration

  def after(self, took: float, iterations: int) -> "SearchPace":
    """Returns the pace after a search of so many iterations."""
    # A slower one counts at once, faster ones little by little: few searches take longer than
    # they may where a machine is now busy and now idle.
    seen = max(took - self.fixed, 0.0) / iterations
    return self._replace(each=max(seen, self.each + _FORGETS * (seen - self.each), 1e-6))

  def iterations(self, most: int) -> int:
    """Returns how many iterations a search may make: even, at least 2 and at most `most`."""
    return max(2, int(min(most, (_SHARE * self.seconds - self.fixed) / self.each)) // 2 * 2)


def _one_of_each(stages: Sequence[TemplateStage], root: Any) -> list[Any]:
  """Returns a root `[1, S]` of each stage that some line of play from `root` leads to."""
  found: list[Any] = [None] * len(stages)
  waiting = [root]
  while waiting and any(x is None for x in found):
    state = waiting.pop()
    number = next(i for i, stage in enumerate(stages) if bool(stage.holds(state)[0]))
    if found[number] is not None:
      continue
    found[number] = state
    if stages[number].depth_limited:
      trees = jax.jit(TemplateStage.trees_at)(stages[number], state)
      successors = stages[number].successors(state, trees)
      live = np.flatnonzero(np.asarray(trees.leaf_actor)[0] != PADDING)
      # Small pots first, after which there is most to bet and to search.
      pots = np.asarray(successors)[0, live, betting.PAID_0]
      waiting += [successors[0, leaf][None] for leaf in live[np.argsort(-pots, kind="stable")]]
  return found


@checked
def follow(searcher: Searcher, actions: Sequence[int], *, seed: int = 0) -> list[Decision]:
  """Returns an agent's beliefs and policy at every decision along a line of public actions."""
  game = searcher.game
  agent = Agent(searcher, seed=seed)
  agent.start(0, int(np.argmax(np.asarray(game.prior())[0] > 0)))
  # What is not legal is refused here, before any search.
  states = [game.state_after(actions[:count]) for count in range(len(actions) + 1)]
  movers = game.actor(np.stack(states)).tolist()
  found: list[Decision] = []
  history = [game.action_name(action) for action in actions]
  names = tuple(
    tuple(game.infostate_name(player, h) for h in range(game.num_infostates)) for player in (0, 1)
  )
  for count, mover in enumerate(movers):
    if mover < CHANCE:
      rows: dict[int, np.ndarray] = {}
      for agent.player, agent.infostate in ((mover, h) for h in range(game.num_infostates)):
        for move, share in agent.choices().items():  # hidden choices are summed
          rows.setdefault(move.action, np.zeros(game.num_infostates))[agent.infostate] += share
      moves = tuple(game.action_name(action) for action in sorted(rows))
      policy = np.stack([rows[action] for action in sorted(rows)])
      found.append(Decision(tuple(history[:count]), mover, agent.beliefs, moves, policy, names))
    if count < len(actions) and movers[count + 1] <= CHANCE:  # else the game is over
      agent.observe(actions[count])
  return found
