"""Infostates of OpenSpiel histories, checked for perfect recall and a common clock."""

import dataclasses
import graphlib
from collections import defaultdict

import numpy as np
import pyspiel

from games.game import CHANCE, TERMINAL
from rebel_jax.open_spiel.histories import SpielHistories


@dataclasses.dataclass(frozen=True)
class Infostates:
  """One player's infostates: what it has seen and done.

  They form a tree. At a player's own decisions they are OpenSpiel's information states;
  elsewhere as fine as OpenSpiel's strings say.

  Attributes:
    of: `[M]` the infostate at each history.
    waiting: `[M]` the same before the player notices that it is its turn to move, see
      `find_times`.
    string: for each infostate the number of the last information state string, -1 for none.
  """

  of: np.ndarray
  waiting: np.ndarray
  string: np.ndarray


def find_infostates(
  game: pyspiel.Game, histories: SpielHistories, player: int, *, eager: bool
) -> Infostates:
  """Returns `player`'s infostates.

  Args:
    game: named in errors.
    histories: of the game.
    player: 0 or 1.
    eager: whether strings count while the player is not to move. Where they do not fit, because
      they drop something between two decisions of the player, they are not used all the same.

  Raises:
    ValueError: the player forgets: one information state with a choice follows from different
      earlier information states or own actions.
  """
  for use_all in (True, False) if eager else (False,):
    found = _read(histories, player, use_all)
    clash = _forgotten(histories, player, found)
    if clash is None:
      return found
  string = histories.strings[player][histories.observation[player][clash]]
  raise ValueError(
    f"game={game} lacks perfect recall: player {player}'s information state {string!r} follows "
    "from different information states or actions of its own"
  )


def _read(histories: SpielHistories, player: int, eager: bool) -> Infostates:
  numbers: dict[tuple, int] = {}
  last: list[int] = []  # last string of each infostate

  def number(*key) -> int:
    found = numbers.setdefault(key, len(numbers))
    if found == len(last):
      last.append(key[2])
    return found

  of: list[int] = []
  waiting: list[int] = []
  started: list[bool] = []  # whether a player has moved
  actors = histories.actor.tolist()
  rows = zip(
    histories.parent.tolist(),
    histories.action.tolist(),
    actors,
    histories.observation[player].tolist(),
  )
  for parent, action, actor, seen in rows:
    decides = actor == player
    if parent < 0:
      started.append(False)
      waiting.append(number(-1, -1, -1 if decides else seen, False))
      of.append(number(waiting[-1], -1, seen, True) if decides else waiting[-1])
      continue
    before, acted = of[parent], actors[parent] == player
    known = last[before]
    started.append(started[parent] or actors[parent] != CHANCE)
    if eager and not started[-1]:
      # What the deals looked like one by one is forgotten: OpenSpiel sorts a player's dice.
      before = 0
    news = seen if eager and not decides and actor != TERMINAL and seen >= 0 else known
    if acted:
      before = number(before, action, news, False)
    elif news != known:
      before = number(before, -1, news, False)
    waiting.append(before if acted or news != known else of[parent])
    of.append(number(before, -1, seen, True) if decides else waiting[-1])
  return Infostates(np.array(of), np.array(waiting), np.array(last))


def _forgotten(histories: SpielHistories, player: int, found: Infostates) -> int | None:
  """Returns a history whose information state is spread over several infostates, or None.

  Information states with one legal action leave nothing to decide and may be spread.
  """
  decisions = np.flatnonzero((histories.actor == player) & (histories.num_legal > 1))
  strings = histories.observation[player][decisions]
  infostates = found.of[decisions]
  order = np.lexsort((infostates, strings))
  strings, infostates = strings[order], infostates[order]
  clash = np.flatnonzero((np.diff(strings) == 0) & (np.diff(infostates) != 0))
  return None if clash.size == 0 else int(decisions[order[clash[0] + 1]])


