"""Kernels, bytes and waits of the main programs, compiled for a GPU that need not be there.

XLA's GPU compiler runs on any machine (`pip install 'rebel-jax[gpu-compiler]'`); times it cannot
say. `python -m benchmarks.compiled` prints a JSON line for each program. Kernels and bytes are of
one call, of a solve of one turn: an update of each player. A loop whose number of turns the host
must read counts once, and so does the longest branch. Bytes are all operands and results of all
kernels, more than what moves where caches hold them. To add a program, add it to `programs`.
"""

import dataclasses
import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import games
import solvers
from benchmarks import batch_solve, timing
from benchmarks.poker import FLOP
from games.poker.lines import make_lines
from rebel_jax import get_preset
from rebel_jax.config.presets import PRESETS
from rebel_jax.training import loop as training
from rebel_jax.training.setup import make_setup
from rebel_jax.training.targets.target import init_params
from solvers import solve_boards, tuning
from solvers.algorithms.by_boards import ByBoards
from solvers.sweeps.lines.parts import layout, make_parted_problem
from solvers.xla.compiler_options import Work, options_for

_TURNS = 128  # of a solve: an update of each player


@dataclasses.dataclass(frozen=True)
class Options:
  """Compile the main programs for a GPU."""

  device: Literal["h100"] = "h100"
  """Which one."""
  programs: tuple[str, ...] = ()
  """Which ones; all by default."""
  limit: int = 0
  """Seconds after which a program's compilation is given up, each in a process of its own; 0 for no
  limit."""


class Prepared(NamedTuple):
  """A traced program.

  Attributes:
    traced: of `jax.jit`.
    turns: of its main loop, of which the figures are one; 1 for the whole program.
    options: of the compiler.
  """

  traced: Any
  turns: int = 1
  options: dict[str, Any] | None = None


class Counts(NamedTuple):
  """Kernels of a program, bytes that they touch, and loops and branches that the host decides."""

  kernels: int = 0
  bytes: int = 0
  waits: int = 0

  def plus(self, other: "Counts", times: int = 1) -> "Counts":
    return Counts(*(x + times * y for x, y in zip(self, other)))


@functools.cache
def target(device: str) -> jax.Device:
  """Returns the device to compile for, and has programs made for its kind from now on."""
  description = (Path(__file__).parent / f"{device}.txtpb").read_text()
  jax.config.update("jax_platforms", "cpu")  # the compiler's plugin expects a driver of its own
  try:
    shape = {"target_config": description, "topology": "1x1x1"}
    found = topologies.get_topology_desc("", "cuda", **shape).devices[0]
  except Exception as error:
    raise SystemExit(
      "no GPU compiler: pip install 'rebel-jax[gpu-compiler]' "
      f"({type(error).__name__}: {str(error)[:200]})"
    ) from None
  tuning.platform = lambda: "gpu"
  return found


def programs(device: str) -> dict[str, Callable[[], Prepared]]:
  """Returns what makes each program, by name."""
  names = [*timing.GAMES]
  made: dict[str, Callable[[], Prepared]] = {
    f"solve {x}": functools.partial(_solve, device, x) for x in names
  }
  made["batch of 1,024 subgames"] = functools.partial(_batch, device)
  made |= {f"self-play {x}": functools.partial(_play, device, x) for x in PRESETS}
  made |= {f"training {x}": functools.partial(_train, device, x) for x in PRESETS}
  made |= {
    "turn": functools.partial(_boards, device, "2c"),
    "flop": functools.partial(_boards, device),
  }
  return made


def _shapes(tree: Any, sharding: Any) -> Any:
  def shape(x: Any) -> jax.ShapeDtypeStruct:
    dtype = x.dtype if hasattr(x, "dtype") else jnp.asarray(x).dtype
    return jax.ShapeDtypeStruct(np.shape(x), dtype, sharding=sharding)

  return jax.tree.map(shape, tree)


def _alone(device: str, function: Callable, *arguments: Any, **how: Any) -> Prepared:
  shapes = _shapes(arguments, SingleDeviceSharding(target(device)))
  return Prepared(jax.jit(function).trace(*shapes), **how)


def _solve(device: str, name: str) -> Prepared:
  target(device)
  tree = games.build_public_tree(timing.make_game(name))
  run = timing.Solves(iterations=2 * _TURNS).solver(tree)
  how: dict[str, Any] = {"turns": _TURNS, "options": options_for(Work.LOOPS)}
  return _alone(device, lambda beliefs: run(beliefs=beliefs), tree.prior, **how)


def _batch(device: str, size: int = 1024) -> Prepared:
  target(device)
  trees, _ = batch_solve.make_subgames(timing.make_game("liars_dice_1x4f"), 2, size)
  settings: dict[str, Any] = {"algorithm": solvers.linear_cfr(), "num_iterations": 2 * _TURNS}
  run = lambda trees, beliefs: solvers.solve_batch(trees, beliefs=beliefs, **settings)  # noqa: E731
  how: dict[str, Any] = {"turns": _TURNS, "options": options_for(Work.LOOPS)}
  return _alone(device, run, trees, timing.random_beliefs(trees, size), **how)


def _play(device: str, preset: str) -> Prepared:
  target(device)
  setup = make_setup(get_preset(preset), 1)
  play, key = setup.trainer.self_play, jax.random.key(0)
  params = jax.eval_shape(functools.partial(init_params, setup.trainer.targets), key)
  lanes = jax.eval_shape(play.init, setup.table, key)
  return _alone(device, play.step, setup.table, lanes, params, key)


