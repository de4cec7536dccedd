"""Measures self-play: examples a second, and how close the network comes to plain products.

Operations are multiplications and additions of the network's products for leaves that exist, not
padding, normalisation, activations, and the first layer's share of features, made once a search.
"""

import functools
import statistics

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from benchmarks import timing
from rebel_jax.config.presets import get_preset
from rebel_jax.devices import share_cores
from rebel_jax.networks.value import ValueNetwork
from rebel_jax.training.loop import DEVICES
from rebel_jax.training.self_play import SelfPlay
from rebel_jax.training.setup import make_network, make_setup
from solvers.xla import Programs


def matmul_flops_per_second() -> float:
  """Returns the best rate of float32 [R, 256] x [256, 256] over R from 128 to 16,384."""
  best, width = 0.0, 256
  for rows in (128, 256, 512, 1024, 2048, 4096, 8192, 16384):
    x, w = jnp.ones((rows, width)), jnp.eye(width)
    inner = max(1, 2**21 // rows // 16)

    @jax.jit
    def chain(x, w, inner=inner):
      return jax.lax.fori_loop(0, inner, lambda _, y: y @ w, x)

    seconds = timing.time_calls(functools.partial(chain, x, w), repeats=5).fastest
    best = max(best, 2 * rows * width * width * inner / seconds)
  return best


def flops_per_row(network: ValueNetwork) -> int:
  """Returns the operations of the products that one leaf costs in one iteration."""
  h, w = network.num_infostates, network.width
  inputs = 2 * h * (1 + network.belief_roots + getattr(network, "showdown_inputs", False))
  return 2 * (inputs * w + (network.hidden_layers - 1) * w * w + w * h)


def generate(table, settings: SelfPlay, lanes, params, key, steps: int, mesh: Mesh):
  """Takes steps of self-play on every device; returns the lanes `[D, ...]` and summed counts."""
  # What examples are made of is summed up too, or XLA would leave out what only they need.

  def on_device(table, lanes, params, keys):
    def step(lanes, key):
      played = settings.step(table, lanes, params, key)
      values = [x.result.root_values.sum() for x in played.searched if x.result is not None]
      return played.lanes, (played.stats, values)

    lanes = jax.tree.map(lambda x: x[0], lanes)
    lanes, counts = jax.lax.scan(step, lanes, jax.random.split(keys[0], steps))
    counts = jax.lax.psum(jax.tree.map(jnp.sum, counts), DEVICES)
    return jax.tree.map(lambda x: x[None], lanes), counts

  split = P(DEVICES)
  return jax.shard_map(
    on_device,
    mesh=mesh,
    in_specs=(P(), split, P(), split),
    out_specs=(split, P()),
    check_vma=False,
  )(table, lanes, params, jax.random.split(key, mesh.devices.size))


_generates = Programs(
  generate, static_argnames=("settings", "steps", "mesh"), donate_argnames="lanes"
)


def main(
  preset: str = "liars_dice_1x4f_paper",
  lanes: int | None = None,
  rows_fraction: float | None = None,
  iterations: int | None = None,
  precision: str | None = None,
  devices: int | None = None,
  warm_up: int = 3,
  steps: int = 2,
  repeats: int = 3,
) -> None:
  """Prints the figures of one measurement.

  Args:
    preset: whose game, search and network to use.
    lanes: games side by side; None for the preset's.
    rows_fraction: room for leaves, as in train.py; None for the preset's.
    iterations: iterations of each search; None for the preset's.
    precision: of the network, as in train.py; None for the preset's.
    devices: devices that share the lanes; None for all: each core of a CPU is one.
    warm_up: steps before timing, so that lanes spread over the game.
    steps: steps in each timed call.
    repeats: timed calls; the median counts.
  """
  changes = {
    "lanes": lanes, "rows_fraction": rows_fraction, "iterations": iterations,
    "precision": precision,
  }  # fmt: skip
  config = get_preset(preset).replace(**{name: x for name, x in changes.items() if x is not None})
  share_cores(config, devices)
  setup = make_setup(config, devices)
  num_devices = setup.mesh.devices.size
  trainer, table = setup.trainer, setup.table
  network, settings = make_network(config, config.make_game()), trainer.self_play
  assert isinstance(settings, SelfPlay)
  params = trainer.init(table, 0, setup.mesh).params
  starts = jax.random.split(jax.random.key(2), num_devices)
  games = jax.vmap(lambda key: settings.init(table, key))(starts)
  run = _generates[trainer.work(table, setup.mesh)]
  step = functools.partial(run, steps=steps, mesh=setup.mesh)
  keys = jax.random.split(jax.random.key(1), repeats + warm_up)

  matmul = matmul_flops_per_second()
  rates, flops, live, calls = [], [], [], []
  for key in (keys[-1], *keys[repeats:-1], *keys[:repeats]):
    (games, (stats, _)), seconds, _ = timing.timed(
      functools.partial(step, table, settings, games, params, key)
    )
    calls.append(seconds)
    rates.append(2 * int(stats.solves) / seconds)
    flops.append(float(stats.asked) * flops_per_row(network) / seconds)
    room = sum(layer.num_rows for layer in settings.layers)
    live.append(int(stats.rows) / (room * num_devices * steps))
  matmul, flop = max(matmul, matmul_flops_per_second()), statistics.median(flops[-repeats:])
  timing.say(
    "generation",
    preset=preset,
    devices=num_devices,
    lanes=settings.num_lanes * num_devices,
    iterations=settings.num_iterations,
    share_start=settings.share_start,
    precision=config.network.precision,
    examples_per_second=round(statistics.median(rates[-repeats:]), 1),
    network_flops_per_second=round(flop),
    matmul_flops_per_second=round(matmul),
    network_share_of_matmul=round(flop / matmul, 3),
    live_rows=round(statistics.median(live[-repeats:]), 3),
    first_call_seconds=round(calls[0], 1),
  )


if __name__ == "__main__":
  timing.command(main)
