"""Cost of solving against the batch, the tree, the number of updates and the devices.

`python -m benchmarks.scaling` prints JSON lines, each with the `axis` that it belongs to:

  batch: whole games of one kind at different beliefs, by `solvers.solve_batch`.
  tree: one whole game after another, smallest first; microseconds per update and per node.
  updates: one game, more and more iterations; compiling must not take longer for more of them.
  devices: a fixed batch spread over 1, 2, 4 and 8 devices by `jax.shard_map`. Without accelerators
    the devices are parts of the CPU, made in a process of their own: on few cores that shows what
    spreading costs, not what devices are worth.
"""

import dataclasses
import multiprocessing
import sys
from collections.abc import Iterator
from concurrent import futures
from functools import partial
from typing import Any

import jax
import numpy as np
import tyro
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import games
import solvers
from benchmarks import timing
from games import PublicTree
from rebel_jax import flags
from solvers.algorithms.algorithm import Algorithm
from solvers.xla.cores import num_cores


@dataclasses.dataclass(frozen=True)
class Options:
  """Time solves along four axes."""

  axes: tuple[str, ...] = ("batch", "tree", "updates", "devices")
  """Which of them: batch, tree, updates, devices."""
  game: str = "liars_dice_1x4f"
  """Short name, from benchmarks.timing; of all axes but tree."""
  algorithm: str = "linear_cfr"
  """As it is called in solvers."""
  iterations: int = 256
  """Updates of a solve, both players together; of all axes but updates."""
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
  """Iterations along the axis updates."""
  device_counts: tuple[int, ...] = (1, 2, 4, 8)
  """Devices along the axis devices."""
  device_batch: int = 256
  """Games solved along the axis devices, all devices together."""
  repeats: int = 5
  """Timed calls; the median counts."""
  seconds: float = 0.2
  """Timed calls go on for at least this long."""


class Scaling:
  """Measures along one axis after another."""

  def __init__(self, options: Options):
    self.options = options
    self.game = timing.make_game(options.game, "game")
    self.algorithm: Algorithm = timing.make_algorithm("algorithm", options.algorithm)

  def time(self, function) -> timing.Timing:
    return timing.time_calls(function, repeats=self.options.repeats, seconds=self.options.seconds)

  def row(self, axis: str, game: str, tree: PublicTree, taken: timing.Timing, **more) -> dict:
    batch = more.get("batch", 1)
    updates = batch * more.get("iterations", self.options.iterations)
    return {
      **timing.describe("scaling", game, tree, self.options),
      "axis": axis,
      "batch": batch,
      **more,
      "milliseconds": timing.significant(1e3 * taken.median),
      "microseconds_per_update": timing.significant(1e6 * taken.median / updates),
      "solves_per_second": timing.significant(batch / taken.median),
      "compile_seconds": timing.significant(taken.compile_seconds, 3),
    }

  def batch(self) -> Iterator[dict]:
    tree = games.build_public_tree(self.game)
    for size in self.options.batches:
      beliefs = timing.random_beliefs(tree, size)
      taken = self.time(partial(self.solve_batch, tree, beliefs))
      yield self.row("batch", self.options.game, tree, taken, batch=size)

  def solve_batch(self, tree: PublicTree, beliefs) -> solvers.Solution:
    return solvers.solve_batch(
      tree, beliefs=beliefs, algorithm=self.algorithm, num_iterations=self.options.iterations
    )

  def tree(self) -> Iterator[dict]:
    for name in self.options.trees:
      tree = games.build_public_tree(timing.make_game(name, "trees"))
      taken = self.time(lambda tree=tree: self.solve(tree, self.options.iterations))
      yield self.row("tree", name, tree, taken)

  def solve(self, tree: PublicTree, iterations: int) -> solvers.Solution:
    return solvers.solve(tree, algorithm=self.algorithm, num_iterations=iterations)

  def updates(self) -> Iterator[dict]:
    tree = games.build_public_tree(self.game)
    for iterations in self.options.updates:
      taken = self.time(lambda iterations=iterations: self.solve(tree, iterations))
      yield self.row("updates", self.options.game, tree, taken, iterations=iterations)

  def devices(self) -> Iterator[dict]:
    for count in self.options.device_counts:
      if self.options.device_batch % count:
        raise SystemExit(f"device_batch={self.options.device_batch} must be a multiple of {count}")
      if jax.device_count() >= count:
        yield self.on_devices(count)
      elif jax.default_backend() == "cpu":
        # A fork would share the devices of this process.
        context = multiprocessing.get_context("spawn")
        with futures.ProcessPoolExecutor(1, context) as process:
          yield process.submit(on_cpu_devices, self.options, count).result()

  def on_devices(self, count: int) -> dict:
    """Measures on the first `count` devices of this process."""
    tree = games.build_public_tree(self.game)
    mesh = jax.make_mesh(
      (count,), ("devices",), axis_types=(AxisType.Auto,), devices=jax.devices()[:count]
    )
    spread = PartitionSpec("devices")

    def solve(beliefs: jax.Array) -> jax.Array:
      return self.solve_batch(tree, beliefs).root_values

    solve_spread = jax.jit(
      jax.shard_map(solve, mesh=mesh, in_specs=spread, out_specs=spread, check_vma=False)
    )
    beliefs = timing.random_beliefs(tree, self.options.device_batch)
    placed = jax.device_put(beliefs, NamedSharding(mesh, spread))
    taken = self.time(lambda: solve_spread(placed))
    row = self.row("devices", self.options.game, tree, taken, batch=len(beliefs))
    # Which share of the work each device did is in the sum, in case a device did nothing.
    checksum = float(np.abs(np.asarray(solve_spread(placed))).sum())
    return row | {"devices": count, "cores": num_cores(), "checksum": timing.significant(checksum)}


def on_cpu_devices(options: Options, count: int) -> dict[str, Any]:
  """Measures as `Scaling.on_devices` does, in a process that has used no device yet."""
  jax.config.update("jax_num_cpu_devices", count)
  return Scaling(options).on_devices(count)


def main(options: Options) -> None:
  """Measures along the axes asked for."""
  scaling = Scaling(options)
  known = {axis: getattr(scaling, axis) for axis in ("batch", "tree", "updates", "devices")}
  for axis in options.axes:
    for row in timing.look_up("axes", axis, known)():
      timing.say(row)


if __name__ == "__main__":
  sys.exit(flags.command(lambda: main(tyro.cli(Options))))
