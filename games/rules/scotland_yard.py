"""Scotland Yard: a player with hidden moves, and detectives who search for it."""

import functools

import numpy as np

from games.arrays import lookup
from games.game import MoverMoves
from games.registry import register
from games.rules.scotland_yard_board import CHOOSING, Board, edge_table
from games.rules.scotland_yard_maps import Map

_MAX_PATHS = 20_000


class ScotlandYard(Board):
  """Mr. X (player 0) moves unseen, then every detective moves; player 1 moves them all.

  Mr. X wins 1 if nobody has caught it after the detectives' last moves, and loses 1 if a detective
  steps on its station or it cannot move. A move uses up a card of its kind, also Mr. X's, and all
  see which. Nobody moves to the station of a detective. A detective who cannot move stays. After
  the moves in `reveals` Mr. X shows its station. Whether there are black cards, whether detectives'
  cards go to Mr. X, and how often it may make two moves before the detectives', the map says. That
  it makes another it says after the first, which is the same as before: nothing happens between.

  An infostate of Mr. X is its path so far, for public trees say of each infostate which it came
  from. Paths are numbered in order, and one that is not at its end yet as the first of those
  that it may become; so infostates are many, and this is for small maps. A game that does not
  remember has stations instead: paths that end at one have the same future, and nobody else tells
  them apart. Then a map may be large, and rounds many. Detectives have one infostate, 0.

  Hidden moves are numbered by the connections of a station, in the order of the stations where
  they end; who cannot move has one, number 0.

  Actions: `station * kinds + kind` a move that is seen, of a detective or of Mr. X where it shows
  itself; then one for each kind of hidden move; then no move; where there are double moves, to move
  again and not to; caught; and not caught. The last two
  are chance: they say what a detective finds who steps where Mr. X may be. Either has probability
  one, for those infostates of Mr. X with which it happens.

  A public state is how often Mr. X has moved, whose turn it is, what happens there, how many double
  moves are left, the detectives' stations (from 0), all cards, and for every station whether Mr. X
  may be there.

  Args:
    map_name: a name in `scotland_yard_maps.MAPS`, or a `Map`.
    rounds: how often Mr. X moves.
    reveals: after which of its moves Mr. X shows its station, counted from 1.
    remembers: whether infostates are paths.
  """

  name = "scotland_yard"

  def __init__(
    self,
    map_name: str | Map = "glasses",
    rounds: int = 5,
    reveals: tuple[int, ...] = (),
    remembers: bool = True,
  ):
    super().__init__(map_name, rounds, reveals)
    self.remembers = self.written = bool(remembers)
    if not self.remembers:
      self._end, self._means = _connections(self)
      self.num_hidden = self._end.shape[1]

  def forgetful(self):
    return ScotlandYard(self.map, self.rounds, self.reveals, remembers=False)

  @functools.cached_property
  def num_infostates(self) -> int:  # type: ignore[override]
    return len(self._walks[0]) if self.remembers else self._num_stations

  @property
  def num_held(self):
    return self.num_infostates, 1

  @property
  def num_children(self):
    shown = self.edge_table.any(axis=1).sum() if self.reveals else self._num_kinds
    return int(max(self.edge_table.sum(axis=(0, 1)).max(), shown + 1, 2))

  @functools.cached_property
  def _walks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _paths(self.map, self.rounds)

  # Private information.

  def prior(self):
    prior = np.zeros((2, self.num_infostates))
    prior[0, 0 if self.remembers else self.map.mister_x - 1] = prior[1, 0] = 1.0
    return prior

  def _at(self, moved):
    """Returns the station of Mr. X with each infostate, after `moved` `[n]` moves: `[n, H]`."""
    if self.remembers:
      return lookup(self._walks[0].T, moved)
    xp = moved.__array_namespace__()
    return xp.broadcast_to(xp.arange(self.num_infostates), (len(moved), self.num_infostates))

  def chance(self, states, actions):
    xp, at = states.__array_namespace__(), self.read(states)
    found = xp.take_along_axis(self.under_foot(at), self._at(at.moved), axis=1)
    mister_x = found == (actions == self.caught)[:, None]
    mask = xp.stack([mister_x, xp.ones_like(mister_x)], axis=1)
    return xp.ones(len(states)), mask

  def infostate_parents(self, states, actions):
    if not self.remembers:
      return None
    xp, at = states.__array_namespace__(), self.read(states)
    path = xp.broadcast_to(xp.arange(self.num_infostates), (len(states), self.num_infostates))
    free, _, stuck = self._mister_x(at)
    after = xp.minimum(at.moved + 1, self.rounds)
    station, kind = self._at(after), lookup(self._walks[2], after)
    seen = (actions < self.hide)[:, None]
    action = actions[:, None]
    meant = xp.where(seen, station * self._num_kinds + kind, self.hide + kind) == action
    comes = meant & (kind >= 0) & xp.take_along_axis(free, station, axis=1)
    moved = xp.where(comes, lookup(self._walks[1], after), -1)
    stayed = xp.where(xp.take_along_axis(stuck, self._at(at.moved), axis=1), path, -1)
    by_mister_x = self.mister_x_moves(at)[:, None]
    mister_x = xp.where(by_mister_x, xp.where(action == self.stay, stayed, moved), path)
    return xp.stack([mister_x, path], axis=1)

  def possible_after(self, states, actions, possible):
    if self.remembers:
      return super().possible_after(states, actions, possible)
    xp, at = states.__array_namespace__(), self.read(states)
    stuck = ~self._free_moves(at).any(axis=2) & (at.maybe > 0)
    stays = self.mister_x_moves(at) & (actions == self.stay)
    maybe = self.read(self.next_states(states, actions)).maybe > 0
    maybe = xp.where((actions == self.caught)[:, None], self.under_foot(at), maybe)
    maybe = xp.where(stays[:, None], stuck, maybe)
    return xp.stack([maybe, possible[:, 1]], axis=1)

  def hidden_moves(self, states):
    xp, at = states.__array_namespace__(), self.read(states)
    number, station = xp.arange(self.num_hidden), xp.arange(self.num_infostates)
    end, kind, here = xp.asarray(self._end), xp.asarray(self._means), station[:, None]
    is_mister_x = (at.turn == 0)[:, None, None]
    seen = end * self._num_kinds + kind
    mister_x = xp.where(self.shows(at)[:, None, None], seen, self.hide + kind)
    free = self._free_moves(at)
    # A detective's moves are those of the station where it stands.
    turn = xp.maximum(at.turn - 1, 0)[:, None]
    stands = xp.take_along_axis(at.stations, turn, axis=1)
    of_team = xp.take_along_axis(free, stands[:, :, None], axis=1) & (here == 0)
    free = xp.where(is_mister_x, free, of_team)
    action = xp.where(is_mister_x, mister_x, seen[stands])
    after = xp.where(is_mister_x, end, 0)
    stays = ~free.any(axis=2, keepdims=True) & (is_mister_x | (here == 0)) & (number == 0)
    leads_to = xp.where(free, after, xp.where(stays, here, -1))
    action = xp.where(free, action, xp.where(stays, self.stay, -1))
    # Whether to move again is asked wherever Mr. X is, which stays there.
    chooses = (at.stage == CHOOSING)[:, None, None]
    leads_to = xp.where(chooses, xp.where(number < 2, here, -1), leads_to)
    action = xp.where(chooses, xp.where(number < 2, self.again + number, -1), action)
    return MoverMoves(leads_to.swapaxes(1, 2), action.swapaxes(1, 2))

  def _free_moves(self, at):
    """Says which connections who moves may take from each station: `[n, H, M]`."""
    xp = at.maybe.__array_namespace__()
    end = xp.asarray(self._end)
    taken = (end[:, :, None] == at.stations[:, None, None]).any(axis=3)
    held = xp.take_along_axis(at.cards, at.turn[:, None, None], axis=1)[:, 0] > 0
    return (end >= 0) & ~taken & held[:, self._means]

  def infostate_name(self, player, infostate):
    if self.remembers:
      path = "-".join(str(station + 1) for station in self._walks[0][infostate])
      return path if player == 0 else "-"
    return f"station {infostate + 1}" if player == 0 else "nothing hidden"

  def hidden_move_name(self, player, action, infostate):
    if self.remembers:
      return self.infostate_name(player, infostate)
    if self.hide <= action < self.stay:
      action = infostate * self._num_kinds + action - self.hide
    return self.action_name(action)

  def __eq__(self, other: object) -> bool:
    return type(self) is type(other) and repr(self) == repr(other)

  def __hash__(self) -> int:
    return hash(repr(self))

  def __repr__(self) -> str:
    own = f"map_name={self.map!r}, rounds={self.rounds}, reveals={self.reveals}"
    return f"games.make({self.name!r}, {own}, remembers={self.remembers})"


