"""Public states: what is common knowledge at each time."""

from collections import defaultdict

import numpy as np

from games.game import TERMINAL
from rebel_jax.open_spiel.histories import Histories
from rebel_jax.open_spiel.infostates import Infostates


def find_public_states(
  histories: Histories, infostates: tuple[Infostates, Infostates], time: np.ndarray
) -> list[dict[int, int]]:
  """Returns the public states: for each time, the number of each history's.

  Two histories share a public state if a chain of histories leads from one to the other, each
  of which some player cannot tell from the next, or if those below them do. Histories are
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
