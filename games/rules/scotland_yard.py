"""Scotland Yard: a player whose moves nobody sees, and detectives who look for it."""

from typing import Any, NamedTuple

import numpy as np

from games.arrays import lookup
from games.game import CHANCE, TERMINAL, Game
from games.registry import register, unknown_name
from games.rules.scotland_yard_maps import MAPS, Map

_MOVING, _LOOKING, _CAUGHT, _ESCAPED = range(4)  # what happens in a public state
_MAX_PATHS = 20_000


class _State(NamedTuple):
  """The columns of public states, taken apart."""

  moved: Any  # [n] how often Mr. X has moved
  turn: Any  # [n] 0: Mr. X, k: the k-th detective
  stage: Any  # [n]
  stations: Any  # [n, detectives] where they are
  cards: Any  # [n, 1 + detectives, kinds] of Mr. X and of the detectives
  maybe: Any  # [n, stations] 1 where Mr. X may be, else 0


class ScotlandYard(Game):
  """Mr. X (player 0) moves unseen, then every detective moves; player 1 moves them all.

  Mr. X wins 1 if nobody has caught it after the detectives' last moves, and loses 1 if a detective
  steps on its station or it cannot move. A move uses up a card of its kind, also Mr. X's, and all
  see which. Nobody moves to the station of a detective. A detective who cannot move stays. After
  the moves in `reveals` Mr. X shows its station. There are no double moves and no black cards, and
  detectives' cards do not go to Mr. X.

  An infostate of Mr. X is its path so far, not only its station: solvers ask where each infostate
  came from. Paths are numbered in order, and one that is not at its end yet as the first of those
  that it may become; so infostates are many, and this is for small maps. Detectives have one
  infostate, 0.

  Actions: `station * kinds + kind` a move that is seen, of a detective or of Mr. X where it shows
  itself; then one for each kind of hidden move; then no move; caught; and not caught. The last two
  are chance: they say what a detective finds who steps where Mr. X may be. Either has probability
  one, for those infostates of Mr. X with which it happens.

  A public state is how often Mr. X has moved, whose turn it is, what happens there, the detectives'
  stations (from 0), all cards, and for every station whether Mr. X may be there.

  Args:
    map_name: a name in `scotland_yard_maps.MAPS`, or a `Map`.
    rounds: how often Mr. X moves.
    reveals: after which of its moves Mr. X shows its station, counted from 1.
  """

  name = "scotland_yard"

  def __init__(
    self, map_name: str | Map = "glasses", rounds: int = 5, reveals: tuple[int, ...] = ()
  ):
    if not isinstance(map_name, Map) and (not isinstance(map_name, str) or map_name not in MAPS):
      raise ValueError(unknown_name("map_name", map_name, MAPS))
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
      raise ValueError(f"rounds={rounds!r} must be a positive integer")
    shown = tuple(reveals) if isinstance(reveals, tuple | list) else (None,)
    if any(isinstance(x, bool) or not isinstance(x, int) or not 1 <= x <= rounds for x in shown):
      raise ValueError(f"reveals={reveals!r} must be integers from 1 to rounds={rounds}")
    self.map = map_name if isinstance(map_name, Map) else MAPS[map_name]
    self.rounds, self.reveals = rounds, shown
    self._edges = _edges(self.map)
    self._num_stations, self._num_kinds = self.map.num_stations, len(self.map.kinds)
    self._num_detectives = len(self.map.detectives)
    self._paths, self._from, self._kind = _paths(self.map, rounds)
    self.num_infostates = len(self._paths)
    self._hide = self._num_stations * self._num_kinds
    self._stay = self._hide + self._num_kinds
    self._caught = self._stay + 1
    self.num_actions = self._caught + 2

  @property
  def num_player_actions(self):
    return self._caught

  # Public states.

  def initial_state(self):
    maybe = np.arange(1, self._num_stations + 1) == self.map.mister_x
    cards = np.tile([number for _, number in self.map.cards], 1 + self._num_detectives)
    return np.concatenate([[0, 0, _MOVING], np.array(self.map.detectives) - 1, cards, maybe])

  def _read(self, states) -> _State:
    first = 3 + self._num_detectives
    last = states.shape[1] - self._num_stations
    shape = (len(states), 1 + self._num_detectives, self._num_kinds)
    stations, cards = states[:, 3:first], states[:, first:last].reshape(shape)
    moved, turn, stage = states[:, 0], states[:, 1], states[:, 2]
    return _State(moved, turn, stage, stations, cards, states[:, last:])

  def actor(self, states):
    xp, at = states.__array_namespace__(), self._read(states)
    moving = xp.where(at.turn == 0, 0, 1)
    return xp.where(at.stage >= _CAUGHT, TERMINAL, xp.where(at.stage == _LOOKING, CHANCE, moving))

  def legal_actions(self, states):
    xp, at = states.__array_namespace__(), self._read(states)
    n = len(states)
    free, going, stuck = self._mister_x(at)
    shows = self._shows(at)[:, None]
    reached = (going > 0) & free[:, None]  # [n, kinds, stations]
    seen = reached.swapaxes(1, 2).reshape(n, self._hide) & shows
    hidden = reached.any(axis=2) & ~shows
    nothing = (stuck & (at.maybe > 0)).any(axis=1)[:, None]
    look = xp.zeros((n, 2), bool)
    mister_x = xp.concat([seen, hidden, nothing, look], axis=1)

    number = xp.maximum(at.turn - 1, 0)
    station = xp.take_along_axis(at.stations, number[:, None], axis=1)[:, 0]
    held = xp.take_along_axis(at.cards, (number + 1)[:, None, None], axis=1)[:, 0] > 0
    steps = lookup(self._edges.swapaxes(0, 1), station) & held[:, :, None] & free[:, None]
    seen = steps.swapaxes(1, 2).reshape(n, self._hide)
    nothing = ~seen.any(axis=1)[:, None]
    detective = xp.concat([seen, xp.zeros_like(hidden), nothing, look], axis=1)

    elsewhere = at.maybe.sum(axis=1)[:, None] > 1
    none = xp.zeros((n, self._caught), bool)
    looking = xp.concat([none, xp.ones((n, 1), bool), elsewhere], axis=1)
    moving = xp.where(at.turn[:, None] == 0, mister_x, detective)
    legal = xp.where(at.stage[:, None] == _LOOKING, looking, moving)
    return legal & (at.stage < _CAUGHT)[:, None]

  def next_states(self, states, actions):
    xp, at = states.__array_namespace__(), self._read(states)
    free, going, _ = self._mister_x(at)
    is_mister_x = (at.turn == 0) & (at.stage == _MOVING)
    seen, stays = actions < self._hide, actions == self._stay
    kind = xp.where(
      seen, actions % self._num_kinds, xp.minimum(actions, self._stay - 1) - self._hide
    )
    moves = actions < self._stay
    station = xp.minimum(actions // self._num_kinds, self._num_stations - 1)
    steps = seen & ~is_mister_x
    there = station[:, None] == xp.arange(self._num_stations)

    # Mr. X may be wherever a move of this kind leads.
    reached = xp.take_along_axis(going, kind[:, None, None], axis=1)[:, 0] > 0
    reached = reached & free & (there | ~seen[:, None])
    maybe = xp.where((is_mister_x & moves)[:, None], reached, at.maybe > 0)
    looks = steps & (maybe & there).any(axis=1)
    missed = (at.stage == _LOOKING)[:, None] & self._under_foot(at)
    maybe = maybe & ~missed

    detective = xp.arange(self._num_detectives) + 1 == at.turn[:, None]
    stations = xp.where(detective & steps[:, None], station[:, None], at.stations)
    who = xp.arange(1 + self._num_detectives) == at.turn[:, None]
    what = xp.arange(self._num_kinds) == kind[:, None]
    used = who[:, :, None] & what[:, None] & moves[:, None, None]
    cards = (at.cards - used).reshape(len(states), (1 + self._num_detectives) * self._num_kinds)

    moved = at.moved + (is_mister_x & moves)
    turn = xp.where(looks, at.turn, (at.turn + 1) % (1 + self._num_detectives))
    over = (turn == 0) & (moved == self.rounds)
    stage = xp.where(looks, _LOOKING, xp.where(over, _ESCAPED, _MOVING))
    stage = xp.where((is_mister_x & stays) | (actions == self._caught), _CAUGHT, stage)
    head = xp.stack([moved, turn, stage], axis=1)
    return xp.concat([head, stations, cards, maybe], axis=1).astype(states.dtype)

  def _mister_x(self, at: _State):
    """Returns what Mr. X may do: the stations without a detective `[n, stations]`, how many
    stations lead to each by each kind `[n, kinds, stations]`, and from where it cannot move."""
    xp = at.maybe.__array_namespace__()
    occupied = at.stations[:, :, None] == xp.arange(self._num_stations)
    free = ~occupied.any(axis=1)
    edges = xp.asarray(self._edges.astype(np.int32))
    held = at.cards[:, 0] > 0
    counts = (at.maybe[:, None, None] @ edges)[:, :, 0]
    out = (free.astype(np.int32)[:, None, None] @ edges)[:, :, 0] > 0
    return free, counts * held[:, :, None], ~(out & held[:, :, None]).any(axis=1)

  def _shows(self, at: _State):
    """Says whether Mr. X shows its station with the next move: `[n]`."""
    shown = np.isin(np.arange(self.rounds + 1) + 1, self.reveals)
    return lookup(shown, at.moved)

  def _under_foot(self, at: _State):
    """Marks the station of the detective who moves or has just moved: `[n, stations]`."""
    xp = at.maybe.__array_namespace__()
    number = xp.maximum(at.turn - 1, 0)[:, None]
    station = xp.take_along_axis(at.stations, number, axis=1)
    return station == xp.arange(self._num_stations)

  # Private information.

  def prior(self):
    prior = np.zeros((2, self.num_infostates))
    prior[:, 0] = 1.0
    return prior

  def _at(self, moved):
    """Returns the station of Mr. X with each path, after `moved` `[n]` moves: `[n, H]`."""
    return lookup(self._paths.T, moved)

  def chance(self, states, actions):
    xp, at = states.__array_namespace__(), self._read(states)
    found = xp.take_along_axis(self._under_foot(at), self._at(at.moved), axis=1)
    mister_x = found == (actions == self._caught)[:, None]
    mask = xp.stack([mister_x, xp.ones_like(mister_x)], axis=1)
    return xp.ones(len(states)), mask

  def infostate_parents(self, states, actions):
    xp, at = states.__array_namespace__(), self._read(states)
    path = xp.broadcast_to(xp.arange(self.num_infostates), (len(states), self.num_infostates))
    free, _, stuck = self._mister_x(at)
    after = xp.minimum(at.moved + 1, self.rounds)
    station, kind = self._at(after), lookup(self._kind, after)
    seen = (actions < self._hide)[:, None]
    action = actions[:, None]
    meant = xp.where(seen, station * self._num_kinds + kind, self._hide + kind) == action
    comes = meant & (kind >= 0) & xp.take_along_axis(free, station, axis=1)
    moved = xp.where(comes, lookup(self._from, after), -1)
    stayed = xp.where(xp.take_along_axis(stuck, self._at(at.moved), axis=1), path, -1)
    by_mister_x = ((at.turn == 0) & (at.stage == _MOVING))[:, None]
    mister_x = xp.where(by_mister_x, xp.where(action == self._stay, stayed, moved), path)
    return xp.stack([mister_x, path], axis=1)

  # Payoffs.

  def payoffs(self):
    return np.ones((1, self.num_infostates, self.num_infostates))

  def payoff_index(self, states):
    return states.__array_namespace__().zeros(len(states), int)

  def payoff_scale(self, states):
    xp, at = states.__array_namespace__(), self._read(states)
    return xp.where(at.stage == _ESCAPED, 1.0, -1.0)

  # What a network sees, and what a person reads.

  def features(self, states, player):
    xp, at = states.__array_namespace__(), self._read(states)
    n, detectives = len(states), self._num_detectives
    most = np.array([number for _, number in self.map.cards])
    columns = [
      xp.full((n, 1), player),
      at.turn[:, None] == xp.arange(1 + self._num_detectives),
      (at.stage == _LOOKING)[:, None],
      at.moved[:, None] / self.rounds,
      *[at.stations[:, i, None] == xp.arange(self._num_stations) for i in range(detectives)],
      *[at.cards[:, i] / xp.asarray(most) for i in range(1 + detectives)],
      at.maybe,
    ]
    return xp.concat(columns, axis=1).astype(float)

  def action_name(self, action):
    if action < self._hide:
      station, kind = divmod(action, self._num_kinds)
      return f"{self._by(kind)}to {station + 1}"
    if action < self._stay:
      return f"{self._by(action - self._hide)}hidden"
    return ("no move", "caught", "not there")[action - self._stay]

  def _by(self, kind: int) -> str:
    return f"{self.map.kinds[kind]} " if self._num_kinds > 1 else ""

  def situation(self, history):
    at = self._read(self.state_after(history)[None])
    detectives = ", ".join(str(x + 1) for x in at.stations[0])
    maybe = ", ".join(str(x + 1) for x in np.flatnonzero(at.maybe[0]))
    return f"detectives at {detectives}; Mr. X at one of {maybe}"

  def explain(self):
    return (
      f"Mr. X starts at {self.map.mister_x} and moves along an edge {self.rounds} times, unseen; "
      "then every detective moves. Mr. X loses if a detective steps on its station or it cannot "
      "move, and otherwise wins."
    )

  def infostate_name(self, player, infostate):
    if player == 1:
      return "-"
    return "-".join(str(station + 1) for station in self._paths[infostate])


def _edges(city: Map) -> np.ndarray:
  """Returns which stations each kind of transport joins: `[kinds, stations, stations]`, bool."""
  joined = np.zeros((len(city.kinds), city.num_stations, city.num_stations), bool)
  for a, b, kind in city.edges:
    joined[city.kinds.index(kind), [a - 1, b - 1], [b - 1, a - 1]] = True
  return joined


def _paths(city: Map, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns all ways to walk for `rounds` moves.

  Returns:
    The stations of each path, `[H, rounds + 1]`; and of the path that has its number after k moves
    the number of the one before and the kind of its last move, both `[rounds + 1, H]`, the kind -1
    where no path has that number.

  Raises:
    ValueError: there are too many.
  """
  kinds, here, there = np.nonzero(_edges(city))
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
