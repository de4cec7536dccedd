"""What each choice of the training recipe is worth: exploitability against time and examples.

`python -m benchmarks.learning` trains the preset and variants that differ from it in one setting,
each for the same time, and prints a JSON line for each evaluation. Time is processor time divided
by the number of cores, compilation and evaluation excluded, so that another program on the machine
disturbs the comparison less; `--clock wall` takes wall-clock time instead. The learning rate decays
over the whole time in every variant. `--figure FILE` draws the curves.
"""

import dataclasses
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import jax
import tyro

from rebel_jax.config import Config
from rebel_jax.evaluation import Evaluator
from rebel_jax.presets import get_preset
from rebel_jax.setup import make_setup

# What differs from the preset. `controls` are expected to be worse.
VARIANTS: dict[str, dict[str, Any]] = {
  "recipe": {},
  "start not shared": {"share_start": False, "rows_fraction": 0.7},
  "uses 4": {"uses_per_example": 4.0},
  "iterations 128": {"iterations": 128},
  "iterations 32": {"iterations": 32},
  "linear cfr": {"algorithm": "linear_cfr"},
  "predictive cfr+": {"algorithm": "predictive_cfr_plus"},
  "values of average": {"values_of_average": True},
  "no layer norm": {"layer_norm": False},
  "adam 0.01": {"optimizer": "adam", "learning_rate": 0.01},
  "adam 0.01, roots": {"optimizer": "adam", "learning_rate": 0.01, "belief_roots": 2},
  "muon, roots": {
    "optimizer": "muon",
    "learning_rate": 0.02,
    "batch_size": 512,
    "uses_per_example": 8.0,
    "belief_roots": 2,
  },
  "bfloat16": {"precision": "bfloat16"},
  "tensorfloat32": {"precision": "tensorfloat32"},
  "modified cfr-avg": {"algorithm": "discounted_cfr_avg"},
  "control: random beliefs": {"random_beliefs": True, "share_start": False, "rows_fraction": 0.7},
}


@dataclasses.dataclass(frozen=True)
class Options:
  """Compare settings of the training recipe."""

  preset: str = "liars_dice_1x4f"
  """What the variants differ from."""
  variants: tuple[str, ...] = tuple(VARIANTS)
  """Names of the variants to run."""
  seconds: float = 30.0
  """Training time of each variant."""
  clock: Literal["cpu", "wall"] = "cpu"
  """Processor time over cores, or wall-clock time."""
  evaluations: int = 2
  """Evaluations of each variant, evenly over its time."""
  playthroughs: int = 64
  """Playthroughs of each evaluation."""
  iterations: int = 256
  """Iterations of the searches that are evaluated."""
  seeds: int = 1
  """Seeds of each variant, from 0."""
  figure: Path | None = None
  """Where to draw the curves."""


def clock(kind: str) -> float:
  """Returns seconds on the chosen clock."""
  if kind == "wall":
    return time.perf_counter()
  return time.process_time() / len(os.sched_getaffinity(0))


def run_variant(options: Options, name: str, seed: int) -> Iterator[dict[str, Any]]:
  """Trains one variant and yields a row for each evaluation."""
  config = dataclasses.replace(
    get_preset(options.preset), seed=seed, num_devices=1, max_seconds=None, **VARIANTS[name]
  )
  config = dataclasses.replace(config, examples=estimate_examples(config, options))
  setup = make_setup(config)
  evaluator = Evaluator(config, game=setup.game, subgames=setup.subgames)
  state = setup.trainer.init(setup.table, seed, setup.mesh)
  state, _ = setup.trainer.run(setup.table, state, config.report_every, setup.mesh)
  jax.block_until_ready(state)
  spent, loss = 0.0, float("nan")
  for number in range(1, options.evaluations + 1):
    while spent < options.seconds * number / options.evaluations:
      start = clock(options.clock)
      state, report = setup.trainer.run(setup.table, state, config.report_every, setup.mesh)
      loss = float(report.loss)
      spent += clock(options.clock) - start
    row = {
      "benchmark": "learning",
      "device": jax.devices()[0].device_kind,
      "preset": options.preset,
      "variant": name,
      "seed": seed,
      "seconds": round(spent, 1),
      "clock": options.clock,
      "solves": int(state.solves),
      "examples": int(state.replay.added.sum()),
      "loss": round(loss, 5),
      "playthroughs": options.playthroughs,
      "iterations": options.iterations,
      "exploitability": round(
        evaluator.exploitability(
          state.params,
          playthroughs=options.playthroughs,
          iterations=options.iterations,
          seed=seed,
          unsafe=False,
          progress=None,
        ),
        4,
      ),
    }
    yield row


def estimate_examples(config: Config, options: Options) -> int:
  """Returns how many examples the variant will make, so that its learning rate decays in time.

  Timed on a few steps of self-play in the middle of play.
  """
  setup = make_setup(config)
  state = setup.trainer.init(setup.table, config.seed, setup.mesh)
  for _ in range(3):
    state, _ = setup.trainer.run(setup.table, state, config.report_every, setup.mesh)
    jax.block_until_ready(state)
  before, start = int(state.replay.added.sum()), clock(options.clock)
  state, _ = setup.trainer.run(setup.table, state, config.report_every, setup.mesh)
  jax.block_until_ready(state)
  rate = (int(state.replay.added.sum()) - before) / (clock(options.clock) - start)
  return max(1, round(rate * options.seconds))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
  """Draws exploitability against seconds, one line a variant and seed."""
  from matplotlib.figure import Figure

  figure = Figure(figsize=(7, 4.5), layout="constrained")
  axes = figure.subplots()
  names = list(dict.fromkeys(row["variant"] for row in rows))
  for number, name in enumerate(names):
    for seed in sorted({row["seed"] for row in rows}):
      line = [row for row in rows if row["variant"] == name and row["seed"] == seed]
      axes.plot(
        [row["seconds"] for row in line],
        [row["exploitability"] for row in line],
        marker="o",
        color=f"C{number}",
        label=name if seed == 0 else None,
      )
  axes.set_yscale("log")
  axes.set_xlabel(f"seconds of training ({rows[0]['clock']})")
  axes.set_ylabel("exploitability")
  axes.set_title(f"{rows[0]['preset']}: the recipe and what it is worth")
  axes.legend(fontsize=7)
  figure.savefig(path, dpi=110)


def main(options: Options) -> None:
  """Runs all variants."""
  rows = []
  for name in options.variants:
    if name not in VARIANTS:
      raise SystemExit(f"variants={name!r} is unknown; known: {', '.join(VARIANTS)}")
    for seed in range(options.seeds):
      for row in run_variant(options, name, seed):
        print(json.dumps(row), flush=True)
        rows.append(row)
  if options.figure is not None:
    draw(rows, options.figure)


if __name__ == "__main__":
  main(tyro.cli(Options))
