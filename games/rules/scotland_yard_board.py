"""Public states of Scotland Yard: stations, cards, turns, and where Mr. X may be."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from games.arrays import is_whole, lookup, short
from games.game import CHANCE, TERMINAL, Game
from games.registry import unknown_name
from games.rules.scotland_yard_maps import MAPS, Map

# What happens in a public state. Mr. X has moved once and may go on in CHOOSING; it does in AGAIN.
MOVING, LOOKING, CHOOSING, AGAIN, CAUGHT, ESCAPED = range(6)


class Columns(NamedTuple):
  """The columns of public states, taken apart."""

  moved: Any  # [n] how often Mr. X has moved
  turn: Any  # [n] 0: Mr. X, k: the k-th detective
  stage: Any  # [n]
  doubles: Any  # [n] how often Mr. X may still move twice
  stations: Any  # [n, detectives] where they are
  cards: Any  # [n, 1 + detectives, kinds] of Mr. X and of the detectives
  maybe: Any  # [n, stations] 1 where Mr. X may be, else 0


class Board(Game):
  """The public rules of Scotland Yard, and Mr. X's stations; see `ScotlandYard`.

  Args:
    map_name, rounds, reveals: as of `ScotlandYard`.
  """

  def __init__(
    self, map_name: str | Map = "glasses", rounds: int = 5, reveals: tuple[int, ...] = ()
  ):
    if not isinstance(map_name, Map) and (not isinstance(map_name, str) or map_name not in MAPS):
      raise ValueError(unknown_name("map_name", map_name, MAPS))
    if not is_whole(rounds, 1):
      raise ValueError(f"rounds={short(rounds)} must be a positive integer")
    shown = tuple(reveals) if isinstance(reveals, tuple | list) else (None,)
    if any(not is_whole(x, 1, rounds) for x in shown):
      raise ValueError(f"reveals={short(reveals)} must be integers from 1 to rounds={rounds}")
    self.map = map_name if isinstance(map_name, Map) else MAPS[map_name]
    self.rounds, self.reveals = rounds, shown
    self.edge_table = edge_table(self.map)
    self._num_stations, self._num_kinds = self.map.num_stations, len(self.map.kinds)
    self._num_detectives = len(self.map.detectives)
    self.hide = self._num_stations * self._num_kinds
    self.stay = self.hide + self._num_kinds
    self.again = self.stay + 1
    self.caught = self.again + 2 * (self.map.doubles > 0)
    self.num_actions = self.caught + 2

    # A round is a move of Mr. X, a choice and a move where there are double ones, and of each
    # detective a move and a look.
    self.max_moves = rounds * self.longest_wait

  @property
  def num_player_actions(self):
    return self.caught

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
    xp, at = states.__array_namespace__(), self.read(states)
    moving = xp.where(at.turn == 0, 0, 1)
    return xp.where(at.stage >= CAUGHT, TERMINAL, xp.where(at.stage == LOOKING, CHANCE, moving))

  def legal_actions(self, states):
    xp, at = states.__array_namespace__(), self.read(states)
    n = len(states)
    free, going, stuck = self._mister_x(at)
    shows = self.shows(at)[:, None]
    reached = (going > 0) & free[:, None]  # [n, kinds, stations]
    seen = reached.swapaxes(1, 2).reshape(n, self.hide) & shows
    hidden = reached.any(axis=2) & ~shows
    nothing = (stuck & (at.maybe > 0)).any(axis=1)[:, None]
    rest = xp.zeros((n, self.num_actions - self.again), bool)
    mister_x = xp.concat([seen, hidden, nothing, rest], axis=1)

    number = xp.maximum(at.turn - 1, 0)
    station = xp.take_along_axis(at.stations, number[:, None], axis=1)[:, 0]
    held = xp.take_along_axis(at.cards, (number + 1)[:, None, None], axis=1)[:, 0] > 0
    steps = lookup(self.edge_table.swapaxes(0, 1), station) & held[:, :, None] & free[:, None]
    seen = steps.swapaxes(1, 2).reshape(n, self.hide)
    nothing = ~seen.any(axis=1)[:, None]
    detective = xp.concat([seen, xp.zeros_like(hidden), nothing, rest], axis=1)

    elsewhere = at.maybe.sum(axis=1)[:, None] > 1
    none = xp.zeros((n, self.caught), bool)
    looking = xp.concat([none, xp.ones((n, 1), bool), elsewhere], axis=1)
    moving = xp.where(at.turn[:, None] == 0, mister_x, detective)
    legal = xp.where(at.stage[:, None] == LOOKING, looking, moving)
    number = xp.arange(self.num_actions)
    choices = (number >= self.again) & (number < self.caught)
    legal = xp.where(at.stage[:, None] == CHOOSING, choices, legal)
    return legal & (at.stage < CAUGHT)[:, None]

  def next_states(self, states, actions):
    xp, at = states.__array_namespace__(), self.read(states)
    free, going, _ = self._mister_x(at)
    is_mister_x = self.mister_x_moves(at)
    seen, stays = actions < self.hide, actions == self.stay
    kind = xp.where(seen, actions % self._num_kinds, xp.minimum(actions, self.stay - 1) - self.hide)
    moves = actions < self.stay
    station = xp.minimum(actions // self._num_kinds, self._num_stations - 1)
    steps = seen & ~is_mister_x
    there = station[:, None] == xp.arange(self._num_stations)

    # Mr. X may be wherever a move of this kind leads.
    reached = xp.take_along_axis(going, kind[:, None, None], axis=1)[:, 0] > 0
    reached = reached & free & (there | ~seen[:, None])
    maybe = xp.where((is_mister_x & moves)[:, None], reached, at.maybe > 0)
    looks = steps & (maybe & there).any(axis=1)
    missed = (at.stage == LOOKING)[:, None] & self.under_foot(at)
    maybe = maybe & ~missed

    detective = xp.arange(self._num_detectives) + 1 == at.turn[:, None]
    stations = xp.where(detective & steps[:, None], station[:, None], at.stations)
    who = xp.arange(1 + self._num_detectives) == at.turn[:, None]
    what = xp.arange(self._num_kinds) == kind[:, None]
    used = who[:, :, None] & what[:, None] & moves[:, None, None]
    cards = at.cards - used
    if self.map.used_go_to_mister_x:
      own = cards[:, :1] + used[:, 1:].sum(axis=1, keepdims=True)
      cards = xp.concat([own, cards[:, 1:]], axis=1)
    cards = cards.reshape(len(states), (1 + self._num_detectives) * self._num_kinds)

    moved = at.moved + (is_mister_x & moves)
    may_go_on = (at.stage == MOVING) & (at.doubles > 0) & (moved < self.rounds)
    chooses = is_mister_x & moves & may_go_on
    again = (at.stage == CHOOSING) & (actions == self.again)
    stays_on = looks | chooses | again
    turn = xp.where(stays_on, at.turn, (at.turn + 1) % (1 + self._num_detectives))
    over = (turn == 0) & (moved == self.rounds)
    stage = xp.where(looks, LOOKING, xp.where(over, ESCAPED, MOVING))
    stage = xp.where(chooses, CHOOSING, xp.where(again, AGAIN, stage))
    stage = xp.where((is_mister_x & stays) | (actions == self.caught), CAUGHT, stage)
    head = xp.stack([moved, turn, stage, at.doubles - again], axis=1)
    return xp.concat([head, stations, cards, maybe], axis=1).astype(states.dtype)

  def _mister_x(self, at: Columns):
    """Returns Mr. X's options: the stations without a detective `[n, stations]`, how many
    stations lead to each by each kind `[n, kinds, stations]`, and from where it cannot move."""
    xp = at.maybe.__array_namespace__()
    occupied = at.stations[:, :, None] == xp.arange(self._num_stations)
    free = ~occupied.any(axis=1)
    edges = xp.asarray(self.edge_table.astype(np.int32))
    held = at.cards[:, 0] > 0
    counts = (at.maybe[:, None, None] @ edges)[:, :, 0]
    out = (free.astype(np.int32)[:, None, None] @ edges)[:, :, 0] > 0
    return free, counts * held[:, :, None], ~(out & held[:, :, None]).any(axis=1)

  def shows(self, at: Columns):
    """Says whether Mr. X shows its station with the next move: `[n]`."""
    shown = np.isin(np.arange(self.rounds + 1) + 1, self.reveals)
    return lookup(shown, at.moved)

  def under_foot(self, at: Columns):
    """Marks the station of the detective who moves or has just moved: `[n, stations]`."""
    xp = at.maybe.__array_namespace__()
    number = xp.maximum(at.turn - 1, 0)[:, None]
    station = xp.take_along_axis(at.stations, number, axis=1)
    return station == xp.arange(self._num_stations)

  # What it is worth, what a network sees, and what a person reads.

  def payoffs(self):
    return np.ones((1, self.num_infostates, self.num_infostates))

  def payoff_index(self, states):
    return states.__array_namespace__().zeros(len(states), int)

  def payoff_scale(self, states):
    xp, at = states.__array_namespace__(), self.read(states)
    return xp.where(at.stage == ESCAPED, 1.0, -1.0)

  def features(self, states, player):
    xp, at = states.__array_namespace__(), self.read(states)
    n, detectives = len(states), self._num_detectives
    most, doubles = np.max(self.map.cards_of, axis=0), min(self.map.doubles, 1)
    columns = [
      xp.full((n, 1), player),
      at.turn[:, None] == xp.arange(1 + self._num_detectives),
      (at.stage == LOOKING)[:, None],
      *[(at.stage == stage)[:, None] for stage in (CHOOSING, AGAIN)][: 2 * doubles],
      at.doubles[:, None][:, :doubles] / max(self.map.doubles, 1),
      at.moved[:, None] / self.rounds,
      *[at.stations[:, i, None] == xp.arange(self._num_stations) for i in range(detectives)],
      *[at.cards[:, i] / xp.asarray(most) for i in range(1 + detectives)],
      at.maybe,
    ]
    return xp.concat(columns, axis=1).astype(float)

  def action_name(self, action):
    if action < self.hide:
      station, kind = divmod(action, self._num_kinds)
      return f"{self._by(kind)}to {station + 1}"
    if action < self.stay:
      return f"{self._by(action - self.hide)}hidden"
    if self.again <= action < self.caught:
      return ("moves again", "does not move again")[action - self.again]
    return ("no move", "caught", "not there")[max(action - self.caught + 1, 0)]

  def _after(self, history: Sequence[int]) -> Columns:
    """Returns the columns of the one public state after `history`."""
    states = self.initial_state()[None]
    for action in history:
      states = self.next_states(states, np.array([action]))
    return self.read(states)

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
    lines = [f"{line}: {self._cards(row)} left" for line, row in zip(lines, at.cards[0])]
    if self.map.doubles:
      lines[0] += f", double moves: {int(at.doubles[0])}"
    return "\n  ".join([f"round {now} of {self.rounds}, {mover} {does}{shows}", *lines])

  def _cards(self, row: np.ndarray) -> str:
    return ", ".join(f"{x} {kind}" for x, kind in zip(row, self.map.kinds))

  def explain(self) -> str:
    shown = ", ".join(str(x) for x in sorted(set(self.reveals)))
    unseen = f"unseen but after move {shown}" if shown else "unseen"
    doubles = self.map.doubles
    twice = f"Mr. X may move twice in a row, {doubles} times. " if doubles else ""
    return (
      f"Mr. X starts at {self.map.mister_x} and moves along an edge {self.rounds} times, {unseen}; "
      "then every detective moves, all of them by one player. A move uses up a card of its kind. "
      f"{twice}Mr. X loses if a detective steps on its station or it cannot move, and else wins."
    )

  def _by(self, kind: int) -> str:
    return f"{self.map.kinds[kind]} " if self._num_kinds > 1 else ""


def edge_table(city: Map) -> np.ndarray:
  """Returns which stations each kind of transport joins: `[kinds, stations, stations]`, bool."""
  joined = np.zeros((len(city.kinds), city.num_stations, city.num_stations), bool)
  for a, b, kind in city.edges:
    joined[city.kinds.index(kind), [a - 1, b - 1], [b - 1, a - 1]] = True
  return joined
