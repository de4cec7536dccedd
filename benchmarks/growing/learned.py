"""Exploitability of agents whose searches grow trees, while their network learns.

Trains a preset and prints a JSON line for each of several moments and settings of the searches
(Player of Games, figure 7a with `--preset pog_leduc`; 7b with `--preset pog_glasses`, on edges that
are ours). `--draw FILE.png --lines FILE...` draws such lines: means, ribbons from least to most.
"""

import time
from pathlib import Path

import jax

from benchmarks import timing
from benchmarks.figures import panels, read_rows
from benchmarks.measurements import Run
from rebel_jax import devices
from rebel_jax.config.presets import get_preset
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.training.loop import MOST_STEPS
from rebel_jax.training.setup import make_search

BENCHMARK = "growing_learned"
SETTINGS = ("10,1", "10,0.1", "30,1", "100,1", "300,1")


def parse_setting(text: str) -> tuple[int, float]:
  """Reads `SIMULATIONS,PER_UPDATE`."""
  simulations, per_update = text.split(",")
  return int(simulations), float(per_update)


def ribbons(files: tuple[Path, ...], path: Path) -> None:
  """Draws a ribbon for each setting against the questions that were solved."""
  rows = read_rows(files, BENCHMARK)
  settings = dict.fromkeys((row["simulations"], row["per_update"]) for row in rows)
  with panels(1, path) as (_, (axes,)):
    for simulations, per_update in settings:
      own = [r for r in rows if (r["simulations"], r["per_update"]) == (simulations, per_update)]
      at, ends = [row["solves"] for row in own], ("mean", "min", "max")
      mean, low, high = ([r[f"exploitability_{end}"] for r in own] for end in ends)
      (line,) = axes.plot(at, mean, "o-", markersize=3, label=f"PoG({simulations}, {per_update:g})")
      axes.fill_between(at, low, high, alpha=0.2, color=line.get_color())
    axes.set_yscale("log")
    axes.set(
      title=f"{rows[0]['preset']}: agents of several seeds, means, least and most",
      xlabel="public belief states solved in training",
      ylabel="exploitability",
    )
    axes.legend()


def main(
  preset: str = "pog_leduc",
  examples: int | None = None,
  settings: tuple[str, ...] = SETTINGS,
  stages: int = 4,
  seeds: int = 3,
  final_seeds: int = 10,
  draw: Path | None = None,
  lines: tuple[Path, ...] = (),
) -> None:
  """Trains, and measures before, at equal shares of the examples, and at the end.

  Args:
    preset: one whose searches grow trees.
    examples: as for train.py; the preset's by default.
    settings: of the searches, each SIMULATIONS,PER_UPDATE.
    stages: moments after the start.
    seeds: agents at each moment.
    final_seeds: agents at the last.
    draw: picture of `lines`; nothing is trained.
    lines: files of printed lines.
  """
  if draw:
    if not lines:
      raise SystemExit("--draw needs --lines")
    ribbons(lines, draw)
    return
  try:
    searches = [parse_setting(setting) for setting in settings]
  except ValueError as error:
    raise SystemExit(f"--settings: {error}") from None
  config = get_preset(preset)
  if examples:
    config = config.replace(examples=examples)
  if not config.grows:
    raise SystemExit(f"--preset {preset} must be one whose searches grow trees")
  devices.share_cores(config)
  devices.enable_cache()
  run = Run(config)
  measured = config.replace(eval_playthroughs=seeds, final_playthroughs=final_seeds)
  evaluators = [
    ChainEvaluator(
      measured, game=run.setup.game, ground=run.setup.table,
      search=make_search(config, evaluation=True, simulations=x, per_update=y),
    )
    for x, y in searches
  ]  # fmt: skip
  trained = 0.0
  for stage in range(stages + 1):
    until = round(config.num_steps * stage / stages)
    before, solved = int(run.state.step), 0
    began = time.perf_counter()
    while int(run.state.step) < until:
      solved += run.take(min(MOST_STEPS, until - int(run.state.step)))
    seconds = time.perf_counter() - began
    trained += seconds
    solved += (int(run.state.step) - before) * config.self_play.lanes
    params = jax.tree.map(lambda x: x.addressable_data(0), run.state.params)
    for evaluator in evaluators:
      timing.say(
        BENCHMARK,
        preset=preset,
        devices=run.setup.mesh.devices.size,
        solves=int(run.state.solves),
        training_seconds=round(trained, 1),
        searches_per_second=round(solved / seconds, 1),  # the first stage compiles, too
        **evaluator.measure(params, 0, final=stage == stages).row,
      )


if __name__ == "__main__":
  timing.command(main)
