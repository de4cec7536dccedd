"""What lines of betting are worth under a policy, on one board."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.poker.lines import Lines
from solvers.sweeps.levels import Levels
from solvers.sweeps.lines.parts import Part, PartedProblem, make_parted_problem
from solvers.sweeps.lines.problem import LinesProblem, make_lines_problem


class BoardValues(NamedTuple):
  """Reach and values of both players on a board, in its columns.

  Attributes:
    reach: for each player and level of the board's round `[n, J]`, the belief in a hand at the
      start times its own moves; of one hand of each class.
    values: likewise counterfactual values: the other's reach and the probability of the cards times
      chips.
  """

  reach: tuple[Levels, Levels]
  values: tuple[Levels, Levels]


def board_values(
  lines: Lines, policy: Sequence[Any], *, street: int = 0, board: int = 0
) -> BoardValues:
  """Returns what a policy is worth on one board.

  Args:
    lines: from `make_lines`.
    policy: `[n, W]` for each level.
    street, board: which; boards are numbered as `LineMap.boards` has them.
  """
  levels = tuple(jnp.asarray(level) for level in policy)
  last = len(lines.streets) - 1
  group, place = 0, board
  while place >= lines.streets[street].groups[group].boards:
    place -= lines.streets[street].groups[group].boards
    group += 1
  if last == 0:
    return BoardValues(*jax.tree.map(np.asarray, _one_round(lines, levels)))
  problem = _prepare(lines)
  first = len(levels) - len(problem.levels)
  rows = _cut(problem, levels[first:])
  own = problem.parts[group] if street == last else problem.parts[0]
  chunk, inside = divmod(place, own.num_boards) if street == last else (0, 0)
  found = _in_parts(problem, levels[:first], rows, group if street == last else 0, chunk)
  top, below = found
  if street == last:
    cuts = [slice(inside * own.group.width(p), (inside + 1) * own.group.width(p)) for p in (0, 1)]
    return BoardValues(*jax.tree.map(np.asarray, _columns(below, cuts)))
  starts = [
    sum(x.boards * x.width(p) for x in lines.streets[street].groups[:group]) for p in (0, 1)
  ]
  cuts = []
  for p, start in enumerate(starts):
    width = lines.streets[street].groups[group].width(p)
    cuts.append(slice(start + place * width, start + (place + 1) * width))
  here = [i for i, level in enumerate(lines.levels) if level.street == street]
  top = tuple(tuple(tuple(own[i] for i in here) for own in pair) for pair in top)
  return BoardValues(*jax.tree.map(np.asarray, _columns(top, cuts)))


def _columns(found: Any, cuts: list[slice]) -> Any:
  return tuple(
    tuple(tuple(rows[:, cut] for rows in own) for own, cut in zip(pair, cuts)) for pair in found
  )


@jax.jit
def _one_round(lines: Lines, policy: Levels) -> Any:
  problem = make_lines_problem(lines)
  reach = problem.both_reach(policy)
  return reach, tuple(problem.values_up(policy, reach[1 - p], None, p).nodes for p in (0, 1))


_prepare = jax.jit(make_parted_problem)


def _cut(problem: PartedProblem, policy: Levels) -> tuple[Levels, ...]:
  """Returns the last round's policy part by part: `[K, n, W]` for each level."""
  parts, start = [], [0, 0]
  for part in problem.parts:
    rows = []
    for level, own in zip(problem.levels, policy):
      p = level.mover or 0
      width = part.belief[p].shape[1] * part.num_chunks
      mine = own[:, start[p] : start[p] + part.boards * part.group.width(p)]
      filled = jnp.pad(mine, ((0, 0), (0, width - mine.shape[1])))
      rows.append(jnp.moveaxis(filled.reshape(len(mine), part.num_chunks, -1), 1, 0))
    parts.append(tuple(rows))
    start = [start[p] + part.boards * part.group.width(p) for p in (0, 1)]
  return tuple(parts)


@jax.jit(static_argnames="number")
def _in_parts(
  problem: PartedProblem, policy: Levels, rows: tuple[Levels, ...], number: int, index: Any
) -> Any:
  """Returns reach and values of the rounds before, and of a chunk of a part."""
  reach = problem.top.both_reach(policy)
  arrivals = [problem.arrivals(own) for own in reach]

  def sweep(part: Part, own: Levels, i: Any, player: int) -> tuple[Levels, Levels]:
    chunk: LinesProblem = problem.chunk(part, i)
    levels = tuple(level[i] for level in own)
    start = problem.deal(part, i, arrivals[1 - player], 1 - player)
    other = chunk.own_reach(levels, 1 - player, start)
    return other, chunk.values_up(levels, other, None, player).nodes

  values, below = [], []
  for player in (0, 1):
    collected = [
      jax.lax.map(
        lambda i, part=part, own=own, player=player: sweep(part, own, i, player)[1][0].T,
        jnp.arange(part.num_chunks),
      )
      for part, own in zip(problem.parts, rows)
    ]
    leaves = problem.collect(collected, player)
    values.append(problem.top.values_up(policy, reach[1 - player], leaves, player).nodes)
    below.append(sweep(problem.parts[number], rows[number], index, player))
  last = (below[1][0], below[0][0]), (below[0][1], below[1][1])
  return (reach, tuple(values)), last
