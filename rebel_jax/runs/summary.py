"""What a run comes to: the table at its end, and exploitability over time as a figure."""

import shlex
from pathlib import Path
from typing import Any

from rebel_jax.checkpoints.checkpoint import checkpoints_of
from rebel_jax.config.config import Config
from rebel_jax.config.presets import paper_exploitability
from rebel_jax.evaluation.measurement import Measurement

Rows = list[tuple[str, str]]


def summary(
  config: Config, folder: Path, rows: list[dict[str, Any]], last: dict[str, Any], seconds: float
) -> Rows:
  """Returns names and values for a person to read.

  Args:
    config, folder: of the run.
    rows: its metrics, as far as this process has them.
    last: the last of them.
    seconds: wall clock of the whole run.
  """
  return [
    *_training(rows, last, seconds),
    *_exploitability(config, rows, last),
    ("folder", str(folder)),
    ("checkpoint", str(checkpoints_of(folder)[-1])),
    ("measure it again", f"python -m rebel_jax.evaluate {shlex.quote(str(folder))}"),
    ("train longer", f"{resume_command(folder)} --examples {2 * config.self_play.examples}"),
  ]


def plan_text(config: Config, subgames: int | None) -> str:
  """Returns what a run will do, in a line."""
  lanes = f"{config.self_play.lanes} lanes"
  where, searches = config.search.describe(subgames)
  return f"{where}, {lanes}, {searches}"


def resume_command(folder: Path) -> str:
  """Returns the command that goes on with a run."""
  return f"python train.py --resume --output-dir {shlex.quote(str(folder))}"


def _training(rows: list[dict[str, Any]], last: dict[str, Any], seconds: float) -> Rows:
  shown = [
    ("examples", f"{last['examples']:,} from {last['solves']:,} subgames"),
    ("time", f"{seconds:.0f} s"),
  ]
  # The first chunk's rate is mostly compilation.
  rates = [row["examples_per_second"] for row in rows[1:] or rows]
  if rates:
    shown.append(("rate", f"{sorted(rates)[len(rates) // 2]:,.0f} examples a second (median)"))
  shown.append(("gradient steps", f"{last['gradient_steps']:,}"))
  if last["loss"] is not None:
    held_out = last.get("value_error", last.get("value_policy_error"))
    error = f"{held_out:.5f} on examples not yet trained on"
    shown.append(("loss", f"{last['loss']:.5f} in training, {error}"))
    shown.append(("gradient norm", f"{last['gradient_norm']:.3g}"))
  age = f"{last['buffer_examples']:,} examples, {last['buffer_age']:,.0f} steps old on average"
  shown.append(("buffer", age))
  if last["device_memory_bytes"] is not None:
    shown.append(("device memory", f"{last['device_memory_bytes'] / 2**20:,.0f} MiB"))
  return shown


def _exploitability(config: Config, rows: list[dict[str, Any]], last: dict[str, Any]) -> Rows:
  shown, measured = [], Measurement(last)
  if measured.exploitability is not None:
    shown.append(("exploitability", f"{measured.exploitability:.4f} ({measured.conditions})"))
  if "not_lost_mean" in last:
    shown.append(("not lost", f"{last['not_lost_mean']:.2%} of games against exact play"))
  if "score_mean" in last:
    shown.append(("played", f"{measured.sentence} ({measured.conditions})"))
  if "hands" in last:
    shown += [("won a hand", x) for x in measured.won] + [("", f"({measured.conditions})")]
  average = last.get("exploitability_average_policy")
  if average is not None:
    shown.append(("average policy", f"{average:.4f} (unsafe search, {last['iterations']:,})"))
  lowest = [(x, row["step"]) for row in rows if (x := Measurement(row)).exploitability is not None]
  if lowest:
    best, step = min(lowest, key=lambda item: item[0].exploitability or 0.0)
    shown.append(("lowest", f"{best.exploitability:.4f} at step {step} ({best.conditions})"))
  paper = paper_exploitability(config)
  if paper is not None:
    shown.append(("paper, Table 2", f"{paper:g} (1,024 playthroughs, 1,024 iterations)"))
  return shown


def plot_exploitability(
  rows: list[dict[str, Any]], path: str | Path, *, title: str, paper: float | None = None
) -> bool:
  """Draws exploitability against seconds and writes it to `path`.

  Args:
    rows: of `metrics.jsonl`; those without an exploitability are left out.
    path, title: of the image.
    paper: the paper's number, drawn as a line.

  Returns:
    Whether there was something to draw.

  Raises:
    ImportError: matplotlib is not installed.
  """
  from matplotlib.figure import Figure

  figure = Figure(figsize=(7, 4.5), layout="constrained")
  axes = figure.add_subplot()
  measures = (
    ("exploitability", "sampled playthroughs", "o-"),
    ("exploitability_average_policy", "average policy (unsafe search)", "s:"),
    ("exploitability_mean", "mean of agents of several seeds", "o-"),
  )
  drawn = False
  for key, label, style in measures:
    points = [(r["seconds"], r[key]) for r in rows if r.get(key) is not None and r[key] > 0]
    if points:
      drawn = True
      axes.plot(*zip(*points), style, label=label, markersize=4)
  if not drawn:
    return False
  ribbon = [row for row in rows if row.get("exploitability_mean") is not None]
  if ribbon:
    low, high = ([row[f"exploitability_{end}"] for row in ribbon] for end in ("min", "max"))
    axes.fill_between([row["seconds"] for row in ribbon], low, high, alpha=0.3)
  if paper is not None:
    axes.axhline(paper, color="gray", linestyle="--", label=f"ReBeL paper, Table 2: {paper:g}")
  axes.set_yscale("log")
  axes.set_xlabel("seconds since the start, compilation included")
  axes.set_ylabel("exploitability")
  axes.set_title(title)
  axes.grid(True, which="both", alpha=0.3)
  axes.legend()
  figure.savefig(path, dpi=120)
  return True