def _connections(board: Board) -> tuple[np.ndarray, np.ndarray]:
  """Returns where each station's connections end, and their kinds: `[H, M]`, padded by -1."""
  kind, here, there = np.nonzero(board.edge_table)
  order = np.lexsort((kind, there, here))
  kind, here, there = kind[order], here[order], there[order]
  number = np.arange(len(here)) - np.searchsorted(here, here)
  ends = np.full((2, board.map.num_stations, max(int(number.max()) + 1, 2)), -1, np.int32)
  ends[:, here, number] = there, kind
  return ends[0], ends[1]


def _paths(city: Map, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns all ways to walk for `rounds` moves.

  Returns:
    The stations of each path, `[H, rounds + 1]`; and of the path that has its number after k moves
    the number of the one before and the kind of its last move, both `[rounds + 1, H]`, the kind -1
    where no path has that number.

  Raises:
    ValueError: there are too many.
  """
  kinds, here, there = np.nonzero(edge_table(city))
  walks, used = np.full((1, 1), city.mister_x - 1), np.zeros((1, 0), int)
  for _ in range(rounds):
    walk, edge = np.nonzero(walks[:, -1:] == here)
    if len(walk) > _MAX_PATHS:
      raise ValueError(
        f"rounds={rounds} is too many on the map {city.name!r}: Mr. X has more than {_MAX_PATHS} "
        "paths"
      )
    walks = np.concatenate([walks[walk], there[edge, None]], axis=1)
    used = np.concatenate([used[walk], kinds[edge, None]], axis=1)
  # The number of the first path that begins like each, for every length of the beginning.
  same = np.ones(len(walks), bool)
  first = np.zeros((rounds + 1, len(walks)), int)
  number = np.arange(len(walks))
  same[0] = False
  for k in range(1, rounds + 1):
    same[1:] &= (walks[1:, k] == walks[:-1, k]) & (used[1:, k - 1] == used[:-1, k - 1])
    first[k] = np.maximum.accumulate(np.where(same, -1, number))
  before = np.concatenate([first[:1], first[:-1]])
  kind = np.concatenate([np.full((1, len(walks)), -1), used.T])
  kind = np.where(first == number, kind, -1)
  return walks, before.astype(np.int32), kind.astype(np.int32)


register("scotland_yard", ScotlandYard)
