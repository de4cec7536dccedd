"""Lines of which the last round is taken a few boards at a time."""
# Nearly all columns are those of the last round. Its boards do not depend on each other: reach,
# values and policies of all never exist at once.

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from games.poker.lines.lines import Group, LineLevel, Lines, Street
from solvers import tuning
from solvers.sweeps.levels import Levels
from solvers.sweeps.lines.ends import Ends, Folds, form_of, join_ends, make_folds, make_showdowns
from solvers.sweeps.lines.problem import LinesProblem, hold, make_lines_problem, origins, undeal
from solvers.sweeps.problem import Lock

AXIS = "boards"  # of a mesh of devices that share the chunks of each part
_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Part:
  """Boards with one list of hands, in `K` equal chunks; of each player where it is a pair.

  Attributes:
    belief: `[K, W]` of the columns of a chunk, zero where there is none.
    parent: `[K, W]` the column of the round before.
    showdowns: `[K, boards, ...]` from `make_showdowns`; dense tables are made anew every time.
    shared: likewise `[K, boards, ...]`, or `[1, 1, ...]` where boards are alike.
    folds: what folds are worth, likewise.
    group: the hands, and how many boards a chunk has.
    boards: how many boards there are without those that fill up; static.
  """

  belief: tuple[Any, Any]
  parent: tuple[Any, Any]
  showdowns: tuple[Any, Any]
  shared: tuple[Any, Any] | None
  folds: Folds
  group: Group
  boards: int = dataclasses.field(metadata=_STATIC)

  @property
  def num_chunks(self) -> int:
    return self.belief[0].shape[0]

  def ends(self, index: Any) -> Ends:
    """Returns folds and showdowns of a chunk."""
    folds, shared = at((self.folds, self.shared), index if self.group.alone else 0)
    return join_ends(self.group, folds, at(self.showdowns, index), shared)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PartedProblem:
  """A spot whose last round is solved in parts.

  Attributes:
    top: the rounds before; lines that go on to the last round are its leaves.
    street: the deal of the last round.
    stakes, rakes: of its levels.
    parts: its boards.
    levels: its levels, static; their street is 0.
    floor: what players are held to on it, rows of `make_lines_problem`, or None.
  """

  top: LinesProblem
  street: Street
  stakes: tuple[Any, ...]
  rakes: tuple[Any, ...] | None
  parts: tuple[Part, ...]
  levels: tuple[LineLevel, ...] = dataclasses.field(metadata=_STATIC)
  floor: Lock | None = None

  @property
  def num_rows(self) -> int:
    """The number of lines that come to the last round."""
    return self.levels[0].size

  def chunk(self, part: Part, index: Any) -> LinesProblem:
    """Returns the problem of a chunk of boards."""
    belief = at(part.belief, index)
    street = Street(belief, None, None, (part.group,))
    lines = Lines(self.stakes, self.rakes, (street,), self.levels)
    above = origins(self.top.lines.streets)[-1]
    places = [above[p][at(part.parent[p], index)] for p in (0, 1)]
    return LinesProblem(lines, ((part.ends(index),),), hold(self.floor, self.levels, [places]))

  def arrivals(self, reach: Levels) -> jax.Array:
    """Returns a player's reach in the columns before the last deal: `[W above, n]`."""
    return self.top.open_rows(reach, self.levels[0].order).T

  def deal(self, part: Part, index: Any, arrivals: jax.Array, player: int) -> jax.Array:
    """Returns reach at the start of the last round on a chunk of boards: `[n, W]`."""
    rows = arrivals.at[at(part.parent[player], index)].get(mode="promise_in_bounds")
    return jnp.where(at(part.belief[player], index)[None] > 0, rows.T, 0.0)

  def collect(self, values: Sequence[jax.Array], player: int) -> jax.Array:
    """Returns the leaves' values of `top` from those of a device's parts, each `[K, W, n]`."""
    whole = [lax.all_gather(own, AXIS, tiled=True).reshape(-1, self.num_rows) for own in values]
    widths = [part.boards * part.group.width(player) for part in self.parts]
    rows = [own[:width] for own, width in zip(whole, widths)]
    above = undeal(self.street, jnp.concatenate(rows), player)
    return above[np.argsort(self.levels[0].order)]


def join_parts(problem: PartedProblem, tables: Any, read: Any = np.asarray) -> Iterator[np.ndarray]:
  """Yields tables of the last round, of each player part by part, as `[n, W]` on the host."""
  # Those that nothing else holds are let go one by one.
  tables = [[list(own) for own in x] for x in tables]
  for level in problem.levels[1:]:
    player = level.mover or 0
    stops = _stops(problem, player)
    rows = np.empty((level.size, stops[-1]), problem.street.belief[0].dtype)
    for own, start, stop in zip(tables[player], stops, stops[1:]):
      for k, chunk in enumerate(read(own.pop(0))):
        width = chunk.shape[1]
        there = rows[:, start + k * width : min(start + (k + 1) * width, stop)]
        there[:] = chunk[:, : there.shape[1]]
    yield rows


