"""Self-play by chains of growing searches, and lanes that solve their questions to the network.

Some of the questions that the searches of games ask enter a queue, from which further lanes solve
them without a gadget (Player of Games, sections 3.3 and 3.4, algorithm 2).
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import TERMINAL, Game
from rebel_jax.training import replay as replays
from rebel_jax.training.self_play import Played, SelfPlayStats, where_lanes
from solvers import GTCFR, StateFunction
from solvers.growing import (
  Found,
  Ground,
  How,
  Left,
  PublicState,
  Standing,
  alone,
  beginning,
  deal,
  next_starts,
  play_on,
  search_each,
  seat_of,
)
from solvers.xla import Work


class Question(NamedTuple):
  """A public belief state that a search asked about: the state and `[P, H]` beliefs."""

  here: PublicState
  beliefs: jax.Array


class Trail(NamedTuple):
  """The decisions of each game so far: states `[B, T, S]` and the policies searched `[B, T, M]`."""

  states: jax.Array
  policy: jax.Array


class ChainLanes(NamedTuple):
  """The states of `B` games of self-play, and the questions that wait to be solved."""

  standing: Standing  # `[B, ...]` nodes of the games
  moves: jax.Array  # `[B]` made in each game
  # `[B, P, ...]` of each player's last search; None in games of perfect information
  left: Left | None
  plays_on: jax.Array | None  # `[B]` bool, in which no player resigns; None where none does anyway
  trail: Trail | None  # of the moves made; None where outcomes are not learned
  waiting: replays.Replay  # a queue of questions
  taken: jax.Array  # `[]` questions taken out of it


class Solved(NamedTuple):
  """Examples of the results of searches at `E` public belief states, the mover's rows first."""

  features: Any  # `[E, F]` as the mover sees them
  beliefs: Any  # `[E, 2 * H]`
  values: Any  # `[E, P, H]` mean expected payoffs
  value_weight: Any  # `[E, P, H]` 1 where there is a value
  policy: Any  # `[E, M, H]` of the mover, by move and the infostate from which it is made
  comes_from: Any  # `[E, M, H]` that infostate; -1 where there is no such move
  policy_weight: Any  # `[E, H]` 1 where the mover has a policy


