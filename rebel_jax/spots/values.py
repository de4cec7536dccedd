"""Reach and values of both players on all lines of a spot, in NumPy.

A solution is shown without a program to compile and without a device, in 64 bits, by board.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from games.poker.lines import LineMap
from games.poker.lines.lines import CLOSED, DECISION, FOLD, SHOWDOWN

_CARD = 2**20  # more than any strength
Rows = tuple[dict[int, np.ndarray], dict[int, np.ndarray]]


class Compared:
  """A player's hands against the other's on a board, by strength."""

  # `ours`, `theirs`: `[J]` strengths. `cards`: `[J, 2]` of one hand of each class of ours.
  # `holding`: `[J of the other, C]` how many hands of each of their classes hold a card, `size` how
  # many each has. `twin`: `[J]` their class of the same hand as ours; beyond all if there is none.

  def __init__(self, ours, theirs, cards, holding, size, twin):
    self._twin, self._order, theirs = twin, np.argsort(theirs), theirs.astype(int)
    self._size = size[self._order, None]
    hand, card = np.nonzero(holding)
    keys = card * _CARD + theirs[hand] + 1
    order = np.argsort(keys)
    self._hand, self._weight = hand[order], holding[hand, card][order, None]
    ranked, keys, own = theirs[self._order], keys[order], cards.T * _CARD
    self._places = [
      (np.searchsorted(ranked, ours), np.searchsorted(keys, own + ours + 1)),
      (np.searchsorted(ranked, ours, "right"), np.searchsorted(keys, own + ours + 1, "right")),
    ]
    self._first, self._last = np.searchsorted(keys, own), np.searchsorted(keys, own + _CARD)

  def __call__(self, reach: np.ndarray, shown: slice) -> tuple[np.ndarray, ...]:
    """Returns sums of their reach `[J of the other, T]` over hands that share no card: `[J, T]`."""
    # Of those below each hand and of those up to it, in the columns `shown`; and of all.
    every, by_card = (
      np.pad(np.cumsum(x, axis=0), ((1, 0), (0, 0)))
      for x in (reach[self._order] * self._size, reach[self._hand] * self._weight)
    )
    same = np.pad(reach, ((0, 1), (0, 0)))[self._twin]  # both cards of a hand take it out
    total = every[-1] - (by_card[self._last] - by_card[self._first]).sum(axis=0) + same
    every, by_card, same = (x[:, shown] for x in (every, by_card, same))
    start = by_card[self._first].sum(axis=0)
    below, most = (every[k] - by_card[of].sum(axis=0) + start for k, of in self._places)
    return below, most + same, total


class Values:
  """Reach and counterfactual values of a policy, `[n, W]` for each level of lines."""

  # Rounds before the last are swept once for all nodes, the last one board by board.

  def __init__(self, lines: Any, columns: LineMap, policy: Sequence[Any]):
    self._lines, self._map, self._policy = lines, columns, policy
    self._last = len(lines.streets) - 1
    self._rounds = [
      [i for i, level in enumerate(lines.levels) if level.street == street]
      for street in range(self._last + 1)
    ]
    self._places = [  # each board's group, and its number among the boards of that
      [
        (own, b - first)
        for own, (first, stop) in zip(x.groups, y.groups)
        for b in range(first, stop)
      ]
      for x, y in zip(lines.streets, columns.boards)
    ]
    self._above: tuple[Rows, Rows] = ({}, {}), ({}, {})
    self._on_board = functools.lru_cache(64)(self._sweep)
    for street in range(self._last):
      for p in (0, 1):
        self._down(street, p, slice(None), self._above[0][p])
    if self._last:
      first, every = self._rounds[self._last][0], range(len(columns.boards[-1].cards))
      # Of a board no more is kept: all lines of all boards take more memory than a solve.
      starts = [[rows[first] for rows in self._sweep(b)[1]] for b in every]
      below = [np.concatenate(rows, axis=1) for rows in zip(*starts)]
    for street in reversed(range(self._last)):
      every = range(len(columns.boards[street].cards))
      for p in (0, 1):
        self._up(street, p, every, slice(None), self._above, self._undealt(street, p, below[p]))
      below = [own[self._rounds[street][0]] for own in self._above[1]]

  def on(self, street: int, board: int) -> tuple[Rows, Rows]:
    """Returns reach and values on a round, of the last one in the columns of a board alone."""
    # For each player, by number of the level: `[n, W]` the belief in a hand at the start times its
    # own moves, of one hand of each class; and the other's reach and the probability of the cards
    # times chips.
    return self._above if street < self._last else self._on_board(board)

  def _columns(self, street: int, board: int) -> list[slice]:
    """Returns each player's columns of a board."""
    width = self._places[street][board][0].width
    return [
      slice(own.starts[board], own.starts[board] + width(p))
      for p, own in enumerate(self._map.classes[street])
    ]

  def _sweep(self, board: int) -> tuple[Rows, Rows]:
    """Returns `on` of a board of the last round."""
    found: tuple[Rows, Rows] = ({}, {}), ({}, {})
    columns = self._columns(self._last, board)
    for p in (0, 1):
      self._down(self._last, p, columns[p], found[0][p])
    for p in (0, 1):
      self._up(self._last, p, [board], columns[p], found, {})
    return found

  def _down(self, street: int, player: int, columns: slice, reach: dict[int, np.ndarray]) -> None:
    """Fills in a player's reach of a round, in some columns."""
    rows = self._lines.streets[street].belief[player][columns][None].astype(float)
    first, *others = self._rounds[street]
    if street:
      level, parent = self._lines.levels[first], self._lines.streets[street].parent
      before = self._above[0][player]
      ends = [before[k][self._lines.levels[k].rows(CLOSED)] for k, _ in level.closed]
      rows = (rows > 0) * np.concatenate(ends)[list(level.order)][:, parent[player][columns]]
    reach[first] = rows
    for i in others:
      rows = rows[self._map.nodes[i].parent]
      if self._lines.levels[i].mover == player:
        rows = rows * self._policy[i][:, columns]
      reach[i] = rows

  def _up(
    self,
    street: int,
    player: int,
    boards: Sequence[int],
    columns: slice,
    found: tuple[Rows, Rows],
    below: Mapping[int, np.ndarray],
  ) -> None:
    """Fills in a player's values of a round; `below` are those of lines that go on."""
    ends = self._ends(street, player, boards, found[0][1 - player])
    inner: list[np.ndarray] = []
    for i in reversed(self._rounds[street]):
      level, nodes = self._lines.levels[i], self._map.nodes[i]
      rows = np.concatenate([*inner, *([below[i]] if level.counts[CLOSED] else []), *ends[i]])
      found[1][player][i] = rows
      if level.mover == player:
        rows = rows * self._policy[i][:, columns]
      if level.mover is not None:
        total = np.zeros((self._lines.levels[i - 1].counts[DECISION], rows.shape[1]))
        for move in np.unique(nodes.action):
          total[nodes.parent[nodes.action == move]] += rows[nodes.action == move]
        inner = [total]

  def _ends(
    self, street: int, player: int, boards: Sequence[int], reach: dict[int, np.ndarray]
  ) -> dict[int, list[np.ndarray]]:
    """Returns the values of folds and showdowns of each level of a round, on some boards."""
    lines, levels = self._lines, self._rounds[street]
    keys = [(i, kind) for kind in (FOLD, SHOWDOWN) for i in levels]
    rows = np.concatenate([reach[i][lines.levels[i].rows(kind)] for i, kind in keys])
    chips = [np.concatenate([lines.stakes[i][k] for i in levels]) for k in (0, 1)]
    # A fold's stake is player 0's, a showdown's is the winner's.
    folds, shows, drawn = chips[0] * (1 - 2 * player), chips[1], 0 * chips[1]
    if lines.rakes is not None:
      rakes = [np.concatenate([lines.rakes[i][k] for i in levels]) for k in (0, 1)]
      folds, shows, drawn = folds - rakes[0] * (folds > 0), shows - rakes[1] / 2, -rakes[1] / 2
    worth, shown = np.concatenate([folds, drawn]), slice(len(folds), None)
    begin = [x.start for x in self._columns(street, boards[0])]
    parts = []
    for board in boards:
      (group, place), theirs = self._places[street][board], self._columns(street, board)[1 - player]
      at = slice(theirs.start - begin[1 - player], theirs.stop - begin[1 - player])
      below, most, total = _compared(group, place, player)(rows[:, at].T, shown)
      values = total * worth
      values[:, shown] += (below + most - total[:, shown]) * shows
      parts.append(values.T)
    stops = np.cumsum([lines.levels[i].counts[kind] for i, kind in keys])[:-1]
    split = dict(zip(keys, np.split(np.concatenate(parts, axis=1), stops)))
    return {i: [split[i, FOLD], split[i, SHOWDOWN]] for i in levels}

  def _undealt(self, street: int, player: int, values: np.ndarray) -> dict[int, np.ndarray]:
    """Returns the values of lines that go on, by level, from those after the next card `[n, W]`."""
    children = self._lines.streets[street + 1].children[player]
    rows = np.pad(values, ((0, 0), (0, 1)))
    above: Any = sum(rows[:, column] for column in children.T)
    level = self._lines.levels[self._rounds[street + 1][0]]
    stops = np.cumsum([number for _, number in level.closed])[:-1]
    parts = np.split(above[np.argsort(level.order)], stops)
    return dict(zip((i for i, _ in level.closed), parts))


def _compared(group: Any, place: int, player: int) -> Compared:
  """Returns a player's hands on a board of a group against the other's; all tie before the end."""
  own, shown, both = place if group.alone else 0, group.strength, (player, 1 - player)
  strengths = [np.zeros(group.width(p), int) if shown is None else shown[p][place] for p in both]
  holding, size = group.holding[1 - player][own], group.size[1 - player][own]
  return Compared(
    strengths[0], strengths[1], group.cards[player][own], holding, size, group.twin[player]
  )