def _train(device: str, preset: str) -> Prepared:
  mesh = Mesh(np.array([target(device)]), (training.DEVICES,))
  setup = make_setup(get_preset(preset), 1)
  init = functools.partial(training._init, setup.trainer, 1, setup.table)
  state = jax.eval_shape(init, jnp.asarray(0, jnp.uint32))
  everywhere = NamedSharding(mesh, PartitionSpec())
  own = [_shapes(x, NamedSharding(mesh, s)) for x, s in zip(state, training.specs(), strict=True)]
  run = jax.jit(functools.partial(training._run_on_mesh, setup.trainer, mesh), donate_argnums=2)
  table = _shapes((np.int32(0), setup.table), everywhere)
  return Prepared(run.trace(*table, training.TrainState(*own)))


def _boards(device: str, card: str = "") -> Prepared:
  spot = dataclasses.replace(FLOP, board=FLOP.board + card)
  algorithm = ByBoards(solvers.discounted_cfr())
  lines, _ = make_lines(spot.game())
  problem = jax.eval_shape(functools.partial(make_parted_problem, shares=1), lines)
  mesh = Mesh(np.array([target(device)]), (solve_boards.AXIS,))
  where = jax.tree.map(lambda x: NamedSharding(mesh, x), layout(problem))
  problem = jax.tree.map(_shapes, problem, where)
  state = jax.eval_shape(lambda x: solve_boards._begin_boards(x, algorithm, mesh), problem)
  run = functools.partial(solve_boards._run_boards, algorithm=algorithm, mesh=mesh, number=2)
  return Prepared(jax.jit(lambda problem, state: run(problem, state=state)).trace(problem, state))


# Optimised HLO as text.

_SIZES = {"pred": 1, "s8": 1, "u8": 1, "f64": 8, "s64": 8, "u64": 8}
_NONE = {
  "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier",
  "partition-id", "replica-id", "async-done", "add-dependency",
}  # fmt: skip
_LINE = re.compile(r"\s+(?:ROOT )?(%\S+) = (.*?) ([a-z][\w-]*)\((.*)")


def count(text: str) -> Counts:
  """Returns what one call of a compiled program launches, from its optimised HLO."""
  bodies: dict[str, list[tuple[str, ...]]] = {}
  lines: list[tuple[str, ...]] = []
  for line in text.splitlines():
    if head := re.match(r"(ENTRY )?(%\S+) \(", line):
      lines = bodies.setdefault("entry" if head[1] else head[2], [])
    elif found := _LINE.match(line):
      lines.append(found.groups())

  @functools.cache
  def of(name: str) -> Counts:
    total, types = Counts(), {x[0]: x[1] for x in bodies[name]}
    for _, shape, kind, rest in bodies[name]:
      if kind == "while":
        known = re.search(r'known_trip_count":\{"n":"(\d+)"', rest)
        body = of(re.search(r"body=(%[\w.-]+)", rest)[1])
        total = total.plus(body, int(known[1]) if known else 1).plus(Counts(waits=not known))
      elif kind == "conditional":
        branches = re.findall(r"%[\w.-]+", rest.split("computation", 1)[1].split("}, ")[0])
        total = total.plus(max(of(x) for x in branches if x in bodies)).plus(Counts(waits=1))
      elif kind in ("call", "async-start"):
        total = total.plus(of(re.search(r"(?:to_apply|calls)=(%[\w.-]+)", rest)[1]))
      elif kind not in _NONE:
        operands = [types.get(x, "") for x in re.findall(r"%[\w.-]+", rest.split("), ")[0])]
        total = total.plus(Counts(1, sum(map(_bytes, [shape, *operands]))))
    return total

  return of("entry")


def _bytes(shape: str) -> int:
  arrays = re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shape)
  return sum(
    _SIZES.get(kind, 2 if kind.endswith("16") else 4)
    * int(np.prod([int(x) for x in sides.split(",") if x], initial=1))
    for kind, sides in arrays
  )


def rounded_products(text: str) -> int:
  """Returns how many products of float32 may be TF32, from a program as it was lowered."""
  found = re.findall(r"stablehlo\.dot_general[^\n]*-> tensor<[^>]*f32>", text)
  return sum("HIGHEST" not in x and "bf16" not in x for x in found)


def measure(name: str, device: str = "h100") -> dict[str, Any]:
  """Returns the figures of a program."""
  prepared = timing.look_up("programs", name, programs(device))()
  begun = time.perf_counter()
  lowered = prepared.traced.lower(lowering_platforms=("cuda",))
  compiled = lowered.compile(compiler_options=prepared.options)
  seconds, found = time.perf_counter() - begun, count(compiled.as_text())
  memory = compiled.memory_analysis()
  held = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
  return {
    "kernels": timing.significant(found.kernels / prepared.turns),
    "megabytes": timing.significant(found.bytes / prepared.turns / 1e6),
    "waits_for_the_host": found.waits,
    "memory_megabytes": timing.significant((held - memory.alias_size_in_bytes) / 1e6),
    "rounded_products": rounded_products(lowered.as_text()),
    "compile_seconds": timing.significant(seconds, 3),
  }


def main(options: Options) -> None:
  """Compiles the programs."""
  for name in options.programs or programs(options.device):
    row: dict[str, Any] = {"benchmark": "compiled", "device": options.device, "program": name}
    if not options.limit:
      timing.say(row | measure(name, options.device))
      continue
    command = [sys.executable, "-m", "benchmarks.compiled", "--programs", name]
    try:
      subprocess.run(
        command, timeout=options.limit, check=True, env=os.environ | {"JAX_PLATFORMS": "cpu"}
      )
    except subprocess.TimeoutExpired:
      timing.say(row | {"not_compiled_in_seconds": options.limit})


if __name__ == "__main__":
  timing.command(main, Options)
