"""Figures of lines, mostly exploitability against iterations, and the JSON lines behind them.

The command draws exploitability against seconds for runs of `train.py`, a panel for each game.
"""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tyro

from benchmarks import timing
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.files import save_picture
from rebel_jax.config.config import DeepCFR
from rebel_jax.evaluation.measurement import Measurement

# By name, where the points lie along both axes.
Lines = dict[str, tuple[list[int], list[float]]]
KINDS = "ReBeL", "Deep CFR", "PoG"  # of runs, by colour
ITERATIONS = "iterations (one player's update each)"


def read_rows(files: Sequence[Path], *benchmarks: str) -> list[dict[str, Any]]:
  """Returns the lines of `benchmarks`; a command ends with a sentence if files hold none."""
  rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
  found = [x for x in rows if isinstance(x, dict) and x.get("benchmark") in benchmarks]
  if not found:
    raise SystemExit(f"--lines {[str(file) for file in files]} hold no {' or '.join(benchmarks)}")
  return found


@contextlib.contextmanager
def panels(
  number: int, path: Path, *, columns: int | None = None, size: tuple[float, float] = (7, 4.5),
  sharey: bool = False, **save: Any,
) -> Iterator[tuple[Any, Any]]:  # fmt: skip
  """Yields a figure and so many axes of a size, whose picture is then written."""
  from matplotlib.figure import Figure

  columns = min(columns or number, number)
  rows = -(-number // columns)
  figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
  grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey).ravel()
  yield figure, grid[:number]
  for axes in grid:
    axes.grid(True, which="both", alpha=0.3)
  for axes in grid[number:]:
    axes.set_visible(False)
  save_picture(figure, path, **{"dpi": 100} | save)


def draw_lines(
  lines: Lines, path: Path, *, title: str, y: str, x: str = ITERATIONS, yscale: str = "log"
) -> None:
  """Draws one line for each name: `y` against `x`, which is logarithmic."""
  with panels(1, path) as (_, (axes,)):
    for name, (at, values) in lines.items():
      axes.plot(at, values, "o-", markersize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale(yscale)
    if yscale == "linear":
      axes.set_ylim(bottom=0)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.legend()


def main(runs: tyro.conf.Positional[tuple[Path, ...]], figure: Path) -> None:
  """Draws exploitability against seconds of runs.

  Args:
    runs: folders.
    figure: the picture to write.
  """
  panes: dict[str, list[tuple[int, Any]]] = {}
  for run in runs:
    config = checkpoint.load(str(run)).config
    title = " ".join([config.game, *(f"{x}={y}" for x, y in dict(config.game_params).items())])
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    points = [(row["seconds"], Measurement(row).exploitability) for row in rows]
    kind = 2 if config.grows else int(isinstance(config.search, DeepCFR))
    panes.setdefault(title, []).append((kind, [x for x in points if x[1] is not None]))
  with panels(len(panes), figure, size=(4, 3.6)) as (_, grid):
    for axes, (title, lines) in zip(grid, panes.items()):
      for kind, points in lines:
        axes.plot(*zip(*points), f"C{kind}o-", markersize=3)
      axes.set(title=title, xlabel="seconds", ylabel="exploitability", yscale="log")
      named = {KINDS[kind]: line for (kind, _), line in zip(lines, axes.lines)}
      axes.legend(named.values(), named)


if __name__ == "__main__":
  timing.command(main)
