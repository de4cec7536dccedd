"""Cost of solving against the batch, the tree, the number of updates and the devices, by `axis`.

Without accelerators devices are parts of the CPU, in a process of their own: on few cores that
shows what spreading (`jax.shard_map`) costs, not what devices are worth.
"""

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


def main(
  axes: tuple[str, ...] = ("batch", "tree", "updates", "devices"),
  game: str = "liars_dice_1x4f",
  batches: tuple[int, ...] = (1, 4, 16, 64, 256, 1024),
  trees: tuple[str, ...] = (
    "kuhn",
    "liars_dice_1x3f",
    "leduc",
    "liars_dice_1x4f",
    "liars_dice_1x5f",
    "liars_dice_1x6f",
    "liars_dice_2x3f",
  ),
  updates: tuple[int, ...] = (16, 64, 256, 1024, 4096),
  device_counts: tuple[int, ...] = (1, 2, 4, 8),
  device_batch: int = 256,
  solves: timing.Solves = timing.SOLVES,
) -> None:
  """Time solves along four axes.

  Args:
    axes: Which of them: batch, tree, updates, devices.
    game: Short name, from benchmarks.timing; of all axes but tree.
    batches: Sizes along the axis batch.
    trees: Games along the axis tree.
    updates: Iterations along the axis updates; --iterations is of the others.
    device_counts: Devices along the axis devices.
    device_batch: Games solved along the axis devices, all devices together.
    solves: Of the solves.
  """
  cases: dict[str, list[tuple[str, dict[str, int]]]] = {
    "batch": [(game, {"batch": size}) for size in batches],
    "tree": [(name, {}) for name in trees],
    "updates": [(game, {"iterations": number}) for number in updates],
    "devices": [],
  }
  for axis in axes:
    for name, changes in timing.look_up("axes", axis, cases):
      tree = games.build_public_tree(timing.make_game(name, "trees" if axis == "tree" else "game"))
      taken = solves.time(solves.solver(tree, **changes))
      timing.say("scaling", **figures(solves, axis, name, tree, taken, **changes))
    for row in spread(solves, game, device_counts if axis == "devices" else (), device_batch):
      timing.say("scaling", **row)


def figures(
  solves: timing.Solves, axis: str, game: str, tree: PublicTree, taken: timing.Timing, **of: int
) -> dict[str, Any]:
  """Returns a line's figures."""
  batch = of.get("batch", 1)
  updates = batch * of.get("iterations", solves.iterations)
  return {
    **solves.describe(game, tree),
    "axis": axis,
    "batch": batch,
    **of,
    "milliseconds": timing.significant(1e3 * taken.median),
    "microseconds_per_update": timing.significant(1e6 * taken.median / updates),
    "solves_per_second": timing.significant(batch / taken.median),
    "compile_seconds": timing.significant(taken.compile_seconds, 3),
  }


def spread(
  solves: timing.Solves, game: str, counts: tuple[int, ...], batch: int
) -> Iterator[dict[str, Any]]:
  """Yields the figures of a batch that is spread over so many devices each."""
  for count in counts:
    if batch % count:
      raise SystemExit(f"device_batch={batch} must be a multiple of {count}")
    if jax.device_count() >= count:
      yield on_devices(solves, game, count, batch)
    elif jax.default_backend() == "cpu":
      # A fork would share the devices of this process.
      context = multiprocessing.get_context("spawn")
      with futures.ProcessPoolExecutor(1, context, make_cpu_devices, (count,)) as process:
        yield process.submit(on_devices, solves, game, count, batch).result()


def make_cpu_devices(count: int) -> None:
  """Makes a process that has used no device yet have so many."""
  jax.config.update("jax_num_cpu_devices", count)


def on_devices(solves: timing.Solves, game: str, count: int, batch: int) -> dict[str, Any]:
  """Measures on the first `count` devices of this process."""
  tree, split = games.build_public_tree(timing.make_game(game, "game")), PartitionSpec("devices")
  mesh = jax.make_mesh(
    (count,), ("devices",), axis_types=(AxisType.Auto,), devices=jax.devices()[:count]
  )
  solver = solves.solver(tree, batch=batch)
  solve = jax.jit(
    jax.shard_map(
      lambda beliefs: solver(beliefs=beliefs).root_values,
      mesh=mesh, in_specs=split, out_specs=split, check_vma=False,
    )
  )  # fmt: skip
  placed = jax.device_put(timing.random_beliefs(tree, batch), NamedSharding(mesh, split))
  taken = solves.time(lambda: solve(placed))
  # Which share of the work each device did is in the sum, in case a device did nothing.
  checksum = timing.significant(float(np.abs(np.asarray(solve(placed))).sum()))
  more = {"devices": count, "cores": num_cores(), "checksum": checksum}
  return figures(solves, "devices", game, tree, taken, batch=batch) | more


if __name__ == "__main__":
  timing.command(main)
