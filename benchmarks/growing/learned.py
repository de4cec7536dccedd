"""How exploitable agents are whose searches grow trees, while their network learns.

`python -m benchmarks.growing.learned` trains a preset and prints a JSON line for each of several
moments and settings of the searches: what an evaluation says of agents of several seeds, which is
exact exploitability where the game's public histories can be written out (Player of Games, figure
7a with `--preset pog_leduc`; 7b with `--preset pog_glasses`, on edges that are ours).
`--draw FILE.png --lines FILE...` draws such lines instead: means, and ribbons from the least to the
most.

A setting is simulations of a search, and simulations for each update of both players: `100,1`.
"""

import argparse
import sys
import time
from pathlib import Path

import jax

from benchmarks import timing
from benchmarks.figures import read_rows
from rebel_jax import flags
from rebel_jax.config.presets import get_preset
from rebel_jax.devices import compile_cache, cpu_devices
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.training.loop import MOST_STEPS, place
from rebel_jax.training.setup import make_search, make_setup
from solvers import GTCFR

BENCHMARK = "growing_learned"
SETTINGS = ("10,1", "10,0.1", "30,1", "100,1", "300,1")


def parse_setting(text: str) -> GTCFR:
  """Reads `SIMULATIONS,PER_UPDATE`."""
  simulations, per_update = text.split(",")
  return GTCFR(simulations=int(simulations), per_update=float(per_update))


def learn(options: argparse.Namespace) -> None:
  """Trains, and measures before, at equal shares of the examples, and at the end."""
  config = get_preset(options.preset)
  if options.examples:
    config = config.replace(examples=options.examples)
  if not config.grows:
    raise SystemExit(f"--preset {options.preset} must be one whose searches grow trees")
  cpu_devices.share_cores(config)
  compile_cache.enable()
  setup = make_setup(config)
  evaluators = []
  measured = config.replace(eval_playthroughs=options.seeds, final_playthroughs=options.final_seeds)
  for search in map(parse_setting, options.settings):
    asked = make_search(
      config, evaluation=True, simulations=search.simulations, per_update=search.per_update
    )
    made = ChainEvaluator(measured, game=setup.game, ground=setup.table, search=asked)
    evaluators.append(made)
  trainer, mesh = setup.trainer, setup.mesh
  state, table = trainer.init(setup.table, config.seed, mesh), place(setup.table, mesh)
  trained, most = 0.0, config.num_steps
  for stage in range(options.stages + 1):
    until = round(most * stage / options.stages)
    before = int(state.step), int(state.solves)
    began = time.perf_counter()
    while int(state.step) < until:
      state, _ = trainer.run(table, state, min(MOST_STEPS, until - int(state.step)), mesh)
    jax.block_until_ready(state)
    seconds = time.perf_counter() - began
    trained += seconds
    searches = (int(state.step) - before[0]) * config.self_play.lanes
    searches += int(state.solves) - before[1]
    params = jax.tree.map(lambda x: x.addressable_data(0), state.params)
    last = stage == options.stages
    for evaluator in evaluators:
      row = {
        "benchmark": BENCHMARK,
        **timing.environment(),
        "preset": options.preset,
        "devices": mesh.devices.size,
        "solves": int(state.solves),
        "training_seconds": round(trained, 1),
        "searches_per_second": round(searches / seconds, 1),  # the first stage compiles, too
        **evaluator.measure(params, 0, final=last).row,
      }
      timing.say(row)


def draw(files: list[Path], path: Path) -> None:
  """Draws a ribbon for each setting against the questions that were solved."""
  from matplotlib.figure import Figure

  rows = read_rows(files, BENCHMARK)
  figure = Figure(figsize=(7, 4.5), layout="constrained")
  axes = figure.add_subplot()
  settings = dict.fromkeys((row["simulations"], row["per_update"]) for row in rows)
  for simulations, per_update in settings:
    own = [r for r in rows if (r["simulations"], r["per_update"]) == (simulations, per_update)]
    at = [row["solves"] for row in own]
    mean, low, high = ([r[f"exploitability_{end}"] for r in own] for end in ("mean", "min", "max"))
    (line,) = axes.plot(at, mean, "o-", markersize=3, label=f"PoG({simulations}, {per_update:g})")
    axes.fill_between(at, low, high, alpha=0.2, color=line.get_color())
  axes.set_yscale("log")
  axes.set(
    title=f"{rows[0]['preset']}: agents of several seeds, means, least and most",
    xlabel="public belief states solved in training",
    ylabel="exploitability",
  )
  axes.grid(True, which="both", alpha=0.3)
  axes.legend()
  path.parent.mkdir(parents=True, exist_ok=True)
  figure.savefig(path, dpi=100)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--preset", default="pog_leduc")
  parser.add_argument("--examples", type=int, help="as for train.py; the preset's by default")
  parser.add_argument("--settings", nargs="+", default=SETTINGS, metavar="S,C")
  parser.add_argument("--stages", type=int, default=4, help="moments after the start")
  parser.add_argument("--seeds", type=int, default=3, help="agents at each moment")
  parser.add_argument("--final-seeds", type=int, default=10, help="at the last")
  parser.add_argument("--draw", type=Path, metavar="FILE.png")
  parser.add_argument("--lines", type=Path, nargs="+", metavar="FILE", help="with --draw")
  options = parser.parse_args()
  if options.draw:
    if not options.lines:
      parser.error("--draw needs --lines")
    draw(options.lines, options.draw)
    return
  try:
    for setting in options.settings:
      parse_setting(setting)
  except ValueError as error:
    parser.error(f"--settings: {error}")
  learn(options)


if __name__ == "__main__":
  sys.exit(flags.command(main))
