"""Self-play of games of perfect information, by searches that make their trees on the device.

Everybody knows all, so that beliefs are one and a search owes nothing to those before it: each move
is searched from the state that the game is in. What is learned is the outcome of games, as in
AlphaZero, and states that searches asked about, solved in other lanes (section 3.4, table 3).
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import TERMINAL, DeviceGame
from games.public_tree import Array
from rebel_jax.training import questions
from rebel_jax.training import replay as replays
from rebel_jax.training.growing_play import Solved
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import Played, SelfPlayStats
from solvers import GTCFR, StateFunction, gt_cfr_inserted
from solvers.xla.compiler_options import Work


class Beginning(NamedTuple):
  """Where games begin: a public state `[S]`."""

  state: Array

  @classmethod
  def of(cls, game: DeviceGame) -> "Beginning":
    """Returns where a game begins."""
    return cls(np.asarray(game.initial_state()))

  @property
  def num_subgames(self) -> None:
    """Nobody has counted the states that a search may be about."""


class Trail(NamedTuple):
  """The decisions of each game so far: states `[B, T, S]` and the policies searched `[B, T, A]`."""

  states: jax.Array
  policy: jax.Array


class PerfectLanes(NamedTuple):
  """The states of `B` games of self-play, and what waits to be solved.

  Attributes:
    states: `[B, S]` the decisions that the games stand at.
    moves: `[B]` how many were made in each game.
    plays_on: `[B]` bool, in which nobody resigns.
    trail: of the moves made.
    waiting: states `[S]`, of which `taken` `[]` were taken out.
    taken: see `waiting`.
  """

  states: jax.Array
  moves: jax.Array
  plays_on: jax.Array
  trail: Trail
  waiting: Replay
  taken: jax.Array


class Found(NamedTuple):
  """What `M` searches found.

  Attributes:
    policy: `[M, A]` at their roots.
    values: `[M, P]` of the roots.
    asked: `[M, S]` one of the states that joined and were asked about, each as likely.
    total: `[M]` how many those were.
  """

  policy: jax.Array
  values: jax.Array
  asked: jax.Array
  total: jax.Array


class Moved(NamedTuple):
  """What comes of a move in each game: `[B]` each, states `[B, S]`.

  Attributes:
    states: after it.
    ended: whether the game ended by its rules.
    resigned: whether the mover resigned instead of moving.
  """

  states: jax.Array
  ended: jax.Array
  resigned: jax.Array


@dataclasses.dataclass(frozen=True)
class PerfectPlay:
  """Settings of self-play in games of perfect information, all static.

  Attributes:
    game: the rules.
    search: of both kinds of lanes.
    network: what searches ask.
    num_lanes: B, games side by side.
    num_solvers: questions solved in a step.
    query_share: of the searches of play, how many leave a question to solve, on average.
    recursive_share: the same of the searches that solve questions.
    td1_share: of the decisions of games that ended by the rules, how many are learned.
    exploration: probability of a uniform move.
    greedy_after: moves of a game after which the likeliest are made; 0 for never.
    resign_below: share of the largest payoff; who expects to lose more resigns; 0 for never.
    never_resign: share of games in which nobody does.
  """

  game: DeviceGame
  search: GTCFR
  network: StateFunction
  num_lanes: int
  num_solvers: int
  query_share: float = 0.9
  recursive_share: float = 0.1
  td1_share: float = 0.0
  exploration: float = 0.1
  greedy_after: int = 0
  resign_below: float = 0.0
  never_resign: float = 0.0

  @property
  def num_waiting(self) -> int:
    """Questions that the queue has room for; the newest overwrite the oldest."""
    return 8 * self.num_lanes

  @property
  def most_moves(self) -> int:
    """T, decisions of a game that are kept until its end."""
    return self.game.max_moves if self.td1_share else 1

  @property
  def most_examples(self) -> int:
    """Examples that a step makes at most."""
    return self.num_solvers + (self.num_lanes * self.most_moves if self.td1_share else 0)

  def work(self, table: Beginning) -> Work:
    """Returns trees: the older emitters compile a search in two thirds of the time."""
    return Work.TREES

  def init(self, table: Beginning, key: jax.Array) -> PerfectLanes:
    """Returns lanes that all begin a game."""
    first = jnp.asarray(table.state)
    number, kept = self.num_lanes, self.most_moves
    trail = Trail(
      jnp.zeros((number, kept, *first.shape), first.dtype),
      jnp.zeros((number, kept, self.game.num_actions)),
    )
    return PerfectLanes(
      states=jnp.broadcast_to(first, (number, *first.shape)),
      moves=jnp.zeros(number, jnp.int32),
      plays_on=jax.random.uniform(key, (number,)) < self.never_resign,
      trail=trail,
      waiting=replays.make_replay(first, self.num_waiting),
      taken=jnp.zeros((), jnp.int32),
    )

  def step(self, table: Beginning, lanes: PerfectLanes, params: Any, key: jax.Array) -> Played:
    """Makes one move in each game, and solves as many questions as there are lanes for it."""
    search_key, move_key, ask_key, learn_key = jax.random.split(key, 4)
    asked, active, taken = questions.take(lanes.waiting, lanes.taken, self.num_solvers)
    asked = jnp.where(active[:, None], asked, table.state)
    found = self.search_all(params, jnp.concatenate([lanes.states, asked]), search_key)
    play, solved = (
      jax.tree.map(lambda x, s=s: x[s], found)
      for s in (slice(self.num_lanes), slice(self.num_lanes, None))
    )
    shares = self.query_share, self.recursive_share
    chosen = questions.choose(ask_key, found.total > 0, active, shares)
    waiting = replays.add(lanes.waiting, found.asked, chosen)
    examples = [self.examples(asked, solved.policy, solved.values, active)]
    moved = self.move(lanes, play, move_key)
    trail = self._note(lanes, play.policy)
    if self.td1_share:
      examples.append(self._outcomes(lanes, trail, moved, learn_key))
    over = moved.ended | moved.resigned
    drawn = jax.random.uniform(jax.random.fold_in(move_key, 1), over.shape) < self.never_resign
    lanes = PerfectLanes(
      states=jnp.where(over[:, None], table.state, moved.states),
      moves=jnp.where(over, 0, lanes.moves + 1),
      plays_on=jnp.where(over, drawn, lanes.plays_on),
      trail=trail,
      waiting=waiting,
      taken=taken,
    )
    solves = sum(batch.active.sum(dtype=jnp.int32) for batch in examples)
    rows = found.total.sum()
    in_each = rows / (self.search.rounds * self.search.updates_per_round)
    solves = jnp.asarray(solves, jnp.int32)
    stats = SelfPlayStats(solves, in_each.astype(jnp.int32), rows.astype(float))
    return Played(lanes, tuple(examples), stats)

  def search_all(self, params: Any, states: jax.Array, key: jax.Array) -> Found:
    """Searches from `states` `[M, S]`."""
    keys = jax.random.split(key, len(states))
    return jax.vmap(functools.partial(self._search, params))(states, keys)

  def _search(self, params: Any, state: jax.Array, key: jax.Array) -> Found:
    search_key, ask_key = jax.random.split(key)
    found = gt_cfr_inserted(
      self.game,
      search=self.search,
      key=search_key,
      network=self.network,
      params=params,
      root_state=state,
      beliefs=jnp.ones((2, 1)),
    )
    tree = found.tree
    was_asked = (tree.depth > 0) & (tree.kind != TERMINAL)
    order = jnp.where(was_asked, jax.random.uniform(ask_key, was_asked.shape), -1.0)
    one = tree.state[jnp.argmax(order)]
    return Found(found.policy_at()[:, 0], found.root_values[:, 0], one, was_asked.sum())

  def move(self, lanes: PerfectLanes, play: Found, key: jax.Array) -> Moved:
    """Makes the moves that searches found, or resigns."""
    mover = jax.vmap(self.game.actor)(lanes.states)
    legal = jax.vmap(self.game.legal_actions)(lanes.states)
    uniform = legal.astype(play.policy.dtype)
    uniform = uniform / uniform.sum(axis=1, keepdims=True)
    policy = (1.0 - self.exploration) * play.policy + self.exploration * uniform
    chosen = jax.random.categorical(key, jnp.where(legal, jnp.log(policy), -jnp.inf))
    if self.greedy_after:
      likeliest = jnp.argmax(jnp.where(legal, play.policy, -1.0), axis=1)
      chosen = jnp.where(lanes.moves >= self.greedy_after, likeliest, chosen)
    after = jax.vmap(self.game.next_state)(lanes.states, chosen)
    resigned = jnp.zeros_like(lanes.plays_on)
    if self.resign_below:
      worth = jnp.where(mover == 1, play.values[:, 1], play.values[:, 0])
      resigned = (worth < -self.resign_below * self.game.largest_payoff) & ~lanes.plays_on
    ended = (jax.vmap(self.game.actor)(after) == TERMINAL) & ~resigned
    return Moved(after, ended, resigned)

  def examples(
    self, states: jax.Array, policy: jax.Array, values: jax.Array, active: jax.Array
  ) -> Solved:
    """Returns decisions `[E, S]` with policies `[E, A]` and values `[E, P]` as examples."""
    mover = jax.vmap(self.game.actor)(states)
    seen = [jax.vmap(lambda s, p=p: self.game.features(s, p))(states) for p in (0, 1)]
    second = (mover == 1)[:, None]
    legal = jax.vmap(self.game.legal_actions)(states)
    one = jnp.ones((len(states), 2, 1))
    return Solved(
      features=jnp.where(second, seen[1], seen[0]),
      beliefs=one,
      values=jnp.where(second, values[:, ::-1], values)[:, :, None],
      value_weight=one,
      policy=jnp.where(legal, policy, 0.0)[:, :, None],
      comes_from=jnp.where(legal, 0, -1).astype(jnp.int32)[:, :, None],
      policy_weight=one[:, 0],
      active=active,
    )

  def _note(self, lanes: PerfectLanes, policy: jax.Array) -> Trail:
    """Writes down the decisions at which the games stand."""
    each = jnp.arange(self.num_lanes)
    place = jnp.minimum(lanes.moves, self.most_moves - 1)
    trail = lanes.trail
    return Trail(
      trail.states.at[each, place].set(lanes.states),
      trail.policy.at[each, place].set(policy.astype(trail.policy.dtype)),
    )

  def _outcomes(self, lanes: PerfectLanes, trail: Trail, moved: Moved, key: jax.Array) -> Solved:
    """Returns decisions of the games that ended by the rules, with what they came to."""
    one = jnp.ones(1)
    won = jax.vmap(lambda s: self.game.terminal_values(s, one, 0)[0])(moved.states)
    visited = jnp.arange(self.most_moves, dtype=jnp.int32)[None] <= lanes.moves[:, None]
    learned = jax.random.uniform(key, visited.shape) < self.td1_share
    active = visited & moved.ended[:, None] & learned
    values = jnp.broadcast_to(jnp.stack([won, -won], axis=1)[:, None], (*visited.shape, 2))
    states, policy, values = (
      x.reshape(-1, x.shape[-1]) for x in (trail.states, trail.policy, values)
    )
    return self.examples(states, policy, values, active.reshape(-1))
