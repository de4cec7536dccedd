"""Searches of hold'em whose subgames are made where play leads, and that keep to a time."""

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import PADDING
from games.poker import betting
from games.poker.holdem import Holdem
from rebel_jax.agents.belief_agent import MOST_GAMES, BeliefSearch, Searcher, describe, made
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.allowed import ConfigError
from solvers.leaf_values import normalise_beliefs
from solvers.search import Room, TemplateStage, TemplateSubgames, search_starts, spread_stops
from solvers.sweeps import split_levels
from solvers.xla import Programs

# Ways in which the first search of a hand may end, which all hands choose from.
_KEPT_STARTS = 32
_TIMED = 16  # iterations of the searches that tell how long one takes
_SHARE = 0.9  # of the time that there is, for searches whose end is not known yet
_FORGETS = 0.1  # of the difference to what was measured, at each faster search


class StreetSearcher(Searcher):
  """Searches rounds of hold'em with a trained network, several at a time; agents share one.

  A search runs until the iteration whose policy is played, and no further. The first round of a
  hand, which is always the same, is searched once; every hand plays one of 32 of its iterations.
  Roots hold the sizes of bets (`Holdem.size_columns`), and one that is changed there is searched by
  the same program.

  Attributes:
    with_sizes: the rules of whose public states roots are.
    game, num_iterations, first_root, most_games: see `Searcher`.
  """

  most_games = MOST_GAMES

  def __init__(
    self, policy: Policy, *, iterations: int = 256, seconds: float | None = None, **settings: Any
  ):
    """Prepares the searches; programs are compiled as they are needed.

    Args:
      policy: from `rebel_jax.load` or `rebel_jax.load_pretrained`.
      iterations: of each search at most, even.
      seconds: that a search may take at most; the speed of programs is measured here, for which
        they are compiled, and by every search after it. None for no limit. The first search of a
        hand is made here, once for all hands.
      settings: of `Searcher`; its depth is `"stage"` and nothing else.

    Raises:
      ConfigError: the depth is not allowed.
      ValueError: a number or the algorithm is not allowed.
    """
    super().__init__(policy, iterations=iterations, **settings)
    self._starts: list[BeliefSearch] = []
    self._paces: dict[int, SearchPace] = {}
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
    return stages, [Room(lanes, lanes * max(stage.num_leaves, 1)) for stage in stages]

  def _live(self, number: int, roots: np.ndarray) -> np.ndarray:
    return np.full(len(roots), self._stages[number].num_leaves)

  def search(self, roots: Sequence[Any], beliefs: np.ndarray) -> list[BeliefSearch]:
    """Searches the subgames at `roots` `[M, S]` from `beliefs` `[M, P, H]`."""
    states = np.asarray(roots)
    usual = (states == self.first_root).all(axis=1)
    found = [self._start() for _ in range(int(usual.sum()))]
    if not usual.all():
      found += super().search(states[~usual], beliefs[~usual])
    return [found[i] for i in np.argsort(np.argsort(~usual, kind="stable"))]

  def only_deals(self, root: Any) -> bool:
    """Says whether chance alone moves at `root`, and `deal` follows it without a search."""
    return not self._stages[int(self._number_of(np.asarray(root)[None])[0])].decides

  def deal(self, root: Any, beliefs: np.ndarray, action: int) -> tuple[Any, np.ndarray]:
    """Returns the root after chance's `action`, and the beliefs `[P, H]` there.

    Where the card burned has been left out already, there is nothing to do.
    """
    if action == self.with_sizes.burn:
      return root, beliefs
    state = self.with_sizes.next_states(np.asarray(root)[None], np.array([action]))
    live = self._possible(jnp.asarray(state))[0]
    return state[0], np.asarray(normalise_beliefs(beliefs * live, live))

  def _start(self) -> BeliefSearch:
    """Returns one of the searches of the first round, at random."""
    if not self._starts:
      self._search_start()
    self._key, key = jax.random.split(self._key)
    return self._starts[int(jax.random.randint(key, (), 0, len(self._starts)))]

  def _search_start(self) -> None:
    stage, algorithm = self._stages[0], self._algorithm
    root = jnp.asarray(self.first_root, jnp.int32)[None]
    iterates = _iterates(
      stage, root, self._params, algorithm, self._limits[0], self._leaf_values, self._network
    )
    self._key, key = jax.random.split(self._key)
    stops = spread_stops(
      key, _KEPT_STARTS, self._limits[0], algorithm.averaging, algorithm.head_start
    )
    trees, _, successors = made(stage, root)
    tree, successor = jax.tree.map(lambda x: np.asarray(x[0]), (trees, successors))
    ends = [(iterates.policies[0, stop], iterates.believed[0, stop]) for stop in np.asarray(stops)]
    if self._average:
      ends = [(iterates.average_policy[0],) * 2]
    for played, known in ends:
      policy, nodes = _described(tree, played)
      _, believed = _described(tree, known)
      below = np.asarray(believed)[tree.leaf_nodes]
      self._starts.append(
        BeliefSearch(tree, successor, np.asarray(policy), np.asarray(nodes), below)
      )

  def _keep_to(self, seconds: float) -> None:
    """Measures how long searches take, so that they keep to a time, and makes the first of a hand.

    Whatever is searched later has been compiled then.
    """
    states = _one_of_each(self._stages, jnp.asarray(self.first_root, jnp.int32)[None])
    for number, stage in enumerate(self._stages):
      if not stage.decides or states[number] is None:
        continue
      state = np.asarray(states[number])
      beliefs = np.asarray(TemplateSubgames(self._rules).prior(jnp.asarray(state)))
      run = functools.partial(self._search_some, number, state, beliefs)
      took = []
      for iterations in (_TIMED, _TIMED, 3 * _TIMED):  # the first one compiles
        began = time.monotonic()
        run(iterations)
        took.append(time.monotonic() - began)
      each = max(took[2] - took[1], 1e-4) / (2 * _TIMED)
      self._paces[number] = SearchPace(seconds, max(took[1] - _TIMED * each, 0.0), each)
      self._limits[number] = self._paces[number].iterations(self.num_iterations)
    self._search_start()

  def _learn_pace(self, number: int, took: float, iterations: int) -> None:
    """Takes note of how long a search of one template took."""
    if (pace := self._paces.get(number)) is not None:
      self._paces[number] = pace.after(took, iterations)
      self._limits[number] = self._paces[number].iterations(self.num_iterations)


