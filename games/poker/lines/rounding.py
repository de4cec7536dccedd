"""Lines with numbers of hands and boards rounded up, so that spots of a kind share a program."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from games.poker.lines.lines import Final, Group, Lines, Street

Columns = list[tuple[np.ndarray, np.ndarray]]


def bucket(number: int) -> int:
  """Returns the least number not below `number` of those that have four binary digits."""
  step = 1 << max(0, int(number).bit_length() - 4)
  return -(-number // step) * step


def round_up(lines: Lines, to: Callable[[int], int] = bucket) -> tuple[Lines, Columns]:
  """Fills up hands and boards with some that nobody holds; a few per cent more columns.

  Args:
    lines: from `make_lines`.
    to: what numbers of hands are rounded to.

  Returns:
    The lines, and for each round and player the column there of each column `[W]`.
  """
  streets: list[Street] = []
  columns: Columns = []
  totals: list[int] = []
  for street in lines.streets:
    sizes = [
      (bucket(group.boards), [to(group.width(p)) for p in (0, 1)]) for group in street.groups
    ]
    if not streets:
      sizes = [(1, widths) for _, widths in sizes]
    places = (_places(street, sizes, 0), _places(street, sizes, 1))
    above = [(columns[-1][p], totals[p]) for p in (0, 1)] if columns else None
    totals = [sum(boards * widths[p] for boards, widths in sizes) for p in (0, 1)]
    streets.append(_street(street, sizes, places, totals, above))
    columns.append(places)
  return dataclasses.replace(lines, streets=tuple(streets)), columns


def _places(street: Street, sizes: Any, player: int) -> np.ndarray:
  found, start = [], 0
  for group, (boards, widths) in zip(street.groups, sizes):
    rows = start + widths[player] * np.arange(group.boards)[:, None]
    found.append((rows + np.arange(group.width(player))).reshape(-1))
    start += boards * widths[player]
  return np.concatenate(found)


def _street(street: Street, sizes: Any, places: Any, totals: list[int], above: Any) -> Street:
  def spread(rows: Any, player: int) -> np.ndarray:
    filled = np.zeros(totals[player], np.asarray(rows).dtype)
    filled[places[player]] = rows
    return filled

  belief: Any = tuple(spread(street.belief[p], p) for p in (0, 1))
  parent: Any = None
  children: Any = None
  if above is not None:
    assert street.parent is not None
    assert street.children is not None
    parent = tuple(spread(above[p][0][np.asarray(street.parent[p])], p) for p in (0, 1))
    children = tuple(
      _children(np.asarray(street.children[p]), places[p], above[p][0], above[p][1], totals[p])
      for p in (0, 1)
    )
  groups = tuple(_group(group, *size) for group, size in zip(street.groups, sizes))
  return Street(belief, parent, children, groups)


def _children(
  rows: np.ndarray, places: np.ndarray, above: np.ndarray, total_above: int, total: int
) -> np.ndarray:
  here = np.append(places, total)[rows]
  filled = np.full((total_above, bucket(rows.shape[1])), total, rows.dtype)
  filled[above, : rows.shape[1]] = here
  return filled


def _group(group: Group, boards: int, widths: list[int]) -> Group:
  def pad(rows: Any, width: int, value: Any = 0) -> np.ndarray:
    rows = np.asarray(rows)
    spare = [(0, width - rows.shape[0]), *[(0, 0)] * (rows.ndim - 1)]
    return np.pad(rows, spare, constant_values=value)

  def of_each(pair: Any, value: Any = 0) -> Any:
    return tuple(pad(rows, width, value) for rows, width in zip(pair, widths))

  twin: Any = []
  for p in (0, 1):
    own = np.asarray(group.twin[p])
    own = np.where(own == group.width(1 - p), widths[1 - p], own)
    twin.append(pad(own, widths[p], widths[1 - p]))
  final = None
  if group.final is not None:
    strength: Any = tuple(
      np.pad(
        np.asarray(rows),
        ((0, boards - group.boards), (0, widths[p] - group.width(p))),
        constant_values=-1,
      )
      for p, rows in enumerate(group.final.strength)
    )
    member: Any = tuple(
      _member(np.asarray(rows), group.width(p), widths[p], boards)
      for p, rows in enumerate(group.final.member)
    )
    final = Final(strength, member)
  return Group(
    of_each(group.cards),
    of_each(group.size),
    of_each(group.holding),
    (twin[0], twin[1]),
    final,
    boards,
    group.plain,
    group.same,
  )


def _member(rows: np.ndarray, old: int, new: int, boards: int) -> np.ndarray:
  rows = np.where(rows == old, new, rows)
  spare = ((0, boards - len(rows)), (0, 0), (0, bucket(rows.shape[2]) - rows.shape[2]))
  return np.pad(rows, spare, constant_values=new)
