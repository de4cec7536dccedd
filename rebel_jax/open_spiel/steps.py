"""Steps of histories from one public state to the next."""

import dataclasses
import re

import numpy as np

from games.game import CHANCE, TERMINAL
from rebel_jax.open_spiel.histories import Histories
from rebel_jax.open_spiel.infostates import Infostates

Key = tuple[int, int]  # an infostate, and the own action taken in it or `PASS`
Keys = tuple[Key, Key]  # both players'
Target = tuple[str, int, int]
PASS = -1


@dataclasses.dataclass(slots=True)
class Step:
  """One history's way through a public state: to the history after its move, or it waits.

  Attributes:
    before, after: the histories.
    actor: 0, 1 or `CHANCE`; `PASS` while the history waits.
    action: the last action of `after` unless the history waits.
    target: what it leads to: ("state", time, public state), or for an end of the game ("end",
      who moved, the action), all that chance decides being one end.
    known: what each player knows at the stage that is being expanded.
    unit: what each player knows once it has moved.
  """

  before: int
  after: int
  actor: int
  action: int
  target: Target
  known: Keys
  unit: Keys

  def after_move(self, player: int) -> "Step":
    """Returns the step at the stage where `player` has moved."""
    return dataclasses.replace(self, known=replace_key(self.known, player, self.unit[player]))


class Timeline:
  """The histories of a game in time, and what the players know of them."""

  def __init__(
    self,
    histories: Histories,
    infostates: tuple[Infostates, Infostates],
    time: np.ndarray,
    public: list[dict[int, int]],
  ):
    self.nature = histories.nature.tolist()
    self.payoff = histories.payoff.tolist()
    self._strings = histories.strings
    self._public = public
    self._time = time.tolist()
    self._actor = histories.actor.tolist()
    self._action = histories.action.tolist()
    self._known = [(of.waiting.tolist(), of.of.tolist()) for of in infostates]
    self._string = [of.string.tolist() for of in infostates]
    order = np.argsort(histories.parent, kind="stable")
    starts = np.searchsorted(histories.parent[order], np.arange(len(histories) + 1))
    self._children, self._starts = order.tolist(), starts.tolist()

  def steps(self, members: list[int], moment: int) -> list[Step]:
    """Returns all ways through a public state, `members` its histories at that time."""
    steps = []
    for before in members:
      known = self.keys(before, moment)
      if self._time[before] > moment:
        target: Target = ("state", moment + 1, self._public[moment + 1][before])
        steps.append(Step(before, before, PASS, PASS, target, known, known))
        continue
      actor = self._actor[before]
      for after in self._children[self._starts[before] : self._starts[before + 1]]:
        action = self._action[after]
        if self._actor[after] == TERMINAL:
          target = ("end", actor, action if actor < CHANCE else PASS)
        else:
          target = ("state", moment + 1, self._public[moment + 1][after])
        unit = known
        if actor < CHANCE:
          unit = replace_key(known, actor, (known[actor][0], action))
        steps.append(Step(before, after, actor, action, target, known, unit))
    return steps

  def keys(self, history: int, moment: int) -> Keys:
    """Returns what the players know at a history; its end is known at any time."""
    acts = self._time[history] <= moment
    return (self._known[0][acts][history], PASS), (self._known[1][acts][history], PASS)

  def first_actor(self, members: list[int], moment: int) -> int:
    """Returns who moves first: 0, 1 or `CHANCE`."""
    return min(self._actor[h] for h in members if self._time[h] == moment)

  def mover_learns(self, steps: list[Step], player: int) -> bool:
    """Says whether the mover learns something in private from its own move."""
    arrival = self.arrival(steps)
    learned: dict[Key, Key] = {}
    for step in steps:
      key = self.keys(step.after, arrival)[player]
      if learned.setdefault(step.unit[player], key) != key:
        return True
    return False

  def arrival(self, steps: list[Step]) -> int:
    """Returns the time at which something happens next to the histories that steps lead to."""
    return min(self._time[step.after] for step in steps)

  def order(self, player: int, key: Key) -> tuple:
    """Sorts infostates by their strings, numbers in them as numbers, then by own action."""
    return natural_order(self.string_of(player, key)), key

  def string_of(self, player: int, key: Key) -> str:
    """Returns the last information state string that an infostate has seen, "" for none."""
    string = self._string[player][key[0]]
    return "" if string < 0 else self._strings[player][string]


def natural_order(name: str) -> tuple:
  """Returns a sort key that orders numbers within names by their size."""
  return tuple(int(x) if i % 2 else x for i, x in enumerate(re.split(r"(\d+)", name)))


def replace_key(keys: Keys, player: int, key: Key) -> Keys:
  """Returns `keys` with that of one player replaced."""
  return (key, keys[1]) if player == 0 else (keys[0], key)