@dataclasses.dataclass(frozen=True)
class ChainPlay:
  """Settings of self-play by chains of growing searches, all static; its table is a `Ground`."""

  search: GTCFR  # of both kinds of lanes
  network: StateFunction  # that searches evaluate
  num_lanes: int  # B, games side by side
  num_solvers: int  # questions solved in a step
  # of the searches of play, how many leave a question to solve, on average
  query_share: float = 0.9
  recursive_share: float = 0.1  # the same of the searches that solve questions
  exploration: float = 0.1  # probability of a uniform move
  td1_share: float = 0.0  # of the decisions of games that ended by the rules, how many are learned
  most_moves: int = 1  # T, decisions of a game that are kept until its end
  greedy_after: int = 0  # moves of a game after which the likeliest are made; 0 for never
  # share of the largest payoff; who expects to lose more resigns; 0 for never
  resign_below: float = 0.0
  never_resign: float = 0.0  # share of games in which no player does

  def most_examples(self, table: Ground, target: Any) -> int:
    """Returns how many examples of the target a step makes at most."""
    return self.num_solvers + (self.num_lanes * self.most_moves if self.td1_share else 0)

  def work(self, table: Ground) -> Work:
    """Returns `Work.TREES`, as which a search compiles in two thirds of the time."""
    return Work.TREES

  def init(self, table: Ground, key: jax.Array) -> ChainLanes:
    """Returns lanes that all begin a game."""
    rules, number = table.rules, self.num_lanes
    standing = jax.vmap(functools.partial(deal, rules))(jax.random.split(key, number))
    left = trail = None
    if rules.num_infostates > 1:
      nothing = table.nothing()
      left = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, 2, *x.shape)), nothing)
    if self.td1_share:
      states = standing.here.state
      kept = jnp.zeros((number, self.most_moves, states.shape[1]), states.dtype)
      trail = Trail(kept, jnp.zeros((number, self.most_moves, rules.num_actions)))
    return ChainLanes(
      standing=standing,
      moves=jnp.zeros(number, jnp.int32),
      left=left,
      plays_on=self._plays_on(key) if self.resign_below else None,
      trail=trail,
      waiting=replays.make_replay(_first_question(rules), 8 * number),
      taken=jnp.zeros((), jnp.int32),
    )

  def step(self, table: Ground, lanes: ChainLanes, params: Any, key: jax.Array) -> Played:
    """Makes one move in each game, and solves as many questions as there are lanes for it."""
    search_key, play_key, ask_key, learn_key = jax.random.split(key, 4)
    asked, active, taken = replays.take(lanes.waiting, lanes.taken, self.num_solvers)
    asked = where_lanes(active, asked, _first_question(table.rules))
    found = self._search(table, lanes, asked, search_key, active, params)
    played, solved = (
      jax.tree.map(lambda x, s=s: x[s], found)
      for s in (slice(self.num_lanes), slice(self.num_lanes, None))
    )
    # A search asks nothing if only ends of the game follow its root.
    there, shares = found.asked.total > 0, (self.query_share, self.recursive_share)
    chosen = replays.choose(ask_key, there, active, shares)
    noted = Question(found.asked.here, found.asked.beliefs)
    lanes = lanes._replace(waiting=replays.add(lanes.waiting, noted, chosen), taken=taken)
    weights = solved.root_mass > 0
    made = examples(table.rules, asked, solved.policy, solved.root_values, weights), active
    lanes, outcomes = self._play(table, lanes, played, play_key, learn_key)
    batches = (made,) if outcomes is None else (made, outcomes)
    solves = sum(active.sum(dtype=jnp.int32) for _, active in batches)
    rows = found.asked.total.sum()
    in_each = rows / (self.search.rounds * self.search.updates_per_round)
    stats = SelfPlayStats(
      jnp.asarray(solves, jnp.int32), in_each.astype(jnp.int32), rows.astype(float)
    )
    return Played(lanes, batches, stats)

  def _search(
    self,
    table: Ground,
    lanes: ChainLanes,
    asked: Question,
    key: jax.Array,
    active: jax.Array,
    params: Any,
  ) -> Found:
    """Searches for the games' decisions, then for the questions: those of `active` `[S]`."""
    rules, (here, _, since), each = table.rules, lanes.standing, jnp.arange(self.num_lanes)
    mover = rules.actor(here.state)
    before, since = jax.tree.map(lambda x: x[each, mover], (lanes.left, since))
    first = next_starts(table, before, here, since, mover)
    second = jax.vmap(functools.partial(alone, rules))(asked.here, asked.beliefs)
    about = jax.tree.map(lambda x, y: jnp.concatenate([x.astype(y.dtype), y]), first, second)
    return search_each(
      table,
      about,
      jax.random.split(key, self.num_lanes + self.num_solvers),
      jnp.concatenate([jnp.ones(self.num_lanes, bool), active]),
      how=How(self.search.of_any_length(), self.network),
      rounds=self.search.rounds,
      params=params,
    )

  def _play(
    self, table: Ground, lanes: ChainLanes, played: Found, key: jax.Array, learn_key: jax.Array
  ) -> tuple[ChainLanes, tuple[Solved, jax.Array] | None]:
    """Makes the moves of searches; games that end begin anew. Returns also outcomes."""
    rules, number = table.rules, self.num_lanes
    move_key, new_key = jax.random.split(key)
    mover = rules.actor(lanes.standing.here.state)
    after, ended = self._move(rules, lanes, played, jax.random.split(move_key, number))
    over = ended
    if lanes.plays_on is not None:
      each = jnp.arange(number)
      worth = played.values[each, mover, lanes.standing.hands[each, mover]]
      resigned = (worth < -self.resign_below * rules.largest_payoff) & ~lanes.plays_on
      over, ended = ended | resigned, ended & ~resigned
      plays_on = jnp.where(over, self._plays_on(jax.random.fold_in(key, 1)), lanes.plays_on)
      lanes = lanes._replace(plays_on=plays_on)
    outcomes = None
    if lanes.trail is not None:
      lanes = lanes._replace(trail=self._note(lanes, played.policy))
      outcomes = self._outcomes(rules, lanes, after, ended, learn_key)
    news = jax.vmap(functools.partial(deal, rules))(jax.random.split(new_key, number))
    if lanes.left is not None:
      each = jnp.arange(number)
      left = jax.tree.map(lambda x, y: x.at[each, mover].set(y), lanes.left, played.left)
      first = beginning(rules)
      begun = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, 2, *x.shape)), first)
      current = jnp.where(over[:, None], -1, left.current)
      left = left._replace(current=current, here=where_lanes(over, begun, left.here))
      lanes = lanes._replace(left=left)
    moves = jnp.where(over, 0, lanes.moves + 1)
    return lanes._replace(standing=where_lanes(over, news, after), moves=moves), outcomes

  def _move(
    self, rules: Game, lanes: ChainLanes, played: Found, keys: jax.Array
  ) -> tuple[Standing, jax.Array]:
    """Returns where games stand after their moves, and which are over."""
    policy, exploration = played.policy, jnp.full(self.num_lanes, self.exploration)
    if self.greedy_after:
      greedy = lanes.moves >= self.greedy_after
      likeliest = jax.nn.one_hot(policy.argmax(axis=1), policy.shape[1], axis=1)
      policy = jnp.where(greedy[:, None, None], likeliest, policy)
      exploration = jnp.where(greedy, 0.0, exploration)

    go = jax.vmap(lambda *about, rate: play_on(rules, *about, exploration=rate))
    return go(lanes.standing, policy, keys, rate=exploration)

  def _plays_on(self, key: jax.Array) -> jax.Array:
    """Draws the games without resignation: `[B]`."""
    return jax.random.uniform(key, (self.num_lanes,)) < self.never_resign

  def _note(self, lanes: ChainLanes, policy: jax.Array) -> Trail:
    """Writes down the decisions at which the games stand, with their policies `[B, M, 1]`."""
    assert lanes.trail is not None
    states, kept = lanes.trail
    each, place = jnp.arange(self.num_lanes), jnp.minimum(lanes.moves, self.most_moves - 1)
    return Trail(
      states.at[each, place].set(lanes.standing.here.state),
      kept.at[each, place].set(policy[:, :, 0].astype(kept.dtype)),
    )

  def _outcomes(
    self, rules: Game, lanes: ChainLanes, after: Standing, ended: jax.Array, key: jax.Array
  ) -> tuple[Solved, jax.Array]:
    """Returns the decisions of games, with their payoffs, and which ended by the rules `[E]`."""
    assert lanes.trail is not None
    states, policy = (x.reshape(-1, x.shape[-1]) for x in lanes.trail)
    won = won_by(rules, after, jnp.zeros(self.num_lanes, jnp.int32))
    visited = jnp.arange(self.most_moves, dtype=jnp.int32)[None] <= lanes.moves[:, None]
    learned = jax.random.uniform(key, visited.shape) < self.td1_share
    active = (visited & ended[:, None] & learned).reshape(-1)
    one = jnp.ones((len(states), 2, 1))
    values = jnp.repeat(jnp.stack([won, -won], axis=1), self.most_moves, axis=0)[:, :, None]
    asked = Question(PublicState(states, one > 0), one)
    return examples(rules, asked, policy[:, :, None], values, one > 0), active


