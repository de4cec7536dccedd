"""Searches a second of self-play by searches that grow trees, and the memory that a step takes.

Searches of play and of questions together, after the first steps, in which games all begin, a
second and a second of one core's work; and bytes of a lane. The network is fresh.
"""

import statistics

import jax

from benchmarks import timing
from benchmarks.measurements import play_only
from rebel_jax import devices
from rebel_jax.config.presets import get_preset


def main(
  preset: str = "pog_leduc",
  lanes: int | None = None,
  warm_up: int = 6,
  steps: int = 8,
  repeats: int = 3,
) -> None:
  """Prints the figures.

  Args:
    preset: one whose searches grow trees.
    lanes: games side by side, all devices together; None for the preset's.
    warm_up: steps before, at whose end games are at different points.
    steps: steps that are timed together.
    repeats: how often; the median counts.
  """
  config = get_preset(preset)
  search = config.growing
  if lanes is not None:
    config = config.replace(lanes=lanes)
  lanes = config.self_play.lanes
  devices.share_cores(config)
  play = play_only(config)
  held = sum(x.nbytes for x in jax.tree.leaves(play.state.lanes) if hasattr(x, "nbytes"))
  _, first, _ = timing.timed(lambda: play.take(1))
  play.take(warm_up)
  taken = [timing.timed(lambda: steps * lanes + play.take(steps)) for _ in range(repeats)]
  rates, by_core = ([x[0] / x[i] for x in taken] for i in (1, 2))
  timing.say(
    "growing_self_play",
    preset=preset,
    devices=play.setup.mesh.devices.size,
    lanes=lanes,
    simulations=search.simulations,
    per_update=search.per_update,
    searches_per_second=round(statistics.median(rates), 1),
    searches_per_core_second=round(statistics.median(by_core), 1),
    bytes_per_lane=round(held / lanes),
    first_call_seconds=round(first, 1),
  )


if __name__ == "__main__":
  timing.command(main)