def split_parts(problem: PartedProblem, levels: Sequence[Any]) -> Any:
  """Returns `[n, W]` of each level after the first of the last round, of each player by part."""

  def cut(rows: Any, part: Part, player: int, start: int, stop: int) -> np.ndarray:
    chunks, width = part.belief[player].shape
    rows = np.pad(rows[:, start:stop], ((0, 0), (0, chunks * width - stop + start)))
    return np.moveaxis(rows.reshape(len(rows), chunks, width), 1, 0)

  def of(player: int) -> Any:
    stops = _stops(problem, player)
    places = zip(problem.parts, [player] * len(stops), stops, stops[1:])
    own = [x for x, level in zip(levels, problem.levels[1:]) if level.mover == player]
    return tuple(tuple(cut(rows, *place) for rows in own) for place in places)

  return of(0), of(1)


def _stops(problem: PartedProblem, player: int) -> list[int]:
  """Returns the first column of each part, and how many columns there are."""
  return np.cumsum([0, *(x.boards * x.group.width(player) for x in problem.parts)]).tolist()


def layout(problem: PartedProblem) -> PartedProblem:
  """Returns the sharding of a problem: chunks are split over devices, all else is replicated."""
  shared: Any = PartitionSpec(AXIS)
  same: Any = PartitionSpec()
  parts = tuple(
    dataclasses.replace(
      part,
      belief=shared,
      parent=shared,
      showdowns=shared,
      shared=None if part.shared is None else shared if part.group.alone else same,
      folds=shared if part.group.alone else same,
      group=same,
    )
    for part in problem.parts
  )
  rakes, floor = (None if x is None else same for x in (problem.rakes, problem.floor))
  return dataclasses.replace(
    problem, top=same, street=same, stakes=same, rakes=rakes, parts=parts, floor=floor
  )


def make_parted_problem(lines: Lines, shares: int = 1, lock: Lock | None = None) -> PartedProblem:
  """Returns the problem of lines of more than one round of betting.

  Each part has a multiple of `shares` chunks; a lock is as of `make_lines_problem`.
  """
  lines = jax.tree.map(jnp.asarray, lines)
  last = len(lines.streets) - 1
  first = next(i for i, level in enumerate(lines.levels) if level.street == last)
  above, below = (None, None) if lines.rakes is None else (lines.rakes[:first], lines.rakes[first:])
  top = Lines(lines.stakes[:first], above, lines.streets[:-1], lines.levels[:first])
  levels = tuple(dataclasses.replace(level, street=0) for level in lines.levels[first:])
  most = max(sum(x.size for x in levels if x.mover == p) for p in (0, 1))
  street, parts, start = lines.streets[-1], [], [0, 0]
  for group in street.groups:
    parts.append(_part(street, group, start, most, shares))
    start = [start[p] + group.boards * group.width(p) for p in (0, 1)]
  # The columns of the last round are kept in parts alone.
  deal = Street(street.belief, None, street.children, ())
  stakes = lines.stakes[first:]
  held = jax.tree.map(lambda x: x[: top.num_nodes], lock)
  floor = jax.tree.map(lambda x: jnp.asarray(x, lines.dtype)[top.num_nodes :], lock)
  return PartedProblem(
    make_lines_problem(top, held), deal, stakes, below, tuple(parts), levels, floor
  )


def _part(street: Street, group: Group, start: list[int], rows: int, shares: int) -> Part:
  assert group.strength is not None
  assert street.parent is not None
  widths = [group.width(p) for p in (0, 1)]
  number = max(1, min(group.boards, tuning.pieces().cells // (max(widths) * rows)))
  chunks = -(-group.boards // (number * shares)) * shares
  number = -(-group.boards // chunks)
  spare = chunks * number - group.boards

  def cut(rows: Any, player: int) -> jax.Array:
    mine = rows[player][start[player] : start[player] + group.boards * widths[player]]
    return jnp.pad(mine, (0, spare * widths[player])).reshape(chunks, -1)

  def boards(rows: Any) -> Any:
    return jax.tree.map(
      lambda x: jnp.pad(x, ((0, spare), *[(0, 0)] * (x.ndim - 1))).reshape(
        chunks, number, *x.shape[1:]
      ),
      rows,
    )

  dtype = street.belief[0].dtype
  tables, alike = make_showdowns(group, dtype, form_of(group, dtype))
  folds = make_folds(group, dtype)
  own = boards if group.alone else lambda rows: jax.tree.map(lambda x: x[None], rows)
  return Part(
    (cut(street.belief, 0), cut(street.belief, 1)),
    (cut(street.parent, 0), cut(street.parent, 1)),
    boards(tables),
    own(alike),
    own(folds),
    dataclasses.replace(group, strength=None, boards=number),
    group.boards,
  )


def at(tables: Any, index: Any) -> Any:
  """Returns the rows of a chunk."""
  return jax.tree.map(lambda x: lax.dynamic_index_in_dim(x, index, keepdims=False), tables)
