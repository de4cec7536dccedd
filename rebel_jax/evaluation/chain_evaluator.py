"""What the agent is worth whose searches make their trees, in games with private information.

Where all public histories of a game can be written out, its exploitability is exact for each seed.
Elsewhere it plays games against the same search without a network.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import TERMINAL, DeviceGame, Game
from rebel_jax.config.config import Config
from rebel_jax.evaluation.finite import check_finite
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_search, make_state_network
from solvers import GTCFR
from solvers.growing.continual.history_policies import history_policies
from solvers.growing.continual.inserted_start import LeftInserted, next_inserted_start
from solvers.growing.continual.play_on_device import Standing, deal_on_device, play_on_device
from solvers.growing.continual.search_inserted import (
  HowInserted,
  InsertedSearch,
  most_room,
  search_each_inserted,
)
from solvers.metrics.histories import Histories, exploitability_in, public_histories

# Public histories of a game for which all are written out.
_MOST_HISTORIES = 50_000
# Games from each seat that a seed plays where histories are too many.
_GAMES = 32


class _Table(NamedTuple):
  """Games that are played side by side, and what each player's last search left."""

  standing: Standing
  left: LeftInserted


class ChainEvaluator:
  """Measures the agent of one game and network.

  Attributes:
    game: what is played.
    network: what searches ask.
    search: settings of searches.
  """

  unit = "searches"  # of `progress`

  def __init__(
    self, config: Config, *, game: DeviceGame | None = None, search: GTCFR | None = None
  ):
    """Prepares the agent of a configuration; `game` and `search` replace its own."""
    rules = config.make_rules() if game is None else game
    assert not isinstance(rules, Game)
    self.game = rules
    self.network = NetworkStates(make_state_network(config, rules))
    self.search = search or make_search(config, evaluation=True)
    self._counted = False
    self._histories: Histories | None = None

  @property
  def histories(self) -> Histories | None:
    """All public histories; None where they are too many."""
    if not self._counted:
      self._counted = True
      try:
        self._histories = public_histories(self.game, max_histories=_MOST_HISTORIES)
      except ValueError:  # there are too many
        self._histories = None
    return self._histories

  def measure(
    self, params: Any, *, seeds: Sequence[int], progress: Callable[[int, int], None] | None = None
  ) -> dict[str, list[float]]:
    """Returns what was measured of the agent of each seed.

    Where all public histories can be written out, that is `exploitability`, in the game's units: an
    agent of one seed has one policy, found by searching at every decision from what the same
    player's last search left. Elsewhere it is `score`: what it wins on average, as many games from
    either seat, from the same search without a network.

    Args:
      params: the network's.
      seeds: of the agents.
      progress: called with what is done and in all.

    Raises:
      ConfigError: the network's values are not finite.
    """
    features = self.game.features(jnp.asarray(self.game.initial_state()), 0)
    check_finite(self.network, params, features[None], self.game.num_infostates)
    histories = self.histories
    if histories is None:
      told = progress or (lambda done, total: None)
      scores = [self._score(params, s, i, len(seeds), told) for i, s in enumerate(seeds)]
      return {"score": scores}
    policies = history_policies(
      histories,
      search=self.search,
      seeds=tuple(seeds),
      network=self.network,
      params=params,
      progress=progress,
    )
    return {"exploitability": [exploitability_in(histories, policy) for policy in policies]}

  def _score(
    self, params: Any, seed: int, number: int, total: int, told: Callable[[int, int], None]
  ) -> float:
    """Returns the mean payoff of games from both seats."""
    game, key = self.game, jax.random.key(seed)
    seat = np.arange(2 * _GAMES) % 2
    how = HowInserted(game, self.search.of_any_length(), most_room(game, self.search), self.network)
    table, over = _begin(how, key, len(seat)), np.zeros(len(seat), bool)
    for ply in range(game.max_moves):
      told(number * game.max_moves + ply, total * game.max_moves)
      if over.all():
        break
      now = jax.random.fold_in(key, ply)
      table, over = _play(how, table, seat, over, now, self.search.rounds, params)
      over = np.asarray(over)
    return float(np.mean(_won(game, table.standing, seat)))


@functools.partial(jax.jit, static_argnames=("how", "number"))
def _begin(how: HowInserted, key: jax.Array, number: int) -> _Table:
  game = how.game
  standing = jax.vmap(functools.partial(deal_on_device, game))(jax.random.split(key, number))
  nothing = LeftInserted.nothing(game, how.capacity, jnp.result_type(float))
  left = jax.tree.map(lambda x: jnp.broadcast_to(x, (number, 2, *x.shape)), nothing)
  return _Table(standing, left)


@functools.partial(jax.jit, static_argnames="how")
def _play(
  how: HowInserted, table: _Table, seat: Any, over: Any, key: jax.Array, rounds: Any, params: Any
) -> tuple[_Table, jax.Array]:
  """Makes a move in games that are not over; who sits in `seat` `[G]` searches with the network."""
  game, (standing, left) = how.game, table
  each = jnp.arange(len(seat))
  search_key, move_key = jax.random.split(key)
  mover = jnp.minimum(jax.vmap(game.actor)(standing.here.state), 1)
  before = jax.tree.map(lambda x: x[each, mover], left)
  start = jax.vmap(functools.partial(next_inserted_start, game))
  about = InsertedSearch(start(before, standing.since[each, mover], mover), standing.here)
  keys = jax.random.split(search_key, len(seat))
  asks = mover == seat
  found, other = (
    search_each_inserted(about, keys, active & ~over, how=how, rounds=rounds, params=params)
    for how, active in ((how, asks), (how._replace(network=None), ~asks))
  )

  def chosen(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(asks.reshape(-1, *[1] * (x.ndim - 1)), x, y)

  found = jax.tree.map(chosen, found, other)
  go = functools.partial(play_on_device, game, exploration=0.0)
  after, ended = jax.vmap(go)(standing, found.policy, jax.random.split(move_key, len(seat)))

  def kept(x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.where(over.reshape(-1, *[1] * (x.ndim - 1)), x, y.astype(x.dtype))

  left = jax.tree.map(lambda x, y: x.at[each, mover].set(y), left, found.left)
  return _Table(jax.tree.map(kept, standing, after), left), over | ended


@functools.partial(jax.jit, static_argnames="game")
def _won(game: DeviceGame, standing: Standing, seat: jax.Array) -> jax.Array:
  """Returns what who sits in `seat` `[G]` has won in games that are over: `[G]`."""

  def one(state: jax.Array, hands: jax.Array, seat: jax.Array) -> jax.Array:
    held = jnp.zeros(game.num_infostates).at[hands[1]].set(1.0)
    won = game.terminal_values(state, held, 0)[hands[0]]
    met = game.compatible_mass(state, held, 0)[hands[0]]
    won = won / jnp.where(met > 0, met, 1.0) * (game.actor(state) == TERMINAL)
    return jnp.where(seat == 0, won, -won)

  return jax.vmap(one)(standing.here.state, standing.hands, seat)