@functools.partial(jax.jit, static_argnames="rules")
def won_by(rules: Game, standing: Standing, seat: jax.Array) -> jax.Array:
  """Returns payoffs `[G]` of the players in `seat` `[G]`; zero in games that are not over."""
  states, (own, other) = standing.here.state, standing.hands.T
  held, each = jax.nn.one_hot(other, rules.num_infostates), jnp.arange(len(states))
  won = rules.terminal_values(states, held, 0)[each, own]
  met = rules.compatible_mass(states, held, 0)[each, own]
  won = jnp.where(rules.actor(states) == TERMINAL, won / jnp.where(met > 0, met, 1.0), 0.0)
  return jnp.where(seat == 0, won, -won)


def examples(
  rules: Game,
  asked: Question,
  policy: jax.Array,
  values: jax.Array,
  counts: jax.Array,
) -> Solved:
  """Returns solved public belief states as examples, values `[E, P, H]` player 0's first."""
  (state, possible), beliefs = asked
  mover = rules.actor(state)
  seen = [rules.features(state, player) for player in (0, 1)]
  there = (rules.moves_of(state, possible).action >= 0) & (mover < 2)[:, None, None]
  infostates = jnp.arange(rules.num_infostates, dtype=jnp.int32)
  own_first = functools.partial(seat_of, mover)
  weight = own_first((possible & counts).astype(values.dtype))
  return Solved(
    features=jnp.where((mover == 1)[:, None], seen[1], seen[0]),
    beliefs=own_first(beliefs).reshape(len(beliefs), 2 * rules.num_infostates),
    values=own_first(values),
    value_weight=weight,
    policy=jnp.where(there, policy, 0.0),
    comes_from=jnp.where(there, infostates[None, None], -1),
    policy_weight=jnp.where((mover < 2)[:, None], weight[:, 0], 0.0),
  )


def _first_question(rules: Game) -> Question:
  """Returns the question about where a game begins."""
  return Question(beginning(rules), jnp.asarray(rules.prior()) * jnp.ones(()))
