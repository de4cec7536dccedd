"""Solves many spots of hold'em of one round of betting in one call."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.poker.lines import Lines
from solvers import loop, validation
from solvers.algorithms.algorithm import Algorithm
from solvers.solve_to import next_look
from solvers.sweeps.levels import Levels
from solvers.sweeps.lines.problem import LinesProblem, exploitability_of, make_lines_problem
from solvers.xla.compiler_options import Programs, work_on_trees
from solvers.xla.cores import map_over_cores

_SIDE_BY_SIDE = 4  # spots on a CPU; with 16 an update of each takes a fifth longer


class LinesSolution(NamedTuple):
  """What was found for `B` spots.

  Attributes:
    average_policy: `[B, n, W]` for each level of lines.
    exploitability: `[B]` in chips.
    iterations: `[B]` how many there were.
  """

  average_policy: Levels
  exploitability: jax.Array
  iterations: jax.Array


def solve_lines(
  spots: Sequence[Lines],
  *,
  algorithm: Algorithm,
  num_iterations: int,
  target: float | None = None,
) -> LinesSolution:
  """Solves spots of one shape as `solve_to` would one at a time.

  Batching is the point here: a few spots are solved side by side, and the cores of a CPU share
  them.

  Args:
    spots: from `games.poker.lines.make_lines`, with shapes made alike by `share_shapes`.
    algorithm: such as `solvers.discounted_cfr()`; static.
    num_iterations: one player's update is one; static.
    target: exploitability that each stops at, in chips, when `solve_to` would look at it; then
      `num_iterations` must be even. None for no stop.

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
  if target is not None and (number % 2 or not target >= 0):
    raise ValueError(
      f"num_iterations={num_iterations!r} must be even, and target={target!r} at least 0, or None"
    )
  shapes = {_shape(lines) for lines in spots}
  if len(shapes) != 1:
    raise ValueError(
      f"spots={len(spots)} of {len(shapes)} shapes must be at least one, all of one shape; see "
      "games.poker.lines.share_shapes"
    )
  stack = jax.tree.map(lambda *rows: np.stack(rows), *spots)
  on_cpu = jax.default_backend() == "cpu"
  program = _programs[work_on_trees()]

  def solve(part: Lines) -> LinesSolution:
    return program(part, algorithm, number, target is not None, target or 0.0, together)

  together = _SIDE_BY_SIDE if on_cpu else len(spots)
  most = -(-len(spots) // _SIDE_BY_SIDE) if on_cpu else 1
  return map_over_cores(solve, stack, most=most, key=(algorithm, number, target is not None))


def _shape(lines: Lines) -> Any:
  return jax.tree.structure(lines), tuple((x.shape, x.dtype) for x in jax.tree.leaves(lines))


def _solve(
  stack: Lines, algorithm: Algorithm, number: int, stops: bool, target: jax.Array, size: int
) -> LinesSolution:
  def one(problem: LinesProblem, state: Any, times: Any) -> Any:
    state = loop.run(problem, algorithm, None, times, state=state).state
    policy = algorithm.average_policy(problem, state)
    return state, policy, exploitability_of(problem, policy)

  def together(lines: Lines) -> LinesSolution:
    problems = jax.vmap(make_lines_problem)(lines)
    run = functools.partial(jax.vmap(one, (0, 0, None)), problems)
    start = jax.vmap(lambda problem: _start(problem, algorithm))(problems)
    if not stops:
      _, policy, gaps = run(start, number)
      return LinesSolution(policy, gaps, jnp.full(len(gaps), number))

    def look(carry: Any) -> Any:
      state, done, found = carry
      times = next_look(done, number)
      state, policy, gaps = run(state, times)
      now = LinesSolution(policy, gaps, jnp.full(len(gaps), done + times))
      going = (found.exploitability > target) & (found.iterations == done)

      def newest(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(going.reshape(-1, *[1] * (new.ndim - 1)), new, old)

      return state, done + times, jax.tree.map(newest, now, found)

    def goes_on(carry: Any) -> jax.Array:
      _, done, found = carry
      return (done < number) & (found.exploitability > target).any()

    policy = jax.vmap(LinesProblem.uniform_policy)(problems)
    count = len(policy[0])
    unknown = jnp.full(count, jnp.inf, lines.dtype)
    nothing = LinesSolution(policy, unknown, jnp.zeros(count, int))
    return lax.while_loop(goes_on, look, (start, jnp.asarray(0), nothing))[2]

  count = len(jax.tree.leaves(stack)[0])
  size = min(size, count)
  # The last few are filled up with the last spot.
  places = np.minimum(np.arange(-(-count // size) * size), count - 1).reshape(-1, size)
  found = lax.map(together, jax.tree.map(lambda x: x[places], stack))
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[:count], found)


def _start(problem: LinesProblem, algorithm: Algorithm) -> Any:
  state = algorithm.init(problem, None)
  for player in algorithm.primed:
    state = algorithm.prime(problem, state, None, player)
  return state


_programs = Programs(_solve, static_argnames=("algorithm", "number", "stops", "size"))