class SearchPace(NamedTuple):
  """How long the searches of one program take.

  Attributes:
    seconds: that one may take.
    fixed: seconds of a search without iterations.
    each: seconds of an iteration. A slower one counts at once, faster ones little by little, so
      that few searches take longer than they may where a machine is now busy and now idle.
  """

  seconds: float
  fixed: float
  each: float

  def after(self, took: float, iterations: int) -> "SearchPace":
    """Returns the pace after a search of so many iterations."""
    seen = max(took - self.fixed, 0.0) / iterations
    return self._replace(each=max(seen, self.each + _FORGETS * (seen - self.each), 1e-6))

  def iterations(self, most: int) -> int:
    """Returns how many iterations a search may make: even, at least 2 and at most `most`."""
    fit = int((_SHARE * self.seconds - self.fixed) / self.each) // 2 * 2
    return max(2, min(most, fit))


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
      trees, _, successors = made(stages[number], state)
      live = np.flatnonzero(np.asarray(trees.leaf_actor)[0] != PADDING)
      # Small pots first, after which there is most to bet and to search.
      pots = np.asarray(successors)[0, live, betting.PAID_0]
      waiting += [successors[0, leaf][None] for leaf in live[np.argsort(-pots, kind="stable")]]
  return found


@functools.partial(
  Programs, static_argnames=("algorithm", "num_iterations", "leaf_values", "network")
)
def _iterates(stage, roots, params, algorithm, num_iterations, leaf_values, network):
  trees = stage.trees_at(roots)
  features = stage.features_at(roots, trees)
  return search_starts(trees, features, algorithm, num_iterations, leaf_values, params, network)


@Programs
def _described(tree, policy: jax.Array):
  return describe(tree, tree.prior, split_levels(tree, policy))
