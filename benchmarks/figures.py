"""Figures of lines, mostly exploitability against iterations, and the JSON lines behind them."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rebel_jax.checkpoints.files import save_picture

# By name, where the points lie along both axes.
Lines = dict[str, tuple[list[int], list[float]]]
ITERATIONS = "iterations (one player's update each)"


def read_rows(files: Sequence[Path], *benchmarks: str) -> list[dict[str, Any]]:
  """Returns the lines of `benchmarks`; a command ends with a sentence if files hold none."""
  rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
  found = [x for x in rows if isinstance(x, dict) and x.get("benchmark") in benchmarks]
  if not found:
    raise SystemExit(f"--lines {[str(file) for file in files]} hold no {' or '.join(benchmarks)}")
  return found


@contextlib.contextmanager
def picture(path: Path, size: tuple[float, float] = (7, 4.5)) -> Iterator[Any]:
  """Yields axes to draw in, whose picture is then written.

  Raises:
    ImportError: matplotlib is not installed.
  """
  from matplotlib.figure import Figure

  figure = Figure(figsize=size, layout="constrained")
  axes = figure.add_subplot()
  yield axes
  axes.grid(True, which="both", alpha=0.3)
  save_picture(figure, path, dpi=100)


def draw_lines(
  lines: Lines, path: Path, *, title: str, y: str, x: str = ITERATIONS, yscale: str = "log"
) -> None:
  """Draws one line for each name: `y` against `x`, which is logarithmic."""
  with picture(path) as axes:
    for name, (at, values) in lines.items():
      axes.plot(at, values, "o-", markersize=3, label=name)
    axes.set_xscale("log", base=2)
    axes.set_yscale(yscale)
    if yscale == "linear":
      axes.set_ylim(bottom=0)
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.legend()
