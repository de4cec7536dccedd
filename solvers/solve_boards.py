"""CFR by boards of lines of betting, whose boards the devices of a mesh share."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from games.poker.lines import Lines
from solvers import loop, tuning
from solvers.algorithms.by_boards import BoardsState, ByBoards
from solvers.sweeps.lines.parts import AXIS, join_parts, layout, make_parted_problem
from solvers.xla import Programs, Work

_EVERYWHERE: Any = PartitionSpec()
_SHARED: Any = PartitionSpec(AXIS)
_STATE = BoardsState(top=_EVERYWHERE, regret=_SHARED, average=_SHARED, key=_EVERYWHERE)


def boards_on(
  lines: Lines, algorithm: ByBoards, devices: Sequence[jax.Device] | None, key: Any = ()
) -> tuple[Callable[[int], jax.Array], Callable[[], Any]]:
  """Returns two functions that solve lines of more than one round of betting, step by step.

  The first goes on for some iterations and returns the exploitability. The second, called at the
  end, returns the average policy, `[n, W]` for each level. `key` is of draws that updates make.
  """
  boards = sum(group.boards for group in lines.streets[-1].groups)
  chosen = list(jax.local_devices() if devices is None else devices)[:boards]
  mesh = Mesh(np.array(chosen), (AXIS,))
  work = Work.BOARDS if tuning.on_cpu() else Work.PLAIN
  problem = _part_boards(lines, mesh.size)
  shardings = jax.tree.map(lambda x: NamedSharding(mesh, x), layout(problem))
  problem = jax.device_put(problem, shardings)
  state = _begin[work](problem, algorithm, mesh)._replace(key=key)

  def run(number: int) -> jax.Array:
    nonlocal state
    state, gap = _run[work](problem, algorithm, mesh, number, state)
    return gap

  def read() -> Any:
    nonlocal state
    average, state = state.average, state._replace(average=())
    programs = _read if algorithm.tables is None else _read_packed
    top, below = programs[work](problem, algorithm, mesh, average, state)
    del state, average
    width = lines.streets[-1].width(0)
    deal = np.broadcast_to(np.ones(1, lines.dtype), (problem.num_rows, width))
    return (*map(np.asarray, top), deal, *join_parts(problem, below))

  return run, read


def _on_mesh(function: Callable, mesh: Mesh, problem: Any, specs: Any, results: Any) -> Callable:
  """Returns `function(problem, ...)` run on every device with its share of the boards."""
  # What all devices compute from what was gathered is alike, which the checker cannot see.
  return jax.shard_map(
    function, mesh=mesh, in_specs=(layout(problem), *specs), out_specs=results, check_vma=False
  )


def _begin_boards(problem, algorithm, mesh):
  return _on_mesh(algorithm.init, mesh, problem, (), _STATE)(problem)


def _run_boards(problem, algorithm, mesh, number, state):
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


_static: Any = {"static_argnames": ("algorithm", "mesh")}
_part_boards = Programs(make_parted_problem, static_argnames="shares")
_begin = Programs(_begin_boards, **_static)
_run = Programs(_run_boards, donate_argnames="state", **_static)
_read = Programs(_read_boards, donate_argnames="average", **_static)
_read_packed = Programs(_read_boards, **_static)
