"""Solves many spots of hold'em of one round of betting in one call."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.poker.lines import Lines
from solvers import loop, validation
from solvers.algorithms.algorithm import Algorithm
from solvers.sweeps.levels import Levels
from solvers.sweeps.lines.problem import exploitability_of, make_lines_problem
from solvers.xla.compiler_options import Work, jit_for_each
from solvers.xla.cores import map_over_cores

_SIDE_BY_SIDE = 4  # spots on a CPU; with 16 an update of each takes a fifth longer


class LinesSolution(NamedTuple):
  """What was found for `B` spots.

  Attributes:
    average_policy: `[B, n, W]` for each level of lines.
    exploitability: `[B]` in chips.
  """

  average_policy: Levels
  exploitability: jax.Array


def solve_lines(
  spots: Sequence[Lines], *, algorithm: Algorithm, num_iterations: int
) -> LinesSolution:
  """Solves spots of one shape as `solve_to` would one at a time, for as many iterations each.

  Batching is the point here: a few spots are solved side by side, and the cores of a CPU share
  them.

  Args:
    spots: from `games.poker.lines.make_lines`, with shapes made alike by `round_up`.
    algorithm: such as `solvers.discounted_cfr()`; static.
    num_iterations: one player's update is one; static.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: there is no spot, their shapes differ, or the number of iterations is not allowed.
  """
  if not isinstance(spots, Sequence) or not all(isinstance(lines, Lines) for lines in spots):
    raise TypeError(
      f"spots of type {type(spots).__name__!r} must be a list of lines, as "
      "games.poker.lines.make_lines returns them"
    )
  validation.check_algorithm(algorithm)
  number = validation.check_num_iterations(num_iterations, algorithm.alternating)
  shapes = {_shape(lines) for lines in spots}
  if len(shapes) != 1:
    raise ValueError(
      f"spots={len(spots)} of {len(shapes)} shapes must be at least one, all of one shape; see "
      "games.poker.lines.round_up"
    )
  stack = jax.tree.map(lambda *rows: jnp.stack([jnp.asarray(row) for row in rows]), *spots)
  on_cpu = jax.default_backend() == "cpu"
  program = _programs[Work.TREES if on_cpu else Work.PLAIN]

  def solve(part: Lines) -> LinesSolution:
    size = len(jax.tree.leaves(part)[0])
    return program(part, algorithm, number, _SIDE_BY_SIDE if on_cpu else size)

  most = -(-len(spots) // _SIDE_BY_SIDE) if on_cpu else 1
  return map_over_cores(solve, stack, most=most, key=(algorithm, number))


def _shape(lines: Lines) -> Any:
  return jax.tree.structure(lines), tuple((x.shape, x.dtype) for x in jax.tree.leaves(lines))


def _solve(stack: Lines, algorithm: Algorithm, number: int, size: int) -> LinesSolution:
  def one(lines: Lines) -> LinesSolution:
    problem = make_lines_problem(lines)
    state = loop.run(problem, algorithm, None, number).state
    policy = algorithm.average_policy(problem, state)
    return LinesSolution(policy, exploitability_of(problem, policy))

  return lax.map(one, stack, batch_size=size)


_programs = jit_for_each(_solve, static_argnames=("algorithm", "number", "size"))
