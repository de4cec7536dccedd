"""What each choice of the training recipe is worth: exploitability against time and examples.

`python -m benchmarks.learning` trains the preset and variants that differ from it in one setting,
each for the same time, and prints a JSON line for each evaluation. Time is processor time divided
by the number of cores, compilation and evaluation excluded, so that another program on the machine
disturbs the comparison less; `--clock wall` takes wall-clock time instead. The learning rate decays
over the whole time in every variant. `--figure FILE` draws the curves, those of earlier commands
too if `--lines` names files of what they printed.

Exploitability at few playthroughs scatters. `--error-states` adds a sharper judge for games small
enough to be solved: the root mean square error of the network's values at PBSs that are the same
for all variants, met by the network that comes with the package under the preset's name, in
self-play and at the leaves of its searches (see `benchmarks.value_error`). `--error-by search`
takes long searches with that network for their values, where solving games to the end takes too
long. `--learner-share` adds how much of the time gradient steps take: steps of self-play are timed
with and without them.
"""

import dataclasses
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import tyro

import rebel_jax
from benchmarks import value_error
from rebel_jax.config import Config
from rebel_jax.evaluation import Evaluator
from rebel_jax.presets import get_preset
from rebel_jax.setup import Setup, make_setup

# What the preset of 1x4f was before networks were deep and narrow.
_EARLIER: dict[str, Any] = {
  "optimizer": "adam",
  "learning_rate": 0.001,
  "batch_size": 256,
  "uses_per_example": 16.0,
  "belief_roots": 0,
  "level_values": False,
  "late_iterations": 0,
  "activation": "gelu",
  "hidden_layers": 2,
  "width": 256,
  "buffer_size": 65_536,
}
_MUON: dict[str, Any] = {
  "optimizer": "muon",
  "learning_rate": 0.02,
  "batch_size": 512,
  "uses_per_example": 8.0,
  "belief_roots": 2,
}
_ADAM_ROOTS: dict[str, Any] = {"optimizer": "adam", "learning_rate": 0.01, "belief_roots": 2}
_FEW_USES: dict[str, Any] = _ADAM_ROOTS | {"batch_size": 512, "uses_per_example": 4.0}
# What differs from the earlier recipe.
_FROM_EARLIER: dict[str, dict[str, Any]] = {
  "earlier recipe": {},
  "start not shared": {"share_start": False, "rows_fraction": 0.7},
  "uses 4": {"uses_per_example": 4.0},
  "iterations 128": {"iterations": 128},
  "iterations 32": {"iterations": 32},
  "linear cfr": {"algorithm": "linear_cfr"},
  "predictive cfr+": {"algorithm": "predictive_cfr_plus"},
  "values of average": {"values_of_average": True},
  "no layer norm": {"layer_norm": False},
  "adam 0.01": {"learning_rate": 0.01},
  "adam 0.01, roots": _ADAM_ROOTS,
  "adam 0.01, roots, uses 4": _FEW_USES,
  "adam 0.01, roots, uses 4, levelled": _FEW_USES | {"level_values": True},
  "adam 0.01, roots, uses 4, inner rows 1": _FEW_USES | {"inner_rows": 1},
  "muon, roots": _MUON,
  # More from each solve: rows of inner nodes, fewer updates by faster rules, recycled leaf values,
  # warm starts. A policy network learns from the inner nodes too, and costs as much as the other.
  "inner rows 1": _MUON | {"inner_rows": 1},
  "inner rows 2": _MUON | {"inner_rows": 2},
  "inner rows 4": _MUON | {"inner_rows": 4},
  "muon, linear cfr": _MUON | {"algorithm": "linear_cfr"},
  "muon, predictive cfr+": _MUON | {"algorithm": "predictive_cfr_plus"},
  "muon, iterations 32": _MUON | {"iterations": 32},
  "muon, values of average": _MUON | {"values_of_average": True},
  "muon, levelled": _MUON | {"level_values": True},
  "muon, levelled, iterations 32": _MUON | {"level_values": True, "iterations": 32},
  "inner rows 1, levelled": _MUON | {"inner_rows": 1, "level_values": True},
  "inner rows 1, values of average": _MUON | {"inner_rows": 1, "values_of_average": True},
  "muon, modified cfr-avg": _MUON | {"algorithm": "discounted_cfr_avg"},
  "muon, warm start": _MUON | {"policy_network": True, "iterations": 32},
  **{
    f"muon, levelled, relu, {layers} layers of {width}": _MUON
    | {"level_values": True, "activation": "relu", "hidden_layers": layers, "width": width}
    for layers, width in ((2, 256), (3, 128), (4, 128), (4, 96), (4, 64))
  },
  "bfloat16": {"precision": "bfloat16"},
  "bfloat16 activations": {"precision": "bfloat16_activations"},
  "tensorfloat32": {"precision": "tensorfloat32"},
  "modified cfr-avg": {"algorithm": "discounted_cfr_avg"},
  "control: random beliefs": {"random_beliefs": True, "share_start": False, "rows_fraction": 0.7},
}
# What differs from the preset. `controls` are expected to be worse.
VARIANTS: dict[str, dict[str, Any]] = {
  "recipe": {},
  "recipe, uses 8": {"uses_per_example": 8.0},
  "recipe, uses 2": {"uses_per_example": 2.0},
  "recipe, 4 layers of 64": {"width": 64},
  "recipe, 4 layers of 128": {"width": 128},
  "recipe, inner rows 1": {"inner_rows": 1},
  "recipe, iterations 32": {"iterations": 32},
  "recipe, iterations 128": {"iterations": 128},
  "recipe, linear cfr": {"algorithm": "linear_cfr"},
  "recipe, predictive cfr+": {"algorithm": "predictive_cfr_plus"},
  "recipe, modified cfr-avg": {"algorithm": "discounted_cfr_avg"},
  "recipe, warm start": {"policy_network": True, "iterations": 32},
  "recipe, start not shared": {"share_start": False, "rows_fraction": 0.7},
  "recipe, not levelled": {"level_values": False},
  "recipe, late 256": {"late_iterations": 256},
  "recipe, late 0": {"late_iterations": 0},
  **{name: _EARLIER | changes for name, changes in _FROM_EARLIER.items()},
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
  error_states: int = 0
  """PBSs of each place at which to measure the network's error; 0 for none."""
  error_by: Literal["solving", "search"] = "solving"
  """Whose values these are: those of games solved to the end, or of long searches."""
  learner_share: bool = False
  """Whether to measure how much of the time gradient steps take."""
  lines: tuple[Path, ...] = ()
  """Files of rows that earlier commands printed, to be drawn too."""
  figure: Path | None = None
  """Where to draw the curves."""


def clock(kind: str) -> float:
  """Returns seconds on the chosen clock."""
  if kind == "wall":
    return time.perf_counter()
  return time.process_time() / len(os.sched_getaffinity(0))


class Judge:
  """PBSs whose values are known, the same for all variants.

  `by` is `Options.error_by`.

  Raises:
    SystemExit: no network comes with the package under the preset's name.
  """

  def __init__(self, preset: str, states: int, by: str = "solving"):
    config = get_preset(preset)
    try:
      policy = rebel_jax.load(preset)
    except (ValueError, OSError) as error:
      raise SystemExit(
        f"error_states={states} needs a network called {preset!r}: {error}"
      ) from None
    setup = make_setup(dataclasses.replace(policy.config, num_devices=1))
    if (policy.config.game, policy.config.depth) != (config.game, config.depth):
      raise SystemExit(f"error_states={states}: the network {preset!r} is of other subgames")
    options = value_error.Options(preset, states=states)
    self.places = {}
    for place, (roots, beliefs) in value_error.sample_states(setup, policy.params, options).items():
      iterations = options.exact_iterations
      if by == "solving":
        known, _ = value_error.solve_exactly(setup, roots, beliefs, iterations)
      else:
        known = value_error.search_targets(setup, policy.params, roots, beliefs, iterations)
      self.places[place] = (roots, beliefs, known)

  def errors(self, setup: Setup, params: Any) -> dict[str, float]:
    """Returns a network's root mean square errors, of PBSs' values and infostates', by place."""
    found: dict[str, float] = {}
    for place, (roots, beliefs, known) in self.places.items():
      said = value_error.ask_network(setup, params, roots, beliefs)
      name = f"error_{place.replace('-', '_')}"
      both = value_error.rms(setup, roots, beliefs, said - known)
      found |= {name: both[0], f"{name}_infostates": both[1]}
    return found


def learner_share(setup: Setup, options: Options, chunks: int = 4) -> float:
  """Returns the share of a step's time that gradient steps take."""
  idle = dataclasses.replace(setup.trainer, min_examples=2**30)
  spent = {setup.trainer: 0.0, idle: 0.0}
  state = setup.trainer.init(setup.table, setup.config.seed, setup.mesh)
  for number in range(chunks + 1):
    for trainer in spent:  # in turn, so that what else the machine does falls on both
      start = clock(options.clock)
      state, _ = trainer.run(setup.table, state, setup.config.report_every, setup.mesh)
      jax.block_until_ready(state)
      if number:  # the first call compiles
        spent[trainer] += clock(options.clock) - start
  return round(1 - spent[idle] / spent[setup.trainer], 3)


def run_variant(
  options: Options, name: str, seed: int, judge: Judge | None = None
) -> Iterator[dict[str, Any]]:
  """Trains one variant and yields a row for each evaluation."""
  config = dataclasses.replace(
    get_preset(options.preset), seed=seed, num_devices=1, max_seconds=None, **VARIANTS[name]
  )
  config = dataclasses.replace(config, examples=estimate_examples(config, options))
  setup = make_setup(config)
  share = {"learner_share": learner_share(setup, options)} if options.learner_share else {}
  evaluator = Evaluator(config, game=setup.game, subgames=setup.subgames)
  state = setup.trainer.init(setup.table, seed, setup.mesh)
  state, _ = setup.trainer_at(0).run(setup.table, state, config.report_every, setup.mesh)
  jax.block_until_ready(state)
  spent, loss, compiled = 0.0, float("nan"), [setup.trainer_at(0)]
  for number in range(1, options.evaluations + 1):
    while spent < options.seconds * number / options.evaluations:
      trainer = setup.trainer_at(int(state.step))
      if trainer not in compiled:
        state, _ = trainer.run(setup.table, state, config.report_every, setup.mesh)
        jax.block_until_ready(state)
        compiled.append(trainer)
      start = clock(options.clock)
      state, report = trainer.run(setup.table, state, config.report_every, setup.mesh)
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
      **share,
      **(judge.errors(setup, state.params) if judge else {}),
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

  Timed on a few steps of self-play in the middle of play; late searches cost by their iterations.
  """
  setup = make_setup(config)
  state = setup.trainer.init(setup.table, config.seed, setup.mesh)
  for _ in range(3):
    state, _ = setup.trainer.run(setup.table, state, config.report_every, setup.mesh)
    jax.block_until_ready(state)
  before, start = int(state.solves), clock(options.clock)
  state, _ = setup.trainer.run(setup.table, state, config.report_every, setup.mesh)
  jax.block_until_ready(state)
  rate = 2 * (int(state.solves) - before) / (clock(options.clock) - start)
  late = 1 - config.late_step / config.num_steps
  cost = 1 - late + late * config.last_iterations / config.iterations
  return max(1, round(rate / cost * options.seconds))


# What a figure has a row of panels for, if all its lines know it.
_DRAWN = {"exploitability": "exploitability", "error_leaves": "rms error of PBSs at leaves"}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
  """Draws what was measured against seconds: a column a preset, a line a variant.

  Lines are means over seeds, which are dots; a lower row of panels has the errors of values.
  """
  from matplotlib.figure import Figure

  presets = list(dict.fromkeys(row["preset"] for row in rows))
  names = list(dict.fromkeys(row["variant"] for row in rows))
  fields = [field for field in _DRAWN if all(field in row for row in rows)]
  figure = Figure(figsize=(3 + 4.2 * len(presets), 1 + 3.5 * len(fields)), layout="constrained")
  panels = figure.subplots(len(fields), len(presets), squeeze=False)
  for (i, field), (j, preset) in itertools.product(enumerate(fields), enumerate(presets)):
    axes = panels[i, j]
    here = [row for row in rows if row["preset"] == preset]
    for number, name in enumerate(names):
      seeds: dict[int, list[dict[str, Any]]] = {}
      for row in here:
        if row["variant"] == name:
          seeds.setdefault(row["seed"], []).append(row)
      if not seeds:
        continue
      color = f"C{number % 10}"
      seconds, found = (
        np.array([[row[x] for row in line] for line in seeds.values()]) for x in ("seconds", field)
      )
      style = "-" if number < 10 else "--"
      axes.plot(seconds.mean(axis=0), found.mean(axis=0), style, color=color, label=name)
      axes.plot(seconds, found, ".", color=color, alpha=0.6)
    axes.set_yscale("log")
    axes.set_xlabel(f"seconds of training ({here[0]['clock']})")
    axes.set_ylabel(_DRAWN[field])
    if i == 0:
      axes.set_title(preset)
      axes.legend(fontsize=7)
  figure.savefig(path, dpi=110)


def main(options: Options) -> None:
  """Runs all variants."""
  for name in options.variants:
    if name not in VARIANTS:
      raise SystemExit(f"variants={name!r} is unknown; known: {', '.join(VARIANTS)}")
  rows = [json.loads(line) for path in options.lines for line in path.read_text().splitlines()]
  judge = None
  if options.error_states and options.variants:
    judge = Judge(options.preset, options.error_states, options.error_by)
  for name in options.variants:
    for seed in range(options.seeds):
      for row in run_variant(options, name, seed, judge):
        print(json.dumps(row), flush=True)
        rows.append(row)
  if options.figure is not None:
    draw(rows, options.figure)


if __name__ == "__main__":
  main(tyro.cli(Options))
