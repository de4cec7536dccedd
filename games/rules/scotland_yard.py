"""Scotland Yard: a player whose moves nobody sees, and detectives who look for it."""

import numpy as np

from games.arrays import lookup
from games.game import Game
from games.registry import register
from games.rules.scotland_yard_board import Board, edge_table
from games.rules.scotland_yard_maps import Map

_MAX_PATHS = 20_000


class ScotlandYard(Board, Game):
  """Mr. X (player 0) moves unseen, then every detective moves; player 1 moves them all.

  Mr. X wins 1 if nobody has caught it after the detectives' last moves, and loses 1 if a detective
  steps on its station or it cannot move. A move uses up a card of its kind, also Mr. X's, and all
  see which. Nobody moves to the station of a detective. A detective who cannot move stays. After
  the moves in `reveals` Mr. X shows its station. Whether there are black cards, whether detectives'
  cards go to Mr. X, and how often it may make two moves before the detectives', the map says. That
  it makes another it says after the first, which is the same as before: nothing happens between.

  An infostate of Mr. X is its path so far, not only its station: solvers ask where each infostate
  came from. Paths are numbered in order, and one that is not at its end yet as the first of those
  that it may become; so infostates are many, and this is for small maps. Detectives have one
  infostate, 0.

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
  """

  name = "scotland_yard"

  def __init__(
    self, map_name: str | Map = "glasses", rounds: int = 5, reveals: tuple[int, ...] = ()
  ):
    super().__init__(map_name, rounds, reveals)
    self._paths, self._from, self._kind = _paths(self.map, rounds)
    self.num_infostates = len(self._paths)

  @property
  def num_player_actions(self):
    return self.caught

  # Private information.

  def prior(self):
    prior = np.zeros((2, self.num_infostates))
    prior[:, 0] = 1.0
    return prior

  def _at(self, moved):
    """Returns the station of Mr. X with each path, after `moved` `[n]` moves: `[n, H]`."""
    return lookup(self._paths.T, moved)

  def chance(self, states, actions):
    xp, at = states.__array_namespace__(), self.read(states)
    found = xp.take_along_axis(self.under_foot(at), self._at(at.moved), axis=1)
    mister_x = found == (actions == self.caught)[:, None]
    mask = xp.stack([mister_x, xp.ones_like(mister_x)], axis=1)
    return xp.ones(len(states)), mask

  def infostate_parents(self, states, actions):
    xp, at = states.__array_namespace__(), self.read(states)
    path = xp.broadcast_to(xp.arange(self.num_infostates), (len(states), self.num_infostates))
    free, _, stuck = self._mister_x(at)
    after = xp.minimum(at.moved + 1, self.rounds)
    station, kind = self._at(after), lookup(self._kind, after)
    seen = (actions < self.hide)[:, None]
    action = actions[:, None]
    meant = xp.where(seen, station * self._num_kinds + kind, self.hide + kind) == action
    comes = meant & (kind >= 0) & xp.take_along_axis(free, station, axis=1)
    moved = xp.where(comes, lookup(self._from, after), -1)
    stayed = xp.where(xp.take_along_axis(stuck, self._at(at.moved), axis=1), path, -1)
    by_mister_x = self.mister_x_moves(at)[:, None]
    mister_x = xp.where(by_mister_x, xp.where(action == self.stay, stayed, moved), path)
    return xp.stack([mister_x, path], axis=1)

  # Payoffs.

  def payoffs(self):
    return np.ones((1, self.num_infostates, self.num_infostates))

  def payoff_index(self, states):
    return states.__array_namespace__().zeros(len(states), int)

  def infostate_name(self, player, infostate):
    if player == 1:
      return "-"
    return "-".join(str(station + 1) for station in self._paths[infostate])

  def hidden_move_name(self, player, action, infostate):
    return self.infostate_name(player, infostate)


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
