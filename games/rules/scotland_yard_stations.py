"""Scotland Yard by stations, as rules on JAX's arrays: an infostate of Mr. X is where it is."""

import jax
import jax.numpy as jnp
import numpy as np

from games.registry import register_on_device
from games.rules.scotland_yard_board import CHOOSING, LOOKING, Board
from games.rules.scotland_yard_maps import Map


class ScotlandYardStations:
  """`ScotlandYard` as a `DeviceGame`, whose infostates of Mr. X are stations instead of paths.

  Paths that end at one station have the same future and nobody else tells them apart, so that they
  are one infostate. Then a map may be large, and rounds many. Actions and public states are those
  of `ScotlandYard`; its docstring has the rules.

  Hidden moves are numbered by the connections of a station, in the order of the stations where
  they end; who cannot move has one, number 0. Detectives hold infostate 0.

  Args:
    map_name, rounds, reveals: as of `ScotlandYard`.
  """

  name = "scotland_yard"
  deals = True
  largest_payoff = 1.0

  def __init__(
    self, map_name: str | Map = "glasses", rounds: int = 5, reveals: tuple[int, ...] = ()
  ):
    self.board = self.words = board = Board(map_name, rounds, reveals)
    self.num_infostates, self.num_actions = board.map.num_stations, board.num_actions
    self.num_held = (self.num_infostates, 1)
    self._end, self._kind = _connections(board)
    self.num_hidden = max(2, self._end.shape[1])
    shown = (board.edge_table.any(axis=1)).sum() if reveals else len(board.map.kinds)
    self.num_children = int(max(self._end.shape[1], shown + 1, 2))
    # A round is a move of Mr. X, a choice and a move where there are double ones, and of each
    # detective a move and a look.
    self.longest_wait = 1 + 2 * (board.map.doubles > 0) + 2 * len(board.map.detectives)
    self.max_moves = rounds * self.longest_wait

  def initial_state(self) -> np.ndarray:
    return self.board.initial_state().astype(np.int32)

  def actor(self, state: jax.Array) -> jax.Array:
    return self.board.actor(state[None])[0]

  def legal_actions(self, state: jax.Array) -> jax.Array:
    return self.board.legal_actions(state[None])[0]

  def next_state(self, state: jax.Array, action: jax.Array) -> jax.Array:
    return self.board.next_states(state[None], jnp.asarray(action)[None])[0]

  def prior(self) -> np.ndarray:
    prior = np.zeros((2, self.num_infostates))
    prior[0, self.board.map.mister_x - 1] = prior[1, 0] = 1.0
    return prior

  def chance(self, state: jax.Array) -> jax.Array:
    return self.legal_actions(state).astype(float)

  def possible_after(self, state: jax.Array, action: jax.Array, possible: jax.Array) -> jax.Array:
    board, states = self.board, state[None]
    at = board.read(states)
    found = board.under_foot(at)[0] & (action == board.caught)
    stuck = ~self._free_moves(state).any(axis=1) & (at.maybe[0] > 0) & (action == board.stay)
    maybe = board.read(self.next_state(state, action)[None]).maybe[0] > 0
    by_mister_x = board.mister_x_moves(at)[0]
    maybe = jnp.where((at.stage[0] == LOOKING) & (action == board.caught), found, maybe)
    maybe = jnp.where(by_mister_x & (action == board.stay), stuck, maybe)
    return jnp.stack([maybe, possible[1]])

  def hidden_moves(self, state: jax.Array) -> tuple[jax.Array, jax.Array]:
    board = self.board
    at = board.read(state[None])
    kinds = len(board.map.kinds)
    end, kind = jnp.asarray(self._end), jnp.asarray(self._kind)
    station = jnp.arange(self.num_infostates)
    is_mister_x = at.turn[0] == 0
    seen = end * kinds + kind
    mister_x = jnp.where(board.shows(at)[0], seen, board.hide + kind)
    free = self._free_moves(state)
    # A detective's moves are those of the station where it stands.
    stands = at.stations[0, jnp.maximum(at.turn[0] - 1, 0)]
    free = jnp.where(is_mister_x, free, free[stands] & (station == 0)[:, None])
    action = jnp.where(is_mister_x, mister_x, seen[stands])
    after = jnp.where(is_mister_x, end, 0)
    stays = ~free.any(axis=1) & (is_mister_x | (station == 0))
    first = (jnp.arange(self.num_hidden) == 0) & stays[:, None]
    leads_to = jnp.where(free, after, jnp.where(first, station[:, None], -1))
    action = jnp.where(free, action, jnp.where(first, board.stay, -1))
    # Whether to move again is asked wherever Mr. X is, which stays there.
    choice = jnp.broadcast_to(jnp.arange(self.num_hidden), leads_to.shape)
    stays_there = jnp.where(choice < 2, station[:, None], -1)
    chooses = at.stage[0] == CHOOSING
    leads_to = jnp.where(chooses, stays_there, leads_to)
    return leads_to, jnp.where(chooses, jnp.where(choice < 2, board.again + choice, -1), action)

  def _free_moves(self, state: jax.Array) -> jax.Array:
    """Says which connections who moves may take from each station: `[H, M]`."""
    at = self.board.read(state[None])
    end, kind = jnp.asarray(self._end), jnp.asarray(self._kind)
    taken = (end[:, :, None] == at.stations[0]).any(axis=2)
    return (end >= 0) & ~taken & (at.cards[0, at.turn[0]][kind] > 0)

  def compatible_mass(self, state: jax.Array, reach: jax.Array, player: int) -> jax.Array:
    del state, player
    return jnp.broadcast_to(reach.sum(), reach.shape)

  def terminal_values(self, state: jax.Array, reach: jax.Array, player: int) -> jax.Array:
    won = self.board.payoff_scale(state[None])[0].astype(reach.dtype)
    return jnp.broadcast_to(reach.sum(), reach.shape) * (won if player == 0 else -won)

  def features(self, state: jax.Array, player: int) -> jax.Array:
    return self.board.features(state[None], player)[0]

  def __eq__(self, other: object) -> bool:
    return type(self) is type(other) and repr(self) == repr(other)

  def __hash__(self) -> int:
    return hash(repr(self))

  def __repr__(self) -> str:
    board = self.board
    own = f"map_name={board.map!r}, rounds={board.rounds}, reveals={board.reveals}"
    return f"games.make_on_device({self.name!r}, {own})"


def _connections(board: Board) -> tuple[np.ndarray, np.ndarray]:
  """Returns where each station's connections end, and their kinds: `[H, M]`, padded by -1."""
  kind, here, there = np.nonzero(board.edge_table)
  order = np.lexsort((kind, there, here))
  kind, here, there = kind[order], here[order], there[order]
  number = np.arange(len(here)) - np.searchsorted(here, here)
  ends = np.full((2, board.map.num_stations, max(int(number.max()) + 1, 2)), -1, np.int32)
  ends[:, here, number] = there, kind
  return ends[0], ends[1]


register_on_device("scotland_yard", ScotlandYardStations)