def find_times(
  game: pyspiel.Game, histories: SpielHistories, infostates: tuple[Infostates, Infostates]
) -> np.ndarray:
  """Returns a time for each history that is the same within every decision's infostate: `[M]`.

  Usually the number of actions. Where a player does not notice how often the other moves, the
  longest way to the infostate; histories that get there sooner wait.

  Raises:
    ValueError: no such clock exists.
  """
  group = np.full(len(histories), -1)
  count = 0
  for player in (0, 1):
    own = np.flatnonzero(histories.actor == player)
    _, number = np.unique(infostates[player].of[own], return_inverse=True)
    group[own] = number.reshape(-1) + count
    count += int(number.max(initial=-1)) + 1
  decisions = np.flatnonzero(group >= 0)
  first = np.full(count, -1)
  first[group[decisions]] = histories.depth[decisions]
  if (first[group[decisions]] == histories.depth[decisions]).all():
    return histories.depth
  rest = np.flatnonzero(group < 0)
  group[rest] = count + np.arange(len(rest))
  return _longest_paths(game, histories, group)


def _longest_paths(game: pyspiel.Game, histories: SpielHistories, group: np.ndarray) -> np.ndarray:
  before = defaultdict(set)
  for above, below in zip(group[histories.parent[1:]].tolist(), group[1:].tolist()):
    before[below].add(above)
  time = np.zeros(group.max() + 1, int)
  try:
    for number in graphlib.TopologicalSorter(before).static_order():
      time[number] = max((time[above] + 1 for above in before.get(number, ())), default=0)
  except graphlib.CycleError:
    raise ValueError(
      f"game={game} cannot be put in an order in time that respects its information states: one "
      "is both before and after another, so there is no public tree"
    ) from None
  return time[group]


def find_public_states(
  histories: SpielHistories, infostates: tuple[Infostates, Infostates], time: np.ndarray
) -> list[dict[int, int]]:
  """Returns the public states: for each time, the number of each history's.

  Two histories share a public state if a chain of histories leads from one to the other, each
  of which some player cannot tell from the next, or if those below them do. SpielHistories are
  present from the time after their parent's move to their own move; ends of the game are left
  out.
  """
  alive = np.flatnonzero(histories.actor != TERMINAL)
  parent = histories.parent
  arrival = np.where(parent >= 0, time[np.maximum(parent, 0)] + 1, 0)
  present: list[list[int]] = [[] for _ in range(int(time[alive].max(initial=0)) + 1)]
  for index, start, stop in zip(alive.tolist(), arrival[alive].tolist(), time[alive].tolist()):
    for moment in range(start, stop + 1):
      present[moment].append(index)
  # While a history waits, whose turn it is has not been noticed.
  known = [(of.waiting.tolist(), of.of.tolist()) for of in infostates]
  parents, arrivals, times = parent.tolist(), arrival.tolist(), time.tolist()
  levels: list[dict[int, int]] = [{} for _ in present]
  for moment in reversed(range(len(present))):
    links = _Links()
    for index in present[moment]:
      acts = times[index] == moment
      links.join(index, (0, known[0][acts][index]))
      links.join(index, (1, known[1][acts][index]))
    if moment + 1 < len(present):
      for index, state in levels[moment + 1].items():
        before = index if arrivals[index] <= moment else parents[index]
        links.join(before, (2, state))
    levels[moment] = links.number(present[moment])
  return levels


class _Links:
  """Union-find over histories and what links them."""

  def __init__(self) -> None:
    self._above: dict = {}

  def _root(self, x):
    above = self._above
    if x not in above:
      above[x] = x
      return x
    while above[x] != x:
      above[x] = above[above[x]]
      x = above[x]
    return x

  def join(self, x, y) -> None:
    x, y = self._root(x), self._root(y)
    if x != y:
      self._above[y] = x

  def number(self, members: list[int]) -> dict[int, int]:
    numbers: dict = {}
    return {x: numbers.setdefault(self._root(x), len(numbers)) for x in members}


def connected(rows: list[tuple]) -> list[list[int]]:
  """Groups rows that are connected by equal entries: lists of positions, in order."""
  links = _Links()
  for position, row in enumerate(rows):
    for key in row:
      links.join(position, ("key", key))
  numbers = links.number(list(range(len(rows))))
  groups: dict[int, list[int]] = defaultdict(list)
  for position, number in numbers.items():
    groups[number].append(position)
  return list(groups.values())
