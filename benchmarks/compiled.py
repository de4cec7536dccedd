"""Kernels, bytes and waits of the main programs, compiled for a GPU on a machine without one.

A JSON line for each of `PROGRAMS` (`pip install '.[gpu-compiler]'`): kernels and bytes of one call,
of a solve of one turn, which updates each player; of a spot's of one turn and a look; and the
kernels of a turn of its longest loop, of which a solve's has two turns in one.
"""

import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import games
import solvers
from benchmarks import batch_solve, timing
from benchmarks.gpu_compiler import absent_gpu, count, rounded_products
from benchmarks.poker import FLOP
from games.poker.lines import make_lines
from rebel_jax.config.presets import PRESETS
from rebel_jax.training import loop as training
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets import init_params
from solvers import solve_boards
from solvers.solve_boards import ByBoards
from solvers.sweeps.lines.parts import layout, make_parted_problem
from solvers.xla import Work, options_for

_TURNS = 128  # of a solve


def _shapes(tree: Any, sharding: Any) -> Any:
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
    jax.eval_shape(lambda x: x, tree),
  )


def _solve(mesh: Mesh, name: str, subgames: int = 0) -> Any:
  game, solve = timing.make_game(name), getattr(solvers, "solve_batch" if subgames else "solve")
  whole = games.build_public_tree(game)
  tree = batch_solve.make_subgames(game, 2, subgames)[0] if subgames else whole
  run: Any = functools.partial(solve, algorithm=solvers.linear_cfr(), num_iterations=2 * _TURNS)
  shapes = _shapes((tree, tree.prior), NamedSharding(mesh, PartitionSpec()))
  return jax.jit(lambda tree, beliefs: run(tree, beliefs=beliefs)).trace(*shapes)


def _play(mesh: Mesh, preset: str) -> Any:
  setup, key = make_setup(PRESETS[preset], 1), jax.random.key(0)
  play, targets = setup.trainer.self_play, setup.trainer.targets
  params = jax.eval_shape(functools.partial(init_params, targets), key)
  inputs = setup.table, jax.eval_shape(play.init, setup.table, key), params, key
  return jax.jit(play.step).trace(*_shapes(inputs, NamedSharding(mesh, PartitionSpec())))


def _train(mesh: Mesh, preset: str) -> Any:
  mesh = Mesh(mesh.devices, (training.DEVICES,))
  setup = make_setup(PRESETS[preset], 1)
  init = functools.partial(training._init, setup.trainer, 1, setup.table)
  states = zip(jax.eval_shape(init, jnp.uint32(0)), training.SPECS, strict=True)
  state = training.TrainState(*(_shapes(x, NamedSharding(mesh, spec)) for x, spec in states))
  inputs = _shapes((np.int32(0), setup.table), NamedSharding(mesh, PartitionSpec()))
  run = functools.partial(training._run_on_mesh, setup.trainer, mesh)
  return jax.jit(run, donate_argnums=2).trace(*inputs, state)


def _spot(mesh: Mesh, card: str) -> Any:
  mesh = Mesh(mesh.devices, (solve_boards.AXIS,))
  lines, _ = make_lines(dataclasses.replace(FLOP, board=FLOP.board + card).game())
  problem = jax.eval_shape(functools.partial(make_parted_problem, shares=1), lines)
  where = jax.tree.map(lambda x: NamedSharding(mesh, x), layout(problem))
  problem = jax.tree.map(lambda sharding, x: _shapes(x, sharding), where, problem)
  algorithm = ByBoards(solvers.discounted_cfr())

  def call(problem: Any, *arguments: Any) -> Any:
    return solve_boards._on_mesh(problem, algorithm, mesh, *arguments)

  state = jax.eval_shape(lambda x: call(x, "init"), problem)
  return jax.jit(lambda x, state: call(x, "go_on", state, 2)).trace(problem, state)


# By name: what traces a program for a mesh of one device, and its arguments.
PROGRAMS: dict[str, tuple[Any, ...]] = {
  **{f"solve {name}": (_solve, name) for name in timing.GAMES},
  "batch of 1,024": (_solve, "liars_dice_1x4f", 1_024),
  **{f"self-play {x}": (_play, x) for x in PRESETS if not x.startswith("deep_cfr_")},  # none there
  **{f"training {name}": (_train, name) for name in PRESETS},
  "turn": (_spot, "2c"),
  "flop": (_spot, ""),
}


def measure(name: str, device: str) -> dict[str, Any]:
  """Returns the figures of a program."""
  trace, *arguments = timing.look_up("programs", name, PROGRAMS)
  try:
    gpu = absent_gpu((Path(__file__).parent / f"{device}.txtpb").read_text())
  except NotImplementedError:
    raise SystemExit("no GPU compiler: pip install '.[gpu-compiler]'") from None
  lowered = trace(Mesh(np.array([gpu]), ("one",)), *arguments).lower(lowering_platforms=("cuda",))
  loops, turns = (options_for(Work.LOOPS), _TURNS) if trace is _solve else (None, 1)
  compiled, seconds, _ = timing.timed(lambda: lowered.compile(compiler_options=loops))
  found, memory = count(compiled.as_text()), compiled.memory_analysis()
  held = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
  return {
    "kernels": timing.significant(found.kernels / turns),
    "kernels_a_turn": found.turn,
    "megabytes": timing.significant(found.bytes / turns / 1e6),
    "waits_for_the_host": found.waits,
    "memory_megabytes": timing.significant((held - memory.alias_size_in_bytes) / 1e6),
    "rounded_products": rounded_products(lowered.as_text()),
    "compile_seconds": timing.significant(seconds, 3),
  }


def main(
  device: Literal["h100"] = "h100", programs: tuple[str, ...] = (), limit: int = 300
) -> None:
  """Compile the main programs for a GPU.

  Args:
    device: Which one.
    programs: Which ones; all by default.
    limit: Seconds after which a program is given up, each in a process of its own; 0 for no limit.
  """
  for name in programs or PROGRAMS:
    row: dict[str, Any] = {"device": device, "program": name}
    try:
      if limit:
        subprocess.run(
          [sys.executable, "-m", "benchmarks.compiled", "--limit", "0", "--programs", name],
          timeout=limit,
          check=True,
          env=os.environ | {"JAX_PLATFORMS": "cpu"},
        )
      else:
        timing.say("compiled", **row | measure(name, device))
    except subprocess.SubprocessError as error:  # or it ended with an error, which it has shown
      timing.say("compiled", **row, not_compiled_in_seconds=limit, why=str(error))


if __name__ == "__main__":
  timing.command(main)
