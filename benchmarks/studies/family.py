"""The solvers of the family beside each other: exploitability curves, tables and figures.

`python -m benchmarks.studies.family PART` prints a JSON line for each curve of a part, `--figure
FILE` draws them, and `--table` prints some of their points. A curve is one run that is scored on
its way, repeated from priors that differ in the last bit (`curves.jittered_priors`); the lines
hold the median, best and worst of the runs.

`docs/results/family.md` shows what is seen. The parts:

- `tabular`: the algorithms of Table 2 and Figure 4, and others, on four sizes of Liar's Dice.
- `depth_limited`: CFR-D, both forms of CFR-AVG and fictitious play with exact leaf values, as in
  the left half of Figure 6.
- `discounts`: settings of discounted CFR.
- `rules`: regret rules since DCFR, each point a run of its own, since some know its length.
- `warm_start`: Linear CFR from policies of different worth (appendix J).
- `safe_search`: rock-paper-scissors under safe and unsafe search.
"""

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import jax
import tyro

from benchmarks import timing
from benchmarks.studies import family_parts as parts
from benchmarks.studies.family_figures import draw, table
from solvers.algorithms.cfr import Algorithm

Part = Literal["tabular", "depth_limited", "discounts", "rules", "warm_start", "safe_search"]
LIARS_DICE = ("liars_dice_1x4f", "liars_dice_1x5f", "liars_dice_1x6f", "liars_dice_2x3f")
DEFAULT_GAMES: dict[str, tuple[str, ...]] = {
  "tabular": LIARS_DICE,
  "depth_limited": ("liars_dice_1x3f", "liars_dice_1x4f", "leduc"),
  "discounts": ("kuhn", "leduc", "liars_dice_1x4f"),
  "rules": ("kuhn", "leduc", "liars_dice_1x4f", "liars_dice_1x5f", "liars_dice_2x3f"),
  "warm_start": ("leduc", "liars_dice_1x4f"),
  "safe_search": (),
}
DEFAULT_ITERATIONS = {
  "tabular": 1024,
  "depth_limited": 512,
  "discounts": 4096,
  "rules": 4096,
  "warm_start": 512,
  "safe_search": 1024,
}


@dataclasses.dataclass(frozen=True)
class Options:
  """Compare the solvers of the family."""

  part: tyro.conf.Positional[Part]
  """What to measure."""
  games: tuple[str, ...] = ()
  """Short names of the games; those of the part's page if none."""
  algorithms: tuple[str, ...] = ()
  """Labels of the algorithms, all if none (tabular, depth_limited, discounts, rules)."""
  iterations: int | None = None
  """Updates of a curve's longest solve, one player's being one; the page's if not given."""
  runs: int = 5
  """Runs of each curve, all but the first from a prior with other last bits."""
  precision: Literal["float64", "float32"] = "float64"
  """Of the whole-game and depth-limited parts; safe_search is always in float32."""
  iterations_below: int = 64
  """Updates of the solver that values leaves (depth_limited)."""
  playthroughs: int = 4096
  """The most playthroughs that are averaged (safe_search)."""
  figure: Path | None = None
  """Where to draw the curves."""
  rows: Path | None = None
  """Read these JSON lines, printed before, and measure nothing."""
  table: tuple[int, ...] = ()
  """Iterations, or playthroughs, to print as a Markdown table of the curves."""


def measure(options: Options) -> Iterator[parts.Row]:
  """Yields the rows of the part."""
  part, runs = options.part, options.runs
  names = options.games or DEFAULT_GAMES[part]
  iterations = options.iterations or DEFAULT_ITERATIONS[part]
  if part == "safe_search":
    yield from parts.safe_search(options.playthroughs, iterations, runs)
    return
  with jax.enable_x64(options.precision == "float64"):
    if part == "depth_limited":
      algorithms = choose(parts.DEPTH_LIMITED, options.algorithms)
      yield from parts.depth_limited(algorithms, names, iterations, runs, options.iterations_below)
    elif part == "warm_start":
      yield from parts.warm_start(names, iterations, runs)
    else:
      family = {"tabular": parts.TABULAR, "discounts": parts.DISCOUNTS, "rules": parts.RULES}
      algorithms = choose(family[part], options.algorithms)
      yield from parts.whole_games(part, algorithms, names, iterations, runs)


def choose(family: dict[str, Algorithm], labels: Sequence[str]) -> dict[str, Algorithm]:
  """Returns the algorithms of these labels, all if there are none."""
  return {label: timing.look_up("algorithms", label, family) for label in labels or family}


def main(options: Options) -> None:
  """Measures a part, or reads what was measured, and draws it."""
  if options.rows is not None:
    rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    rows = [row for row in rows if row["part"] == options.part]
  else:
    rows = []
    for row in measure(options):
      timing.say(row)
      rows.append(row)
  if options.table:
    print(table(rows, options.table))
  if options.figure is not None:
    draw(rows, options.figure, columns=3 if options.part == "discounts" else 2)


if __name__ == "__main__":
  timing.command(main, Options)
