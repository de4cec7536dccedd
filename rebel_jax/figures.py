"""The figure of a run: exploitability over wall-clock time."""

from pathlib import Path
from typing import Any


def plot_exploitability(
  rows: list[dict[str, Any]], path: str | Path, *, title: str, paper: float | None = None
) -> bool:
  """Draws exploitability against seconds and writes it to `path`.

  Args:
    rows: of `metrics.jsonl`; those without an exploitability are left out.
    path: of the image.
    title: of the figure.
    paper: the paper's number, drawn as a line.

  Returns:
    Whether there was something to draw.

  Raises:
    ImportError: matplotlib is not installed.
  """
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  figure = Figure(figsize=(7, 4.5), layout="constrained")
  FigureCanvasAgg(figure)
  axes = figure.add_subplot()
  measures = (
    ("exploitability", "sampled playthroughs", "o-"),
    ("exploitability_average_policy", "average policy (unsafe search)", "s:"),
  )
  drawn = False
  for key, label, style in measures:
    points = [(r["seconds"], r[key]) for r in rows if r.get(key) is not None and r[key] > 0]
    if points:
      drawn = True
      axes.plot(*zip(*points), style, label=label, markersize=4)
  if not drawn:
    return False
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
