"""Self-play by growing searches that make their trees on the device, each after the last one.

As `growing_play`, for games of rules on the device with several infostates: lanes hold public
states, and a question is a public state, what is possible there, and beliefs.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import DeviceGame
from games.on_device.moves import moves_of
from rebel_jax.training import replay as replays
from rebel_jax.training.growing_play import GrowingPlay, Solved
from rebel_jax.training.perfect_play import Beginning
from rebel_jax.training.replay import Replay
from rebel_jax.training.self_play import where_lanes
from solvers.growing.continual.inserted_start import (
  InsertedStart,
  LeftInserted,
  PublicState,
  beginning,
  next_inserted_start,
)
from solvers.growing.continual.play_on_device import Standing, deal_on_device, play_on_device
from solvers.growing.continual.search_inserted import (
  AskedState,
  FoundInserted,
  HowInserted,
  InsertedSearch,
  most_room,
  search_each_inserted,
)
from solvers.growing.resolving import Promises
from solvers.growing.states import seat_of


class StateQuestion(NamedTuple):
  """A public belief state that a search asked about: the state and `[P, H]` beliefs."""

  here: PublicState
  beliefs: jax.Array


class ChainLanes(NamedTuple):
  """The states of `B` games of self-play, and what waits to be solved.

  Attributes:
    standing: `[B, ...]` where the games stand.
    moves: `[B]` how many were made in each game.
    left: `[B, P, ...]` by each player's last search of the game.
    waiting: questions, of which `taken` `[]` were taken out.
    taken: see `waiting`.
  """

  standing: Standing
  moves: jax.Array
  left: LeftInserted
  waiting: Replay
  taken: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChainPlay(GrowingPlay):
  """`GrowingPlay` of a game whose trees are made by its searches.

  Attributes:
    game: the rules.
  """

  game: DeviceGame

  @property
  def _how(self) -> HowInserted:
    room = most_room(self.game, self.search)
    return HowInserted(self.game, self.search.of_any_length(), room, self.network)

  def init(self, table: Beginning, key: jax.Array) -> ChainLanes:
    """Returns lanes that all begin a game."""
    del table
    game, number = self.game, self.num_lanes
    standing = jax.vmap(functools.partial(deal_on_device, game))(jax.random.split(key, number))
    nothing = LeftInserted.nothing(game, self._how.capacity, jnp.result_type(float))
    left = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, 2, *x.shape)), nothing)
    waiting = replays.make_replay(_first_question(game), self.num_waiting)
    zero = jnp.zeros((), jnp.int32)
    return ChainLanes(standing, jnp.zeros(number, jnp.int32), left, waiting, zero)

  def _filled(self, table: Any, asked: StateQuestion, active: jax.Array) -> StateQuestion:
    return where_lanes(active, asked, _first_question(self.game))

  def _question(self, asked: AskedState) -> StateQuestion:
    return StateQuestion(asked.here, asked.beliefs)

  def _search(
    self,
    table: Any,
    lanes: ChainLanes,
    asked: StateQuestion,
    keys: jax.Array,
    active: jax.Array,
    params: Any,
  ) -> FoundInserted:
    standing, each = lanes.standing, jnp.arange(self.num_lanes)
    mover = jax.vmap(self.game.actor)(standing.here.state)
    before = jax.tree.map(lambda x: x[each, mover], lanes.left)
    start = jax.vmap(functools.partial(next_inserted_start, self.game))
    first = InsertedSearch(start(before, standing.since[each, mover], mover), standing.here)
    about = jax.tree.map(
      lambda x, y: jnp.concatenate([x.astype(y.dtype), y]), first, _alone(asked, first)
    )
    return search_each_inserted(
      about, keys, active, how=self._how, rounds=self.search.rounds, params=params
    )

  def _play(
    self, table: Any, lanes: ChainLanes, played: FoundInserted, key: jax.Array
  ) -> ChainLanes:
    game, number = self.game, self.num_lanes
    move_key, new_key = jax.random.split(key)
    mover = jax.vmap(game.actor)(lanes.standing.here.state)
    go = functools.partial(play_on_device, game, exploration=self.exploration)
    keys = jax.random.split(move_key, number)
    standing, over = jax.vmap(go)(lanes.standing, played.policy, keys)
    news = jax.vmap(functools.partial(deal_on_device, game))(jax.random.split(new_key, number))
    each = jnp.arange(number)
    left = jax.tree.map(lambda x, y: x.at[each, mover].set(y), lanes.left, played.left)

    def begun(x: jax.Array, y: jax.Array) -> jax.Array:
      return jnp.where(over.reshape(-1, *[1] * (x.ndim - 1)), x.astype(y.dtype), y)

    first = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, 2, *x.shape)), beginning(game))
    return lanes._replace(
      standing=jax.tree.map(begun, news, standing),
      moves=jnp.where(over, 0, lanes.moves + 1),
      left=left._replace(
        current=jnp.where(over[:, None], -1, left.current),
        here=jax.tree.map(begun, first, left.here),
      ),
    )

  def _examples(
    self, table: Any, asked: StateQuestion, solved: FoundInserted, active: jax.Array
  ) -> Solved:
    game, (state, possible) = self.game, asked.here
    mover = jax.vmap(game.actor)(state)
    seen = [jax.vmap(lambda s, p=p: game.features(s, p))(state) for p in (0, 1)]
    moves = jax.vmap(functools.partial(moves_of, game))(state, possible).action
    there = (moves >= 0) & (mover < 2)[:, None, None]
    infostates = jnp.arange(game.num_infostates, dtype=jnp.int32)
    own_first = functools.partial(seat_of, mover)
    weight = own_first((possible & (solved.root_mass > 0)).astype(solved.root_values.dtype))
    return Solved(
      features=jnp.where((mover == 1)[:, None], seen[1], seen[0]),
      beliefs=own_first(asked.beliefs),
      values=own_first(solved.root_values),
      value_weight=weight,
      policy=jnp.where(there, solved.policy, 0.0),
      comes_from=jnp.where(there, infostates[None, None], -1),
      policy_weight=jnp.where((mover < 2)[:, None], weight[:, 0], 0.0),
      active=active,
    )


def _first_question(game: DeviceGame) -> StateQuestion:
  """Returns the question about where a game begins."""
  return StateQuestion(beginning(game), jnp.asarray(game.prior(), float))


def _alone(asked: StateQuestion, like: InsertedSearch) -> InsertedSearch:
  """Returns the searches of questions: without promises, from the state itself."""
  number = len(asked.beliefs)
  none = Promises.none(asked.beliefs.shape[-1], asked.beliefs.dtype)
  nobody = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, *x.shape)), none)
  path = jnp.full((number, like.start.path.shape[-1]), -1, jnp.int32)
  return InsertedSearch(InsertedStart(asked.here, path, asked.beliefs, nobody), asked.here)
