"""The solvers of the family beside each other: exploitability curves, tables and figures.

A curve is one run that is scored on its way, repeated from priors that differ in the last bit;
lines hold the median, best and worst. The parts (docs/results/family.md):

- `tabular`: the algorithms of Table 2 and Figure 4, and others, on four sizes of Liar's Dice.
- `depth_limited`: CFR-D, both forms of CFR-AVG and fictitious play, exact leaf values (Figure 6).
- `discounts`: settings of discounted CFR.
- `rules`: regret rules since DCFR, each point a run of its own, since some know its length.
- `samplers`: Monte Carlo CFR beside OpenSpiel's, `--runs` seeds of both.
- `warm_start`: Linear CFR from policies of different worth (appendix J).
- `safe_search`: rock-paper-scissors under safe and unsafe search.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import tyro

from benchmarks import timing
from benchmarks.figures import panels
from benchmarks.studies import family_parts as parts

Part = Literal[
  "tabular", "depth_limited", "discounts", "rules", "samplers", "warm_start", "safe_search"
]
LIARS_DICE = ("liars_dice_1x4f", "liars_dice_1x5f", "liars_dice_1x6f", "liars_dice_2x3f")
DEFAULT_GAMES: dict[str, tuple[str, ...]] = {
  "tabular": LIARS_DICE,
  "depth_limited": ("liars_dice_1x3f", "liars_dice_1x4f", "leduc"),
  "discounts": ("kuhn", "leduc", "liars_dice_1x4f"),
  "rules": ("kuhn", "leduc", "liars_dice_1x4f", "liars_dice_1x5f", "liars_dice_2x3f"),
  "samplers": ("kuhn", "leduc"),
  "warm_start": ("leduc", "liars_dice_1x4f"),
  "safe_search": (),
}
# What the parts take beside iterations and runs.
TAKES: dict[str, tuple[str, ...]] = {
  "tabular": ("games", "algorithms", "precision"),
  "depth_limited": ("games", "algorithms", "precision", "iterations_below"),
  "discounts": ("games", "algorithms", "precision"),
  "rules": ("games", "algorithms", "precision"),
  "samplers": ("games", "algorithms", "precision"),
  "warm_start": ("games", "precision"),
  "safe_search": ("playthroughs",),
}
DEFAULT_ITERATIONS = {
  "tabular": 1024,
  "depth_limited": 512,
  "discounts": 4096,
  "rules": 4096,
  "samplers": 2000,
  "warm_start": 512,
  "safe_search": 1024,
}


def measure(
  part: Part,
  games: Sequence[str],
  algorithms: Sequence[str],
  iterations: int,
  runs: int,
  *,
  precision: str,
  iterations_below: int,
  playthroughs: int,
) -> Iterator[parts.Row]:
  """Yields the rows of the part."""
  if part == "safe_search":
    yield from parts.safe_search(playthroughs, iterations, runs)
    return
  with jax.enable_x64(precision == "float64"):
    if part == "depth_limited":
      yield from parts.depth_limited(
        choose(parts.DEPTH_LIMITED, algorithms), games, iterations, runs, iterations_below
      )
    elif part == "samplers":
      yield from parts.samplers(games, iterations, runs, algorithms)
    elif part == "warm_start":
      yield from parts.warm_start(games, iterations, runs)
    else:
      family = {"tabular": parts.TABULAR, "discounts": parts.DISCOUNTS, "rules": parts.RULES}[part]
      yield from parts.whole_games(part, choose(family, algorithms), games, iterations, runs)


def choose(family: parts.Family, labels: Sequence[str]) -> parts.Family:
  """Returns the algorithms of these labels, all if there are none."""
  return {label: timing.look_up("algorithms", label, family) for label in labels or family}


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


def as_table(rows: Sequence[dict[str, Any]], at: Sequence[int]) -> str:
  """Returns a Markdown table: a line for each algorithm, a column for each game and point."""
  # Medians, with the best and the worst run where these differ from it by more than 2 %.
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
  """Returns the subject of a row, other than its algorithm."""
  depth = f"depth {row['depth']}" if "depth" in row else ""
  x = "against playthroughs" if row["x"] == "playthroughs" else ""
  return ", ".join(part for part in (row["game"], depth, row.get("score"), x) if part)


def draw(rows: Sequence[dict[str, Any]], path: Path, *, columns: int = 2) -> None:
  """Draws the rows of one part: exploitability against iterations or playthroughs."""
  # Rows of one game, depth and score share a panel. A line is the median run and its band reaches
  # from the best to the worst; crosses are the paper's. Uniform weights are dashed.
  if not rows:
    raise ValueError("rows=[] hold nothing to draw")
  panes: dict[str, list[dict[str, Any]]] = {}
  for row in rows:
    panes.setdefault(_panel(row), []).append(row)
  names = list(dict.fromkeys(row["algorithm"].removesuffix(_UNIFORM) for row in rows))
  # Safe and unsafe search are in two panels, and only comparable on one scale.
  shared = rows[0]["part"] == "safe_search"
  how: dict[str, Any] = {"dpi": 80, "pil_kwargs": {"optimize": True}, "sharey": shared}
  with panels(len(panes), path, columns=columns, size=(4.8, 3.8), **how) as (figure, grid):
    labelled: dict[str, Any] = {}
    for axes, (title, panel) in zip(grid, panes.items()):
      x = panel[0]["x"]
      for row in panel:
        name = row["algorithm"]
        base = name.removesuffix(_UNIFORM)
        color, style = f"C{names.index(base)}", "-" if name == base else "--"
        (line,) = axes.plot(row[x], row["exploitability"], style, color=color, linewidth=1.4)
        labelled.setdefault(name, line)
        axes.fill_between(row[x], row["low"], row["high"], color=color, alpha=0.2, linewidth=0)
        paper = TABLE_2.get(row["game"], {}).get(name)
        if paper is not None and row["part"] == "tabular":
          axes.plot([1024], [paper], "x", color=color, markersize=8, markeredgewidth=2)
      axes.set_xscale("log", base=4 if x == "playthroughs" else 2)
      axes.set(yscale="log", xlabel=_LABELS[x], ylabel="exploitability")
      axes.set_title(title, fontsize=10)
    ncols = 3 * min(columns, len(panes)) // 2
    figure.legend(labelled.values(), labelled, loc="outside lower center", ncols=ncols, fontsize=8)


def main(
  part: tyro.conf.Positional[Part],
  games: tuple[str, ...] = (),
  algorithms: tuple[str, ...] = (),
  iterations: int | None = None,
  runs: int | None = None,
  precision: Literal["float64", "float32"] | None = None,
  iterations_below: int | None = None,
  playthroughs: int | None = None,
  figure: Path | None = None,
  rows: Path | None = None,
  table: tuple[int, ...] = (),
) -> None:
  """Compare the solvers of the family.

  Args:
    part: What to measure.
    games: Short names of the games; those of the part's page if none.
    algorithms: Labels of the algorithms, all if none.
    iterations: Updates of a curve's longest solve, one player's being one; the page's if not given.
    runs: Runs of each curve, all but the first from a prior with other last bits; None for 5.
    precision: None for float64; safe_search is always in float32.
    iterations_below: Updates of the solver that values leaves (depth_limited); None for 64.
    playthroughs: The most playthroughs that are averaged (safe_search); None for 4,096.
    figure: Where to draw the curves.
    rows: Read these JSON lines, printed before, and measure nothing.
    table: Iterations, or playthroughs, to print as a Markdown table of the curves.
  """
  measured: list[dict[str, Any]] = []
  given = timing.given(
    part, () if rows else ("iterations", "runs", *TAKES[part]), games=games, algorithms=algorithms,
    iterations=iterations, runs=runs, precision=precision, iterations_below=iterations_below,
    playthroughs=playthroughs,
  )  # fmt: skip
  if rows is not None:
    read = [json.loads(line) for line in rows.read_text().splitlines()]
    measured = [row for row in read if row["part"] == part]
  else:
    settings: dict[str, Any] = {
      "games": DEFAULT_GAMES[part], "algorithms": (), "iterations": DEFAULT_ITERATIONS[part],
      "runs": 5, "precision": "float64", "iterations_below": 64, "playthroughs": 4096,
    }  # fmt: skip
    for row in measure(part, **settings | given):
      timing.say("family", **row)
      measured.append(row)
  if table:
    print(as_table(measured, table))
  if figure is not None:
    draw(measured, figure, columns=3 if part == "discounts" else 2)


if __name__ == "__main__":
  timing.command(main)
