"""Scotland Yard: a player with hidden moves, and detectives who search for it.

Its public states are stations, cards, turns, and where Mr. X may be.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from games.arrays import Positive, checked, lookup, one_hot, short, unknown_name, xp
from games.game import CHANCE, TERMINAL, MoverMoves, NamedInFull, register
from games.rules.scotland_yard_maps import MAPS, Map

# What happens in a public state. Mr. X has moved once and may go on in CHOOSING; it does in AGAIN.
MOVING, LOOKING, CHOOSING, AGAIN, CAUGHT, ESCAPED = range(6)


_MAX_PATHS = 20_000


class Columns(NamedTuple):
  """The columns of public states, taken apart."""

  moved: Any  # [n] how often Mr. X has moved
  turn: Any  # [n] 0: Mr. X, k: the k-th detective
  stage: Any  # [n]
  doubles: Any  # [n] how often Mr. X may still move twice
  stations: Any  # [n, detectives] where they are
  cards: Any  # [n, 1 + detectives, kinds] of Mr. X and of the detectives
  maybe: Any  # [n, stations] 1 where Mr. X may be, else 0


class ScotlandYard(NamedInFull):
  """Mr. X (player 0) moves unseen, then every detective moves; player 1 moves them all.

  Mr. X wins 1 if nobody has caught it after the detectives' last moves, and loses 1 if a detective
  steps on its station or it cannot move. A move uses up a card of its kind, also Mr. X's, and all
  see which. Nobody moves to the station of a detective. A detective who cannot move stays. After
  the moves in `reveals` Mr. X shows its station. The map says whether there are black cards,
  whether detectives' cards go to Mr. X, and how often it may make two moves before the detectives';
  it decides on another after the first.

  An infostate of Mr. X is its path so far, numbered as the first whole path that begins with it.
  Paths are many, so this is for small maps. A game that does not remember has stations instead, for
  large maps: paths to one station have the same future. Detectives have one infostate, 0.

  Hidden moves are numbered by the connections of a station, in the order of the stations where
  they end; who cannot move has one, number 0.

  Actions: `station * kinds + kind` a move that is seen, of a detective or of Mr. X where it shows
  itself; then one for each kind of hidden move; then no move; where there are double moves, to move
  again and not to; caught; and not caught. The last two are chance: what a detective finds where
  Mr. X may be, each of probability one for those infostates with which it happens.

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

  @checked
  def __init__(
    self,
    map_name: str | Map = "glasses",
    rounds: Positive = 5,
    reveals: tuple[int, ...] = (),
    remembers: bool = True,
  ):
    if not isinstance(map_name, Map) and map_name not in MAPS:
      raise ValueError(unknown_name("map_name", map_name, MAPS))
    shown = tuple(reveals)
    if any(not 1 <= x <= rounds for x in shown):
      raise ValueError(f"reveals={short(reveals)} must be integers from 1 to rounds={rounds}")
    self.map = map_name if isinstance(map_name, Map) else MAPS[map_name]
    self.rounds, self.reveals = rounds, shown
    self._num_stations, self._num_kinds = self.map.num_stations, len(self.map.kinds)
    self._num_detectives = len(self.map.detectives)
    self.hide = self._num_stations * self._num_kinds
    self.stay = self.hide + self._num_kinds
    self.again = self.stay + 1
    self.caught = self.num_player_actions = self.again + 2 * (self.map.doubles > 0)
    self.num_actions = self.caught + 2

    # A round is a move of Mr. X, a choice and a move where there are double ones, and of each
    # detective a move and a look.
    self.max_moves = rounds * self.longest_wait
    self.remembers = self.written = bool(remembers)
    listed, doubles = ", ".join(map(str, sorted(set(shown)))), self.map.doubles
    unseen = f"unseen but after move {listed}" if listed else "unseen"
    twice = f"Mr. X may move twice in a row, {doubles} times. " if doubles else ""
    self.text = (
      f"Mr. X starts at {self.map.mister_x} and moves along an edge {rounds} times, {unseen}; "
      "then every detective moves, all of them by one player. A move uses up a card of its kind. "
      f"{twice}Mr. X loses if a detective steps on its station or it cannot move, and else wins."
    )
    self._end, self._means = _connections(self.map)
    self._by_kind = self._means[:, :, None] == np.arange(self._num_kinds)
    if not self.remembers:
      self.num_hidden = self._end.shape[1]

  @property
  def longest_wait(self):
    return 1 + 2 * (self.map.doubles > 0) + 2 * self._num_detectives

  # Public states.

  def initial_state(self):
    maybe = np.arange(1, self._num_stations + 1) == self.map.mister_x
    cards = np.ravel(self.map.cards_of)
    head = [0, 0, MOVING, self.map.doubles]
    return np.concatenate([head, np.array(self.map.detectives) - 1, cards, maybe])

  def read(self, states) -> Columns:
    first = 4 + self._num_detectives
    last = states.shape[1] - self._num_stations
    shape = (len(states), 1 + self._num_detectives, self._num_kinds)
    stations, cards = states[:, 4:first], states[:, first:last].reshape(shape)
    moved, turn, stage, doubles = (states[:, i] for i in range(4))
    return Columns(moved, turn, stage, doubles, stations, cards, states[:, last:])

  def mister_x_moves(self, at: Columns):
    """Says where Mr. X is to make a move: `[n]`."""
    return (at.turn == 0) & ((at.stage == MOVING) | (at.stage == AGAIN))

  def actor(self, states):
    at = self.read(states)
    moving = xp.where(at.turn == 0, 0, 1)
    return xp.where(at.stage >= CAUGHT, TERMINAL, xp.where(at.stage == LOOKING, CHANCE, moving))

  def legal_actions(self, states):
    at = self.read(states)
    here, ways, stage = self._here(at), self._ways(at), at.stage[:, None]
    flat = ways.reshape(len(states), self.hide)
    hides = ((at.turn == 0) & ~self.shows(at))[:, None]
    nothing = (here & self._stuck(at)).any(axis=1)[:, None]
    rest = np.zeros((len(states), self.num_actions - self.again), bool)
    moving = xp.concat([flat & ~hides, ways.any(axis=1) & hides, nothing, rest], axis=1)
    number = np.arange(self.num_actions)[None]
    elsewhere = at.maybe.sum(axis=1)[:, None] > 1
    looking = (number == self.caught) | ((number > self.caught) & elsewhere)
    choices = (number >= self.again) & (number < self.caught)
    legal = xp.where(stage == LOOKING, looking, xp.where(stage == CHOOSING, choices, moving))
    return legal & (stage < CAUGHT)

  def next_states(self, states, actions):
    at = self.read(states)
    is_mister_x = self.mister_x_moves(at)
    seen, stays = actions < self.hide, actions == self.stay
    kind = xp.where(seen, actions % self._num_kinds, xp.minimum(actions, self.stay - 1) - self.hide)
    moves = actions < self.stay
    station = xp.minimum(actions // self._num_kinds, self._num_stations - 1).astype(states.dtype)
    steps = seen & ~is_mister_x
    there = one_hot(station, self._num_stations)

    # Mr. X may be wherever a move of this kind leads.
    reached = xp.take_along_axis(self._ways(at), kind[:, None, None], axis=2)[:, :, 0]
    reached = reached & (there | ~seen[:, None])
    maybe = xp.where((is_mister_x & moves)[:, None], reached, at.maybe > 0)
    looks = steps & (maybe & there).any(axis=1)
    maybe = maybe & ~((at.stage == LOOKING)[:, None] & self.under_foot(at))

    who = one_hot(at.turn, 1 + self._num_detectives)
    stations = xp.where(who[:, 1:] & steps[:, None], station[:, None], at.stations)
    what = one_hot(kind, self._num_kinds)
    used = (who[:, :, None] & what[:, None] & moves[:, None, None]).astype(states.dtype)
    cards = at.cards - used
    if self.map.used_go_to_mister_x:
      own = cards[:, :1] + used[:, 1:].sum(axis=1, keepdims=True, dtype=states.dtype)
      cards = xp.concat([own, cards[:, 1:]], axis=1)
    cards = cards.reshape(len(states), (1 + self._num_detectives) * self._num_kinds)

    moved = at.moved + (is_mister_x & moves).astype(states.dtype)
    may_go_on = (at.stage == MOVING) & (at.doubles > 0) & (moved < self.rounds)
    chooses = is_mister_x & moves & may_go_on
    again = (at.stage == CHOOSING) & (actions == self.again)
    stays_on = looks | chooses | again
    turn = xp.where(stays_on, at.turn, (at.turn + 1) % (1 + self._num_detectives))
    over = (turn == 0) & (moved == self.rounds)
    stage = xp.where(looks, LOOKING, xp.where(over, ESCAPED, MOVING))
    stage = xp.where(chooses, CHOOSING, xp.where(again, AGAIN, stage))
    stage = xp.where((is_mister_x & stays) | (actions == self.caught), CAUGHT, stage)
    head = xp.stack([moved, turn, stage, at.doubles - again.astype(states.dtype)], axis=1)
    return xp.concatenate([head, stations, cards, maybe], axis=1, dtype=states.dtype)

  def _here(self, at: Columns):
    """Marks the stations where who moves may be: `[n, stations]`."""
    return xp.where(at.turn[:, None] == 0, at.maybe > 0, self.under_foot(at))

  def _free(self, at: Columns):
    """Marks the stations without a detective: `[n, stations]`."""
    return ~one_hot(at.stations, self._num_stations).any(axis=1)

  def _held(self, at: Columns):
    """Says which kinds of cards who moves has: `[n, kinds]`."""
    return xp.take_along_axis(at.cards, at.turn[:, None, None], axis=1)[:, 0] > 0

  def _ways(self, at: Columns):
    """Says by which kinds who moves may come to each station: `[n, stations, kinds]`."""
    # Connections go both ways: one to where it may be is one from there.
    near = (self._here(at)[:, self._end, None] & self._by_kind[None]).any(axis=2)
    return near & self._held(at)[:, None] & self._free(at)[:, :, None]

  def _leaves(self, at: Columns):
    """Says which connections who moves may take from each station: `[n, stations, M]`."""
    return self._free(at)[:, self._end] & self._held(at)[:, self._means] & (self._end >= 0)[None]

  def _stuck(self, at: Columns):
    """Marks the stations that who moves cannot leave: `[n, stations]`."""
    return ~self._leaves(at).any(axis=2)

  def shows(self, at: Columns):
    """Says whether Mr. X shows its station with the next move: `[n]`."""
    shown = np.isin(np.arange(self.rounds + 1) + 1, self.reveals)
    return lookup(shown, at.moved)

  def under_foot(self, at: Columns):
    """Marks the station of the detective who moves or has just moved: `[n, stations]`."""
    return one_hot(self._stands(at), self._num_stations)

  def _stands(self, at: Columns):
    """Returns the station of that detective, of the first where Mr. X moves: `[n]`."""
    return xp.take_along_axis(at.stations, xp.maximum(at.turn - 1, 0)[:, None], axis=1)[:, 0]

  # What it is worth, what a network sees, and what a person reads.

  def payoff_scale(self, states):
    at = self.read(states)
    return xp.where(at.stage == ESCAPED, 1.0, -1.0)

  def features(self, states, player):
    at = self.read(states)
    n, detectives = len(states), self._num_detectives
    most, doubles = np.max(self.map.cards_of, axis=0).astype(float), min(self.map.doubles, 1)
    cards = at.cards.astype(float) / most[None, None]
    columns = [
      xp.full((n, 1), player),
      one_hot(at.turn, 1 + self._num_detectives),
      (at.stage == LOOKING)[:, None],
      *[(at.stage == stage)[:, None] for stage in (CHOOSING, AGAIN)][: 2 * doubles],
      at.doubles[:, None][:, :doubles] / max(self.map.doubles, 1),
      at.moved[:, None] / self.rounds,
      *[one_hot(at.stations[:, i], self._num_stations) for i in range(detectives)],
      *[cards[:, i] for i in range(1 + detectives)],
      at.maybe,
    ]
    return xp.concatenate(columns, axis=1, dtype=float)

  @functools.cached_property
  def _names(self) -> list[str]:
    """Readable names of all actions."""
    by = [f"{kind} " * (self._num_kinds > 1) for kind in self.map.kinds]
    moves = [f"{kind}to {station + 1}" for station in range(self._num_stations) for kind in by]
    again = ["moves again", "does not move again"] * (self.map.doubles > 0)
    return [*moves, *(f"{kind}hidden" for kind in by), "no move", *again, "caught", "not there"]

  def action_name(self, action):
    return self._names[action]

  def _after(self, history: Sequence[int]) -> Columns:
    """Returns the columns of the one public state after `history`."""
    return self.read(self.state_after(history)[None])

  def describe(self, history: Sequence[int], action: int) -> str:
    turn = int(self._after(history).turn[0])
    mover = f" (detective {turn})" if turn and action < self.caught else ""
    return self.action_name(action) + mover

  def situation(self, history: Sequence[int]) -> str:
    at = self._after(history)
    turn, maybe = int(at.turn[0]), np.flatnonzero(at.maybe[0])
    moves = bool(self.mister_x_moves(at)[0])
    now = min(int(at.moved[0]) + moves, self.rounds)
    mover = f"detective {turn}" if turn else "Mr. X"
    does = "to move" if turn or moves else "may move again"
    shows = ", showing its station then" if moves and now in self.reveals else ""
    found = "one of " * (len(maybe) > 1) + ", ".join(str(x + 1) for x in maybe)
    lines = [f"Mr. X at {found}"]
    lines += [f"detective {i + 1} at {x + 1}" for i, x in enumerate(at.stations[0])]
    held = [", ".join(map("{} {}".format, row, self.map.kinds)) for row in at.cards[0]]
    lines = [f"{line}: {cards} left" for line, cards in zip(lines, held)]
    if self.map.doubles:
      lines[0] += f", double moves: {int(at.doubles[0])}"
    return "\n  ".join([f"round {now} of {self.rounds}, {mover} {does}{shows}", *lines])

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
    shown = self._by_kind.any(axis=1).sum() if self.reveals else self._num_kinds
    return int(max(self._end.shape[1], shown + 1))

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
    return xp.broadcast_to(np.arange(self.num_infostates), (len(moved), self.num_infostates))

  def chance(self, states, actions):
    at = self.read(states)
    found = xp.take_along_axis(self.under_foot(at), self._at(at.moved), axis=1)
    mister_x = found == (actions == self.caught)[:, None]
    mask = xp.stack([mister_x, xp.ones_like(mister_x)], axis=1)
    return np.ones(len(states)), mask

  def infostate_parents(self, states, actions):
    if not self.remembers:
      return None
    at = self.read(states)
    path = np.arange(self.num_infostates, dtype=states.dtype)[None]
    path = xp.broadcast_to(path, (len(states), self.num_infostates))
    after = xp.minimum(at.moved + 1, self.rounds)
    station, kind = self._at(after), lookup(self._walks[2], after)
    seen = (actions < self.hide)[:, None]
    action = actions[:, None].astype(states.dtype)
    meant = xp.where(seen, station * self._num_kinds + kind, self.hide + kind) == action
    comes = meant & (kind >= 0) & xp.take_along_axis(self._free(at), station, axis=1)
    moved = xp.where(comes, lookup(self._walks[1], after), -1)
    stuck = xp.take_along_axis(self._stuck(at), self._at(at.moved), axis=1)
    stayed = xp.where(stuck, path, -1)
    by_mister_x = self.mister_x_moves(at)[:, None]
    mister_x = xp.where(by_mister_x, xp.where(action == self.stay, stayed, moved), path)
    return xp.stack([mister_x, path], axis=1)

  def possible_after(self, states, actions, possible):
    if self.remembers:
      return super().possible_after(states, actions, possible)
    at = self.read(states)
    stuck = self._stuck(at) & (at.maybe > 0)
    stays = self.mister_x_moves(at) & (actions == self.stay)
    maybe = self.read(self.next_states(states, actions)).maybe > 0
    maybe = xp.where((actions == self.caught)[:, None], self.under_foot(at), maybe)
    maybe = xp.where(stays[:, None], stuck, maybe)
    return xp.stack([maybe, possible[:, 1]], axis=1)

  def hidden_moves(self, states):
    at = self.read(states)
    number = np.arange(self.num_hidden, dtype=states.dtype)[None, None]
    here = np.arange(self.num_infostates, dtype=states.dtype)[None, :, None]
    end, kind = (x[None].astype(states.dtype) for x in (self._end, self._means))
    is_mister_x = (at.turn == 0)[:, None, None]
    seen = end * self._num_kinds + kind
    mister_x = xp.where(self.shows(at)[:, None, None], seen, self.hide + kind)
    free = self._leaves(at)
    # A detective's moves are those of the station where it stands.
    stands = self._stands(at)[:, None]
    of_team = xp.take_along_axis(free, stands[:, :, None], axis=1) & (here == 0)
    free = xp.where(is_mister_x, free, of_team)
    action = xp.where(is_mister_x, mister_x, lookup(seen[0], stands))
    after = xp.where(is_mister_x, end, 0)
    stays = ~free.any(axis=2, keepdims=True) & (is_mister_x | (here == 0)) & (number == 0)
    leads_to = xp.where(free, after, xp.where(stays, here, -1))
    action = xp.where(free, action, xp.where(stays, self.stay, -1))
    # Whether to move again is asked wherever Mr. X is, which stays there.
    chooses = (at.stage == CHOOSING)[:, None, None]
    leads_to = xp.where(chooses, xp.where(number < 2, here, -1), leads_to)
    action = xp.where(chooses, xp.where(number < 2, self.again + number, -1), action)
    return MoverMoves(leads_to.swapaxes(1, 2), action.swapaxes(1, 2))

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

  def __repr__(self) -> str:
    own = f"map_name={self.map!r}, rounds={self.rounds}, reveals={self.reveals}"
    return f"games.make({self.name!r}, {own}, remembers={self.remembers})"


def edge_table(city: Map) -> np.ndarray:
  """Returns which stations each kind of transport joins: `[kinds, stations, stations]`, bool."""
  joined = np.zeros((len(city.kinds), city.num_stations, city.num_stations), bool)
  for a, b, kind in city.edges:
    joined[city.kinds.index(kind), [a - 1, b - 1], [b - 1, a - 1]] = True
  return joined


def _connections(city: Map) -> tuple[np.ndarray, np.ndarray]:
  """Returns where each station's connections end, and their kinds: `[H, M]`, padded by -1."""
  here, there, kind = np.nonzero(edge_table(city).transpose(1, 2, 0))
  number = np.arange(len(here)) - np.searchsorted(here, here)
  ends = np.full((2, city.num_stations, max(int(number.max()) + 1, 2)), -1, np.int32)
  ends[:, here, number] = there, kind
  return ends[0], ends[1]


def _paths(city: Map, rounds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns walks `[H, rounds + 1]`, and paths' predecessors and last kinds `[rounds + 1, H]`."""
  # Row k, by number of a path of k moves: the number of the path before its last move, and that
  # move's kind, -1 where no path has the number.
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
  number = np.arange(len(walks))
  steps = walks[:, 1:] * len(city.kinds) + used  # the station and the kind of each move as one
  alike = np.logical_and.accumulate(steps[1:] == steps[:-1], axis=1).T
  first = np.zeros((rounds + 1, len(walks)), int)
  first[1:, 1:] = np.maximum.accumulate(np.where(alike, 0, number[1:]), axis=1)
  before = np.concatenate([first[:1], first[:-1]])
  kind = np.concatenate([np.full((1, len(walks)), -1), used.T])
  kind = np.where(first == number, kind, -1)
  return walks, before.astype(np.int32), kind.astype(np.int32)


register("scotland_yard", ScotlandYard)
