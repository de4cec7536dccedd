"""Figures of exploitability against iterations, from the JSON lines that studies print."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Lines = dict[str, tuple[Sequence[int], Sequence[float]]]


def read_rows(files: Sequence[Path], *benchmarks: str) -> list[dict[str, Any]]:
  """Returns the lines of `benchmarks`; a command ends with a sentence if files hold none."""
  rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
  found = [row for row in rows if row["benchmark"] in benchmarks]
  if not found:
    raise SystemExit(f"--lines {[str(file) for file in files]} hold no {' or '.join(benchmarks)}")
  return found


def draw_lines(lines: Lines, path: Path, *, title: str, unit: str) -> None:
  """Draws one line for each name: exploitability in `unit` against iterations, both logarithmic.

  Raises:
    ImportError: matplotlib is not installed.
  """
  from matplotlib.figure import Figure

  figure = Figure(figsize=(7, 4.5), layout="constrained")
  axes = figure.add_subplot()
  for name, (iterations, values) in lines.items():
    axes.plot(iterations, values, "o-", markersize=3, label=name)
  axes.set_xscale("log", base=2)
  axes.set_yscale("log")
  axes.set_xlabel("iterations (one player's update each)")
  axes.set_ylabel(f"exploitability, {unit}")
  axes.set_title(title)
  axes.grid(True, which="both", alpha=0.3)
  axes.legend()
  path.parent.mkdir(parents=True, exist_ok=True)
  figure.savefig(path, dpi=100)
