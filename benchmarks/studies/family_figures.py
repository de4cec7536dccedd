"""Tables and figures of `benchmarks.studies.family`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rebel_jax.checkpoints.files import save_picture

# ReBeL, Table 2, the full-game rows: exploitability after 1,024 iterations.
TABLE_2 = {
  "liars_dice_1x4f": {"linear FP": 0.012, "Linear CFR": 0.001},
  "liars_dice_1x5f": {"linear FP": 0.024, "Linear CFR": 0.001},
  "liars_dice_1x6f": {"linear FP": 0.039, "Linear CFR": 0.002},
  "liars_dice_2x3f": {"linear FP": 0.057, "Linear CFR": 0.002},
}
_UNIFORM = ", uniform"
_LABELS = {
  "iterations": "iterations (updates of one player)",
  "playthroughs": "playthroughs",
}


def table(rows: Sequence[dict[str, Any]], at: Sequence[int]) -> str:
  """Returns a Markdown table: a line for each algorithm, a column for each game and point.

  Medians, with the best and the worst run where these differ from it by more than 2 %. Points
  that a curve does not have are left out.
  """
  keys = list(dict.fromkeys((_panel(row), i) for row in rows for i in at))
  cells: dict[str, dict[Any, str]] = {}
  for row in rows:
    line = cells.setdefault(row["algorithm"], {})
    for i, median, low, high in zip(row[row["x"]], row["exploitability"], row["low"], row["high"]):
      text = f"{median:.3g}"
      if low < 0.98 * median or high > 1.02 * median:
        text += f" ({low:.2g} – {high:.2g})"
      line[_panel(row), i] = text
  keys = [key for key in keys if any(key in line for line in cells.values())]
  head = [f"{panel}, {i}" for panel, i in keys]
  lines = [["algorithm", *head], ["---"] * (len(keys) + 1)]
  lines += [[name, *(line.get(key, "") for key in keys)] for name, line in cells.items()]
  return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _panel(row: dict[str, Any]) -> str:
  """Returns what the row is about, other than its algorithm."""
  depth = f"depth {row['depth']}" if "depth" in row else ""
  x = "against playthroughs" if row["x"] == "playthroughs" else ""
  return ", ".join(part for part in (row["game"], depth, row.get("score"), x) if part)


def draw(rows: Sequence[dict[str, Any]], path: Path, *, columns: int = 2) -> None:
  """Draws the rows of one part: exploitability against iterations or playthroughs.

  Rows of one game, depth and score share a panel. A line
  is the median run and its band reaches from the best to the worst; crosses are the paper's.
  Algorithms with uniform weights are dashed in the colour of the linear ones.

  Raises:
    ImportError: matplotlib is not installed.
    ValueError: there are no rows.
  """
  from matplotlib.figure import Figure

  if not rows:
    raise ValueError("rows=[] hold nothing to draw")
  panels: dict[str, list[dict[str, Any]]] = {}
  for row in rows:
    panels.setdefault(_panel(row), []).append(row)
  columns = min(columns, len(panels))
  height = -(-len(panels) // columns)
  figure = Figure(figsize=(4.8 * columns, 3.6 * height + 0.6), layout="constrained")
  # Safe and unsafe search are in two panels, and only comparable on one scale.
  shared = rows[0]["part"] == "safe_search"
  grid = figure.subplots(height, columns, squeeze=False, sharey=shared).ravel()
  names = list(dict.fromkeys(row["algorithm"].removesuffix(_UNIFORM) for row in rows))
  for axes, (title, panel) in zip(grid, panels.items()):
    x = panel[0]["x"]
    for row in panel:
      name = row["algorithm"]
      base = name.removesuffix(_UNIFORM)
      color, style = f"C{names.index(base)}", "-" if name == base else "--"
      axes.plot(row[x], row["exploitability"], style, color=color, label=name, linewidth=1.4)
      axes.fill_between(row[x], row["low"], row["high"], color=color, alpha=0.2, linewidth=0)
      paper = TABLE_2.get(row["game"], {}).get(name)
      if paper is not None and row["part"] == "tabular":
        axes.plot([1024], [paper], "x", color=color, markersize=8, markeredgewidth=2)
    axes.set_xscale("log", base=4 if x == "playthroughs" else 2)
    axes.set_yscale("log")
    axes.set_xlabel(_LABELS[x])
    axes.set_ylabel("exploitability")
    axes.set_title(title, fontsize=10)
    axes.grid(True, alpha=0.3)
  for axes in grid[len(panels) :]:
    axes.set_visible(False)
  labelled: dict[str, Any] = {}
  for axes in grid[: len(panels)]:
    for line, label in zip(*axes.get_legend_handles_labels()):
      labelled.setdefault(label, line)
  lines, labels = list(labelled.values()), list(labelled)
  figure.legend(lines, labels, loc="outside lower center", ncols=3 * columns // 2, fontsize=8)
  save_picture(figure, path, dpi=80, pil_kwargs={"optimize": True})
