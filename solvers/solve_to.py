"""Solves a game until it is solved well enough."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from games.poker.lines import Lines
from games.public_tree import Array, PublicTree
from solvers import loop, validation
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.by_boards import BoardsState, ByBoards
from solvers.algorithms.cfr import CFR
from solvers.metrics.best_response import response_values
from solvers.sweeps import pairs
from solvers.sweeps.levels import join_levels
from solvers.sweeps.lines.parts import AXIS, join_parts, layout, make_parted_problem
from solvers.sweeps.lines.problem import LinesProblem, exploitability_of, make_lines_problem
from solvers.sweeps.problem import make_problem
from solvers.xla.compiler_options import Programs, Work, work_of_solving, work_on_trees

_FIRST = 32  # iterations before the first look; later ones are a quarter of those done


def next_look(done: Any, most: int) -> Any:
  """Returns how many iterations come before the next look, when `done` of `most` are done."""
  return jnp.minimum(jnp.maximum(_FIRST, done // 8 * 2), most - done)


class SolvedTo(NamedTuple):
  """Where `solve_to` stopped.

  Attributes:
    average_policy: `[N, H]`, as of `solvers.Solution`; of lines of betting `[n, W]` for each level.
    iterations: how many there have been; one player's update is one.
    exploitability: of the policy, in the game's units.
  """

  average_policy: Any  # [N, H]
  iterations: int
  exploitability: float


def solve_to(
  tree: PublicTree | Lines,
  *,
  algorithm: Algorithm,
  target: float,
  max_iterations: int,
  beliefs: Array | None = None,
  progress: Callable[[SolvedTo], None] | None = None,
  tables: str | None = None,
  devices: Sequence[jax.Device] | None = None,
) -> SolvedTo:
  """Approximates an equilibrium until its exploitability is at most `target`.

  The policy is the same as `solve` gives for as many iterations: the algorithm goes on where it
  was after each look at the exploitability, by one compiled program. Looks are after 32
  iterations, and then after a quarter more each time, at least 32.

  Args:
    tree: one tree without leaves, or a spot of hold'em as lines of betting
      (`games.poker.lines.make_lines`), which hold beliefs of their own.
    algorithm: such as `solvers.discounted_cfr()`.
    target: exploitability to stop at, in the game's units, at least 0.
    max_iterations: to stop at in any case, an even number.
    beliefs: `[P, H]` at the root; None for the tree's prior.
    progress: called after each look; `average_policy` is None where the last round of lines is
      solved board by board, as CFR solves those of more than one round.
    tables: of such lines: `float16` to keep sums of the last round in 16 bits, with a scale for
      each line and board; None for the lines' own type.
    devices: they share the boards of such lines' last round, and meet once an update; None for all
      that this process has. `jax.config.update("jax_num_cpu_devices", 2)`, before anything else
      uses JAX, makes two of a CPU's cores.

  Returns:
    The policy of the last look.

  Raises:
    ValueError: the tree is depth-limited or stacked, a number is not allowed, or beliefs are not
      distributions.
  """
  if isinstance(tree, Lines):
    if beliefs is not None:
      raise ValueError("beliefs must be None for lines of betting, which hold their own")
  else:
    validation.check_unstacked(tree)
    validation.check_leaves(tree, None)
  validation.check_algorithm(algorithm)
  most = validation.check_num_iterations(max_iterations, algorithm.alternating)
  if most % 2 or not target >= 0:
    raise ValueError(
      f"max_iterations={max_iterations!r} must be even, and target={target!r} at least 0"
    )
  if progress is not None and not callable(progress):
    raise TypeError(f"progress={progress!r} must be a function of a SolvedTo, or None")
  if isinstance(tree, Lines):
    compiled = work_on_trees()
    if isinstance(algorithm, CFR) and algorithm.alternating and len(tree.streets) > 1:
      boards = sum(group.boards for group in tree.streets[-1].groups)
      chosen = list(jax.local_devices() if devices is None else devices)[:boards]
      mesh = Mesh(np.array(chosen), (AXIS,))
      return _by_boards(tree, ByBoards(algorithm, tables), target, most, progress, compiled, mesh)
    go_on = _programs[compiled]
  if tables is not None:
    raise ValueError(
      f"tables={tables!r} are for CFR with turns on lines of more than one round of betting"
    )
  if not isinstance(tree, Lines):
    if beliefs is not None:
      validation.check_beliefs(tree, beliefs)
    beliefs = jnp.asarray(tree.prior if beliefs is None else beliefs, tree.dtype)
    go_on = _programs[work_of_solving(tree, None, beliefs)]
  tree = jax.tree.map(jnp.asarray, tree)
  state = _begin(tree, algorithm, beliefs)

  def run(number: int) -> tuple[Any, Any]:
    nonlocal state
    state, policy, gap = go_on(tree, algorithm, number, beliefs, state)
    return policy, gap

  return _until(run, target, most, progress)


def _until(run: Callable[[int], tuple[Any, Any]], target: float, most: int, progress) -> SolvedTo:
  """Calls `run` with numbers of iterations until the exploitability that it returns will do."""
  done = 0
  while True:
    number = int(next_look(done, most))
    policy, gap = run(number)
    done += number
    found = SolvedTo(policy, done, float(gap))
    if progress is not None:
      progress(found)
    if found.exploitability <= target or done >= most:
      return found


def _by_boards(
  lines: Lines,
  algorithm: ByBoards,
  target: float,
  most: int,
  progress,
  compiled: Work,
  mesh: Mesh,
) -> SolvedTo:
  """Solves lines whose last round is visited a few boards at a time, on each device of a mesh."""
  problem = _part_boards(lines, mesh.size)
  shardings = jax.tree.map(lambda x: NamedSharding(mesh, x), layout(problem))
  problem = jax.device_put(problem, shardings)
  state = _begin_boards[compiled](problem, algorithm, mesh)

  def run(number: int) -> tuple[None, Any]:
    nonlocal state
    state, gap = _run_boards[compiled](problem, algorithm, mesh, number, state)
    return None, gap

  found = _until(run, target, most, progress)
  average, state = state.average, state._replace(average=())
  read = _policy_of_boards if algorithm.tables is None else _policy_of_packed
  top, below = read[compiled](problem, algorithm, mesh, average, state)
  del state, average
  width = lines.streets[-1].width(0)
  deal = np.broadcast_to(np.ones(1, lines.dtype), (problem.num_rows, width))
  policy = (*map(np.asarray, top), deal, *join_parts(problem, below))
  return found._replace(average_policy=policy)


def _start(tree, algorithm, beliefs):
  problem = _problem(tree, beliefs)
  state = algorithm.init(problem, None)
  for player in algorithm.primed:
    state = algorithm.prime(problem, state, None, player)
  return state


def _problem(tree, beliefs):
  return make_lines_problem(tree) if isinstance(tree, Lines) else make_problem(tree, beliefs)


def _run(tree, algorithm, number, beliefs, state):
  problem = _problem(tree, beliefs)
  state = loop.run(problem, algorithm, None, number, state=state).state
  average = algorithm.average_policy(problem, state)
  if isinstance(problem, LinesProblem):
    return state, average, exploitability_of(problem, average)
  worth = pairs.root_marginals(tree, beliefs) * response_values(problem, average)
  return state, join_levels(average), worth.sum() / 2


_EVERYWHERE: Any = PartitionSpec()
_SHARED: Any = PartitionSpec(AXIS)
_STATE = BoardsState(top=_EVERYWHERE, regret=_SHARED, average=_SHARED)


def _on_mesh(function: Callable, mesh: Mesh, problem: Any, specs: Any, results: Any) -> Callable:
  """Returns `function(problem, ...)` run on every device with its share of the boards."""
  # What all devices compute from what was gathered is alike, which the checker cannot see.
  return jax.shard_map(
    function, mesh=mesh, in_specs=(layout(problem), *specs), out_specs=results, check_vma=False
  )


def _start_boards(problem, algorithm, mesh):
  return _on_mesh(algorithm.init, mesh, problem, (), _STATE)(problem)


def _go_on_boards(problem, algorithm, mesh, number, state):
  def go_on(problem, number, state):
    state = loop.run(problem, algorithm, None, number, state=state).state
    return state, algorithm.exploitability(problem, state)

  specs, results = (_EVERYWHERE, _STATE), (_STATE, _EVERYWHERE)
  return _on_mesh(go_on, mesh, problem, specs, results)(problem, number, state)


def _read_boards(problem, algorithm, mesh, average, state):
  def read(problem, average, state):
    return algorithm.average_policy(problem, state._replace(average=average))

  specs, results = (_SHARED, _STATE), (_EVERYWHERE, _SHARED)
  return _on_mesh(read, mesh, problem, specs, results)(problem, average, state)


_begin = jax.jit(_start, static_argnames="algorithm")
_programs = Programs(_run, static_argnames="algorithm")
_static: Any = {"static_argnames": ("algorithm", "mesh")}
_part_boards = jax.jit(make_parted_problem, static_argnames="shares")
_begin_boards = Programs(_start_boards, **_static)
_run_boards = Programs(_go_on_boards, donate_argnames="state", **_static)
_policy_of_boards = Programs(_read_boards, donate_argnames="average", **_static)
_policy_of_packed = Programs(_read_boards, **_static)
