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
from rebel_jax.agents.playing import Agent, Search, describe, searches
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.allowed import ConfigError, check_algorithm
from rebel_jax.networks.value import NetworkLeafValues
from rebel_jax.training.setup import make_algorithm, make_network, make_search_policy
from solvers import validation
from solvers.leaf_values import normalise_beliefs
from solvers.search.batch import sample_stop, spread_stops
from solvers.search.shared_start import search_starts
from solvers.search.templates import TemplateStage, TemplateSubgames
from solvers.sweeps.levels import split_levels
from solvers.xla.compiler_options import work_of_solving

# Ways in which the first search of a hand may end, which all hands choose from.
_KEPT_STARTS = 32
_ITERATIONS = 256
_TIMED = 16  # iterations of the searches that tell how long one takes
_SHARE = 0.9  # of the time that there is, for searches whose end is not known yet
_FORGETS = 0.1  # of the difference to what was measured, at each faster search


class StreetSearcher:
  """Searches rounds of hold'em with a trained network, several at a time; agents share one.

  A search runs until the iteration whose policy is played, and no further. The first round of a
  hand, which is always the same, is searched once; every hand plays one of 32 of its iterations.
  Roots hold the sizes of bets (`Holdem.size_columns`), and one that is changed there is searched by
  the same program.

  Attributes:
    game: the rules.
    with_sizes: the same, of whose public states roots are.
    num_iterations: of each search at most; one player's update is one.
    first_root: at which hands start.
  """

  def __init__(
    self,
    policy: Policy,
    *,
    iterations: int | None = None,
    algorithm: str | None = None,
    depth: int | str | None = None,
    seconds: float | None = None,
    average: bool = False,
    num_games: int = 1,
    seed: int = 0,
  ):
    """Prepares the searches; programs are compiled as they are needed.

    Args:
      policy: from `rebel_jax.load` or `rebel_jax.load_pretrained`.
      iterations: of each search at most, even; 256 by default.
      algorithm: a name as in `train.py`; None for the run's `eval_algorithm`.
      depth: `"stage"` and nothing else.
      seconds: that a search may take at most; the speed of programs is measured here, for which
        they are compiled, and by every search after it. None for no limit. The first search of a
        hand is made here, once for all hands.
      average: play the average policy of each search, which is not safe, but what others may be
        told of the agent (`solvers.local_best_response`).
      num_games: how many subgames one compiled call has room for.
      seed: of the stopping iterations.

    Raises:
      ConfigError: the depth is not allowed.
      ValueError: a number or the algorithm is not allowed.
    """
    if depth not in (None, "stage"):
      raise ConfigError(f"depth={depth!r} must be 'stage' where subgames are made on the device")
    iterations = _ITERATIONS if iterations is None else iterations
    name = policy.config.rebel.eval_algorithm if algorithm is None else algorithm
    check_algorithm("algorithm", name)
    self.game: Any = policy.config.make_game()
    self.with_sizes = _with_sizes(self.game)
    self.num_iterations = validation.check_even("iterations", iterations)
    self.num_games = validation.check_integer("num_games", num_games)
    self.first_root: Any = self.with_sizes.initial_state()
    self._params, self._average = policy.params, average
    self._key = jax.random.key(seed)
    self._algorithm = make_algorithm(policy.config, name)
    self._leaf_values = NetworkLeafValues(make_network(policy.config, self.game))
    self._network = make_search_policy(policy.config, self.game)
    self._rules: Any = self.with_sizes.templates()
    self._number_of, self._possible = jax.jit(self._rules.number_of), jax.jit(self._rules.possible)
    subgames = TemplateSubgames(self._rules, self._network is not None)
    self._stages = subgames.stages
    self._starts: list[Search] = []
    self._limits = [self.num_iterations] * len(self._stages)
    self._paces: dict[int, SearchPace] = {}
    if seconds is not None:
      self._keep_to(seconds)

  def agent(self, *, seed: int = 0) -> Agent:
    """Returns an agent that searches so."""
    return Agent(self, seed=seed)

  def search(self, roots: Sequence[Any], beliefs: np.ndarray) -> list[Search]:
    """Searches the subgames at `roots` `[M, S]` from `beliefs` `[M, P, H]`."""
    states, numbers = np.asarray(roots), self._numbers(np.asarray(roots))
    found: dict[int, Search] = {}
    for number in np.unique(numbers).tolist():
      members = np.flatnonzero(numbers == number)
      if number == 0:
        usual = (states[members] == self.first_root).all(axis=1)
        found |= {int(member): self._start() for member in members[usual]}
        members = members[~usual]
      for first in range(0, len(members), self.num_games):
        chunk = members[first : first + self.num_games]
        for member, search in zip(chunk, self._search(number, states[chunk], beliefs[chunk])):
          found[int(member)] = search
    return [found[i] for i in range(len(states))]

  def only_deals(self, root: Any) -> bool:
    """Says whether chance alone moves at `root`, and `deal` follows it without a search."""
    return not self._stages[int(self._numbers(np.asarray(root)[None])[0])].decides

  def deal(self, root: Any, beliefs: np.ndarray, action: int) -> tuple[Any, np.ndarray]:
    """Returns the root after chance's `action`, and the beliefs `[P, H]` there.

    Where the card burned has been left out already, there is nothing to do.
    """
    if action == self.with_sizes.burn:
      return root, beliefs
    state = self.with_sizes.next_states(np.asarray(root)[None], np.array([action]))
    live = self._possible(jnp.asarray(state))[0]
    return state[0], np.asarray(normalise_beliefs(beliefs * live, live))

  def _numbers(self, states: np.ndarray) -> np.ndarray:
    return np.asarray(self._number_of(jnp.asarray(states)))

  def _search(
    self, number: int, states: np.ndarray, beliefs: np.ndarray, iterations: int | None = None
  ) -> list[Search]:
    """Searches subgames of one template, no more than there is room for.

    `iterations` is how many are made whatever the sampled iteration; None for as many as it needs.
    """
    size, stage = len(states), self._stages[number]
    index = np.concatenate([np.arange(size), np.zeros(self.num_games - size, int)])
    self._key, key = jax.random.split(self._key)
    algorithm = self._algorithm
    if iterations is None and self._average:
      iterations = self._limits[number]
    most = self._limits[number] if iterations is None else iterations
    stops = np.asarray(
      sample_stop(key, (self.num_games,), most, algorithm.averaging, algorithm.head_start)
    )
    made = 2 * (int(stops[:size].max()) + 1) if iterations is None else iterations
    began = time.monotonic()
    trees, features, successors = _made(stage, states[index].astype(np.int32))
    policy, at_nodes, below, values = searches[work_of_solving(trees, self._leaf_values)](
      trees,
      features,
      beliefs[index].astype(trees.dtype),
      stops,
      np.arange(self.num_games) < size,
      made,
      self._params,
      algorithm=algorithm,
      leaf_values=self._leaf_values,
      network=self._network,
      num_rows=self.num_games * max(stage.num_leaves, 1),
      average=self._average,
    )
    parts = (trees, successors, policy, at_nodes, below, values)
    rows = jax.tree.map(np.asarray, parts)
    self._learn_pace(number, time.monotonic() - began, made)
    return [Search(*jax.tree.map(lambda x, i=i: x[i], rows)) for i in range(size)]

  def _start(self) -> Search:
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
    trees, _, successors = _made(stage, root)
    tree, successor = jax.tree.map(lambda x: np.asarray(x[0]), (trees, successors))
    ends = [(iterates.policies[0, stop], iterates.believed[0, stop]) for stop in np.asarray(stops)]
    if self._average:
      ends = [(iterates.average_policy[0],) * 2]
    for played, known in ends:
      policy, nodes = _described(tree, played)
      _, believed = _described(tree, known)
      below = np.asarray(believed)[tree.leaf_nodes]
      nothing = np.zeros((2, tree.num_infostates))
      self._starts.append(
        Search(tree, successor, np.asarray(policy), np.asarray(nodes), below, nothing)
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
      run = functools.partial(self._search, number, state, beliefs)
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


def _with_sizes(game: Any) -> Holdem:
  """Returns the game with the sizes of bets in its public states, each decision's its own."""
  bets = game.bets.apart(len(game.deals) + 1)
  spread = 0.0 if game.fresh.bets is None else game.fresh.bets
  return game.replace(bets=bets, fresh=dataclasses.replace(game.fresh, bets=spread))


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
      trees, _, successors = _made(stages[number], state)
      live = np.flatnonzero(np.asarray(trees.leaf_actor)[0] != PADDING)
      # Small pots first, after which there is most to bet and to search.
      pots = np.asarray(successors)[0, live, betting.PAID_0]
      waiting += [successors[0, leaf][None] for leaf in live[np.argsort(-pots, kind="stable")]]
  return found


@jax.jit
def _made(stage: TemplateStage, roots: jax.Array):
  """Returns trees, features of their decisions, and successors of subgames at `roots`."""
  return stage.trees_at(roots), stage.features_at(roots), stage.successors(roots)


@functools.partial(
  jax.jit, static_argnames=("algorithm", "num_iterations", "leaf_values", "network")
)
def _iterates(stage, roots, params, algorithm, num_iterations, leaf_values, network):
  return search_starts(stage, roots, algorithm, num_iterations, leaf_values, params, network)


@jax.jit
def _described(tree, policy: jax.Array):
  return describe(tree, tree.prior, split_levels(tree, policy))
