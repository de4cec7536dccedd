"""Lines with numbers of hands and boards rounded up, so that spots of a kind share a program."""

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from games.arrays import checked, filled
from games.poker.lines.lines import Group, Lines, Street

# A program takes seconds to compile, a river milliseconds to solve and a turn seconds.
_MOST_WASTE = 1.5
_WIDTHS = (96, 192, 272, 384)


def bucket(number: int, digits: int = 4) -> int:
  """Returns the least number not below `number` of those that have so many binary digits."""
  step = 1 << max(0, int(number).bit_length() - digits)
  return -(-number // step) * step


def river_bucket(number: int) -> int:
  """Returns the least of a few widths, shared by rivers of a spot, that is not below `number`."""
  # All hands with or without a flush are 272 and 96 classes, realistic ranges often up to 192.
  return next((n for n in _WIDTHS if n >= number), bucket(number, 2))


class Shape(NamedTuple):
  """How wide lines are; rounds in order, and in them groups of boards."""

  boards: tuple[tuple[int, ...], ...]  # of each group
  hands: tuple[tuple[tuple[int, int], ...], ...]  # of each group, each player's
  # most cards that a hand may be dealt, of each round and player; 0 at first
  cards: tuple[tuple[int, int], ...]
  kind: Hashable  # the rest, in which shapes must agree

  @property
  def cells(self) -> int:
    """The number of pairs of hands on all boards."""
    rounds = zip(self.boards, self.hands)
    return sum(b * w[0] * w[1] for own in rounds for b, w in zip(*own))

  def join(self, other: "Shape") -> "Shape":
    """Returns the narrowest shape that both fit in; they must be of one kind."""
    sizes: Any = [jax.tree.map(max, *pair) for pair in zip(self[:-1], other[:-1])]
    return Shape._make([*sizes, self.kind])


@checked
def shape_of(lines: Lines, to: Callable[[int], int] = bucket) -> Shape:
  """Returns the widths of lines, numbers of hands rounded by `to` and all others by `bucket`."""
  streets = lines.streets
  boards = tuple(
    tuple(bucket(group.boards) if number else 1 for group in street.groups)
    for number, street in enumerate(streets)
  )
  hands: Any = tuple(tuple((to(x.width(0)), to(x.width(1))) for x in y.groups) for y in streets)
  dealt = [street.children for street in streets]
  cards: Any = tuple((0, 0) if x is None else tuple(bucket(y.shape[1]) for y in x) for x in dealt)
  flags = tuple(tuple((x.plain, x.same, x.alone) for x in y.groups) for y in streets)
  return Shape(boards, hands, cards, (flags, lines.levels, lines.rakes is None))


@checked
def round_up(
  lines: Lines, to: Callable[[int], int] | None = None, *, shape: Shape | None = None
) -> tuple[Lines, list[np.ndarray]]:
  """Pads lines with hands and boards of reach zero, by a few per cent of the columns.

  Rivers, which take longer to compile than to solve, are padded more, so that the boards of a spot
  share about three programs.

  Args:
    lines: from `make_lines`.
    to: what numbers of hands are rounded to; None for `bucket`, of a river `river_bucket`.
    shape: how wide to make them; None for `shape_of(lines, to)`.

  Returns:
    The lines, and for each level the column there of each column `[W]` of its mover.
  """
  if shape is None:
    shape = shape_of(lines, to or (river_bucket if len(lines.streets) == 1 else bucket))
  streets: list[Street] = []
  columns: list[tuple[np.ndarray, np.ndarray]] = []
  totals: list[int] = []
  for number, street in enumerate(lines.streets):
    sizes = list(zip(shape.boards[number], shape.hands[number]))
    places = (_places(street, sizes, 0), _places(street, sizes, 1))
    above = [(columns[-1][p], totals[p]) for p in (0, 1)] if columns else None
    totals = [sum(boards * widths[p] for boards, widths in sizes) for p in (0, 1)]
    streets.append(_street(street, shape, number, places, totals, above))
    columns.append(places)
  by_level = [columns[level.street][level.mover or 0] for level in lines.levels]
  return dataclasses.replace(lines, streets=tuple(streets)), by_level


@checked
def share_shapes(shapes: Sequence[Shape], most: float = _MOST_WASTE) -> list[Shape]:
  """Returns shapes to round lines up to, so that as many as possible are solved by one program.

  None has more than `most` times the cells that it would have alone.
  """
  shared: list[Shape] = []
  places: dict[int, int] = {}
  for i in sorted(range(len(shapes)), key=lambda i: -shapes[i].cells):
    own = shapes[i]
    for k in [k for k, shape in enumerate(shared) if shape.kind == own.kind]:
      joined = shared[k].join(own)
      if joined.cells <= most * own.cells:  # none of those that share it has fewer
        shared[k], places[i] = joined, k
        break
    else:
      places[i] = len(shared)
      shared.append(own)
  return [shared[places[i]] for i in range(len(shapes))]


def _places(street: Street, sizes: Any, player: int) -> np.ndarray:
  found, start = [], 0
  for group, (boards, widths) in zip(street.groups, sizes):
    rows = start + widths[player] * np.arange(group.boards)[:, None]
    found.append((rows + np.arange(group.width(player))).reshape(-1))
    start += boards * widths[player]
  return np.concatenate(found)


def _street(
  street: Any, shape: Shape, number: int, places: Any, totals: list[int], above: Any
) -> Street:
  belief, parent, children = list[Any](), list[Any](), list[Any]()

  def spread(rows: Any, to: Any, total: int, fill: Any = 0) -> np.ndarray:
    wide = np.full((total, *rows.shape[1:]), fill, rows.dtype)
    wide[to] = rows
    return wide

  for p, (here, total) in enumerate(zip(places, totals)):
    belief.append(spread(np.asarray(street.belief[p]), here, total))
    if above is not None:
      rows, before = above[p]
      parent.append(spread(rows[np.asarray(street.parent[p])], here, total))
      dealt = np.asarray(street.children[p])
      moved = np.append(here, total)[dealt].astype(dealt.dtype)
      moved = filled(moved, (len(moved), shape.cards[number][p]), total)
      children.append(spread(moved, rows, before, total))
  sizes = zip(shape.boards[number], shape.hands[number])
  groups = tuple(_group(group, *size) for group, size in zip(street.groups, sizes))
  both: Any = [tuple(found) or None for found in (belief, parent, children)]
  return Street(both[0], both[1], both[2], groups)


def _group(group: Group, boards: int, widths: Any) -> Group:
  alone = boards if group.alone else 1

  def wide(rows: Any, size: int = alone, fill: int = 0) -> Any:
    return tuple(filled(x, (size, width), fill) for x, width in zip(rows, widths))

  twins = (np.where(x == group.width(1 - p), widths[1 - p], x) for p, x in enumerate(group.twin))
  twin: Any = tuple(filled(x, (widths[p],), widths[1 - p]) for p, x in enumerate(twins))
  return dataclasses.replace(
    group,
    cards=wide(group.cards),
    size=wide(group.size),
    holding=wide(group.holding),
    twin=twin,
    strength=None if group.strength is None else wide(group.strength, boards, -1),
    boards=boards,
  )
