"""The measurements that `benchmarks.machine` makes. To add one, add it to `MEASUREMENTS`."""

import dataclasses
import functools
import statistics
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks import batch_solve, generation, poker, tabular, timing
from benchmarks.growing import self_play
from rebel_jax import evaluate
from rebel_jax import train as cli
from rebel_jax.runs.metrics import read_metrics


@dataclasses.dataclass(frozen=True)
class Measurement:
  """Something to measure, in a process of its own.

  Attributes:
    name: of this one alone.
    run: returns the figures, a JSON object as benchmarks print. A function of a module, or a
      `functools.partial` of one.
    shows: figures that the table shows, each with its unit.
    value: what knowing it is worth beside the others; the most valuable minutes come first.
    cpu, accelerator: seconds that it takes about on a CPU of two cores and on an accelerator, start
      of the process and compilation included; None where it is not measured.
    device: text that the device's name must have in it.
    rival: name of the measurement that does the same another way; the first of `shows` says which
      is faster.
  """

  name: str
  run: Callable[[], dict[str, Any]]
  shows: Mapping[str, str]
  value: float
  cpu: float | None
  accelerator: float | None
  device: str = ""
  rival: str | None = None


def solve_game(name: str) -> dict[str, Any]:
  """Times updates of a whole game, alone and in a batch."""
  return next(tabular.measure(name, tabular.Options(iterations=512, repeats=3)))


def solve_subgames(size: int) -> dict[str, Any]:
  """Times solving so many subgames in a call."""
  return next(batch_solve.measure(batch_solve.Options(sizes=(size,), repeats=3)))


def generate(preset: str, lanes: int, fused: bool, precision: str | None = None) -> dict[str, Any]:
  """Times self-play."""
  return generation.measure(
    generation.Options(
      preset, lanes, precision=precision, fused_network=fused, warm_up=3, steps=1, repeats=2
    )
  )


def train(*flags: str) -> dict[str, Any]:
  """Trains by `python train.py` with `flags`, none for the default run.

  Raises:
    RuntimeError: the command fails.
  """
  with tempfile.TemporaryDirectory() as folder:
    code = cli.main([*flags, "--output-dir", folder])
    if code:
      raise RuntimeError(f"train.py ended with exit code {code}")
    return {"benchmark": "train", **timing.environment(), "flags": flags, **describe_run(folder)}


def describe_run(folder: str | Path) -> dict[str, Any]:
  """Returns what a finished run came to."""
  rows = read_metrics(folder)
  names = ("examples", "seconds", "exploitability", "playthroughs", "iterations")
  rate = statistics.median(row["examples_per_second"] for row in rows)
  return {name: rows[-1][name] for name in names} | {"examples_per_second": rate}


def evaluate_agent(checkpoint: str, playthroughs: int) -> dict[str, Any]:
  """Measures an agent's exploitability; its time includes compilation."""
  measured = evaluate.measure(evaluate.Options(checkpoint, playthroughs=playthroughs))
  return {"benchmark": "evaluate", **timing.environment(), **measured}


def _tabular(game: str, value: float, cpu: float, accelerator: float) -> Measurement:
  shows = {
    "microseconds_per_update": "µs an update",
    "microseconds_per_update_batched": "in a batch",
  }
  run = functools.partial(solve_game, game)
  return Measurement(f"tabular {game}", run, shows, value, cpu, accelerator)


def _generation(
  game: str, lanes: int, value: float, cpu: float | None, *, precision: str | None = None
) -> list[Measurement]:
  """Returns self-play with the network layer by layer, and in one kernel."""
  plain = f"generation {game}, {lanes:,} lanes" + (f", {precision}" if precision else "")
  shows = {"examples_per_second": "examples/s", "network_share_of_matmul": "of plain products"}
  run = functools.partial(generate, f"liars_dice_{game}_paper", lanes, precision=precision)
  return [
    Measurement(plain, functools.partial(run, fused=False), shows, value, cpu, 60),
    Measurement(
      f"{plain}, fused",
      functools.partial(run, fused=True),
      shows,
      value,
      None,
      60,
      device="NVIDIA",
      rival=plain,
    ),
  ]


def grow_trees(lanes: int) -> dict[str, Any]:
  """Times self-play of Player of Games on Leduc poker."""
  return self_play.measure(self_play.Options(lanes=lanes))


def _growing(lanes: int, value: float, cpu: float | None) -> Measurement:
  shows = {"searches_per_second": "searches/s", "bytes_per_lane": "bytes a lane"}
  run = functools.partial(grow_trees, lanes)
  return Measurement(f"PoG(100, 1), Leduc poker, {lanes:,} lanes", run, shows, value, cpu, 120)


_POKER = {"milliseconds_per_update": "ms an update", "gigabytes": "GB"}

MEASUREMENTS: tuple[Measurement, ...] = (
  _tabular("kuhn", 0.5, 15, 30),
  _tabular("leduc", 1, 40, 40),
  _tabular("liars_dice_1x4f", 2, 30, 40),
  _tabular("liars_dice_1x5f", 0.5, 50, 40),
  _tabular("liars_dice_1x6f", 1, 70, 60),
  _tabular("liars_dice_2x3f", 1, 100, 60),
  *(
    Measurement(
      f"batch of {size:,} subgames",
      functools.partial(solve_subgames, size),
      {"solves_per_second": "solved/s"},
      value=2,
      cpu=cpu,
      accelerator=60,
    )
    for size, cpu in ((1_024, 60), (4_096, None))
  ),
  *_generation("1x4f", 64, value=4, cpu=45),
  *_generation("1x4f", 256, value=2, cpu=60),
  *_generation("1x4f", 1_024, value=3, cpu=120),
  *_generation("1x4f", 4_096, value=4, cpu=400),
  *_generation("1x4f", 4_096, value=1.5, cpu=None, precision="bfloat16_activations"),
  *_generation("2x3f", 64, value=1, cpu=60),
  *_generation("2x3f", 4_096, value=2.5, cpu=None),
  _growing(32, value=2, cpu=150),
  _growing(512, value=2, cpu=None),
  _growing(4_096, value=3, cpu=None),
  Measurement(
    "default training run",
    train,
    {"exploitability": "exploitability", "examples_per_second": "examples/s", "seconds": "s"},
    value=10,
    cpu=240,
    accelerator=330,
  ),
  Measurement(
    "64 playthroughs, liars_dice_1x4f",
    functools.partial(evaluate_agent, "liars_dice_1x4f", 64),
    {"seconds": "s with compilation", "exploitability": "exploitability"},
    value=1,
    cpu=45,
    accelerator=60,
  ),
  Measurement(
    "poker update, suits merged",
    functools.partial(poker.update, suits="merged"),
    _POKER,
    value=2,
    cpu=40,
    accelerator=60,
  ),
  Measurement("poker update, all hands", poker.update, _POKER, value=1, cpu=90, accelerator=90),
  Measurement(
    "batch of 128 rivers",
    functools.partial(poker.rivers, 128),
    {"rivers_per_second": "solved/s", "pot_median": "of the pot left"},
    value=1,
    cpu=90,
    accelerator=90,
  ),
)
