"""Cost of solving against the batch, the tree, the number of updates and the devices, by `axis`.

Without accelerators devices are parts of the CPU, in a process of their own: on few cores that
shows what spreading (`jax.shard_map`) costs, not what devices are worth.
"""

import dataclasses
import multiprocessing
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import games
from benchmarks import timing
from games import PublicTree
from solvers.xla import num_cores


@dataclasses.dataclass(frozen=True)
class Options(timing.Solves):
  """Time solves along four axes."""

  axes: tuple[str, ...] = ("batch", "tree", "updates", "devices")
  """Which of them: batch, tree, updates, devices."""
  game: str = "liars_dice_1x4f"
  """Short name, from benchmarks.timing; of all axes but tree."""
  batches: tuple[int, ...] = (1, 4, 16, 64, 256, 1024)
  """Sizes along the axis batch."""
  trees: tuple[str, ...] = (
    "kuhn",
    "liars_dice_1x3f",
    "leduc",
    "liars_dice_1x4f",
    "liars_dice_1x5f",
    "liars_dice_1x6f",
    "liars_dice_2x3f",
  )
  """Games along the axis tree."""
  updates: tuple[int, ...] = (16, 64, 256, 1024, 4096)
  """Iterations along the axis updates; --iterations is of the others."""
  device_counts: tuple[int, ...] = (1, 2, 4, 8)
  """Devices along the axis devices."""
  device_batch: int = 256
  """Games solved along the axis devices, all devices together."""


def measure(options: Options, axis: str) -> Iterator[dict[str, Any]]:
  """Yields the figures along an axis."""
  cases: dict[str, list[tuple[str, dict[str, int]]]] = {
    "batch": [(options.game, {"batch": size}) for size in options.batches],
    "tree": [(name, {}) for name in options.trees],
    "updates": [(options.game, {"iterations": number}) for number in options.updates],
    "devices": [],
  }
  for name, changes in timing.look_up("axes", axis, cases):
    tree = games.build_public_tree(timing.make_game(name, "trees" if axis == "tree" else "game"))
    yield row(options, axis, name, tree, options.time(options.solver(tree, **changes)), **changes)
  for count in options.device_counts if axis == "devices" else ():
    if options.device_batch % count:
      raise SystemExit(f"device_batch={options.device_batch} must be a multiple of {count}")
    if jax.device_count() >= count:
      yield on_devices(options, count)
    elif jax.default_backend() == "cpu":
      # A fork would share the devices of this process.
      context = multiprocessing.get_context("spawn")
      with futures.ProcessPoolExecutor(1, context) as process:
        yield process.submit(on_cpu_devices, options, count).result()


def row(
  options: Options, axis: str, game: str, tree: PublicTree, taken: timing.Timing, **changes: int
) -> dict[str, Any]:
  """Returns a line's figures."""
  batch = changes.get("batch", 1)
  updates = batch * changes.get("iterations", options.iterations)
  return {
    **options.describe("scaling", game, tree),
    "axis": axis,
    "batch": batch,
    **changes,
    "milliseconds": timing.significant(1e3 * taken.median),
    "microseconds_per_update": timing.significant(1e6 * taken.median / updates),
    "solves_per_second": timing.significant(batch / taken.median),
    "compile_seconds": timing.significant(taken.compile_seconds, 3),
  }


def on_devices(options: Options, count: int) -> dict[str, Any]:
  """Measures on the first `count` devices of this process."""
  tree = games.build_public_tree(timing.make_game(options.game, "game"))
  mesh = jax.make_mesh(
    (count,), ("devices",), axis_types=(AxisType.Auto,), devices=jax.devices()[:count]
  )
  spread, size = PartitionSpec("devices"), options.device_batch
  solver = options.solver(tree, batch=size)

  def solve(beliefs: jax.Array) -> jax.Array:
    return solver(beliefs=beliefs).root_values

  solve_spread = jax.jit(
    jax.shard_map(solve, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)
  )
  placed = jax.device_put(timing.random_beliefs(tree, size), NamedSharding(mesh, spread))
  taken = options.time(lambda: solve_spread(placed))
  # Which share of the work each device did is in the sum, in case a device did nothing.
  checksum = timing.significant(float(np.abs(np.asarray(solve_spread(placed))).sum()))
  more = {"devices": count, "cores": num_cores(), "checksum": checksum}
  return row(options, "devices", options.game, tree, taken, batch=size) | more


def on_cpu_devices(options: Options, count: int) -> dict[str, Any]:
  """Measures as `on_devices` does, in a process that has used no device yet."""
  jax.config.update("jax_num_cpu_devices", count)
  return on_devices(options, count)


def main(options: Options) -> None:
  """Measures along the axes asked for."""
  for axis in options.axes:
    for figures in measure(options, axis):
      timing.say(figures)


if __name__ == "__main__":
  timing.command(main, Options)
