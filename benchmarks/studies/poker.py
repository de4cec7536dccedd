"""Hold'em of the papers: ReBeL's Figure 5, endgames that were really played, and a range grid.

figure5   exploitability against iterations, turn endgame
libratus  real endgames, solved by the thesis's algorithms
grid      a range grid of the solved turn, as a picture
draw      --lines FILE ...: what figure5 or libratus printed
"""

import dataclasses
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tyro

import solvers
from benchmarks import timing
from benchmarks.figures import Lines, draw_lines, read_rows
from benchmarks.poker import Suits, make_tree, paper_turn, row
from benchmarks.studies import curves
from games.poker import LIBRATUS_ENDGAMES, Holdem, RiverEndgame, TurnEndgame, in_units
from rebel_jax.agents import range_grids
from solvers.algorithms.cfr import Algorithm

FIGURE_5 = ("linear_cfr", "linear_optimistic_fictitious_play", "linear_fictitious_play")
THESIS: dict[str, Algorithm] = {
  "CFR": solvers.vanilla_cfr(),
  "CFR+": solvers.cfr_plus(),
  "Linear CFR": solvers.linear_cfr(),
  "DCFR(1.5, 0, 2)": solvers.discounted_cfr(1.5, 0.0, 2.0),
  "DCFR(1.5, 0.5, 2)": solvers.discounted_cfr(1.5, 0.5, 2.0),
  "DCFR(1.5, -inf, 2)": solvers.discounted_cfr(1.5, float("-inf"), 2.0),
}


@dataclasses.dataclass(frozen=True)
class Options:
  """Solve the papers' hold'em."""

  part: tyro.conf.Positional[Literal["figure5", "libratus", "grid", "draw"]]
  """What to do."""
  bets: str = "teh"
  """Of figure5 and grid: teh, the paper's, or teh_one_bet, one bet or raise a round."""
  suits: Suits | None = None
  """Of figure5, whether suits that cannot make a flush are merged; None merges them for teh."""
  algorithms: tuple[str, ...] = ()
  """Of figure5 as they are called in solvers, of libratus by the thesis's names; none for all."""
  iterations: int | None = None
  """Updates of the longest solve; None for 1,024, of grid 512."""
  folder: Path | None = None
  """Of the endgames' files."""
  lines: tuple[Path, ...] = ()
  """What to draw."""
  images: Path = Path("docs/images")
  """Where pictures go."""


def trace(part: str, game: Holdem, tree, algorithms, last: int, **labels) -> None:
  """Solves `tree` by each of `algorithms` and prints their curves in all units."""
  at = curves.checkpoints(last)
  for name, algorithm in algorithms.items():
    start = time.perf_counter()
    values = curves.curve(tree, algorithm, at)
    units = [in_units(game, value) for value in values]
    figures: dict[str, Any] = labels | {"algorithm": name, "dtype": str(tree.dtype)}
    figures |= {"iterations": at, "seconds": timing.significant(time.perf_counter() - start, 3)}
    for unit in ("pot", "mbb"):
      figures[unit] = [timing.significant(getattr(u, unit)) for u in units]
    timing.say(row(part, **figures))


def figure5(options: Options) -> None:
  suits = options.suits or ("merged" if options.bets == "teh" else "apart")
  game, tree = paper_turn(options.bets, suits)
  names = options.algorithms or FIGURE_5
  algorithms = {name: timing.make_algorithm("algorithms", name) for name in names}
  labels = {"bets": options.bets, "suits": suits}
  trace("figure5", game, tree, algorithms, options.iterations or 1024, **labels)


def read_endgame(path: Path) -> tuple[Holdem, np.ndarray]:
  """Reads an endgame of Libratus, whose first player acts first: its game, and beliefs `[P, H]`."""
  fields: dict[str, list[str]] = {}
  for line in path.read_text().splitlines():
    words = line.split()
    if words:
      fields[words[0].lstrip("-")] = words[1:]
  kind = {"3": TurnEndgame, "4": RiverEndgame}[fields["round"][0]]
  game = kind(board=fields["board"][0], pot=int(fields["pot"][0]), bets=LIBRATUS_ENDGAMES)
  return game, game.beliefs(np.array(fields["reach"], float).reshape(2, -1))


def libratus(options: Options) -> None:
  if options.folder is None:
    raise SystemExit("--folder must name the folder that holds the endgames' files")
  names = options.algorithms or tuple(THESIS)
  algorithms = {name: timing.look_up("algorithms", name, THESIS) for name in names}
  for path in sorted(options.folder.glob("*.txt")):
    game, beliefs = read_endgame(path)
    tree = make_tree(game, beliefs)
    labels = {"endgame": path.stem, "board": game.deck.names(game.board)}
    trace("libratus", game, tree, algorithms, options.iterations or 1024, **labels)


def grid(options: Options) -> None:
  """Draws what player 0 does first on the paper's board."""
  iterations = options.iterations or 512
  game, tree = paper_turn(options.bets)
  solution = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=iterations)
  found = range_grids.range_grid(game, tree, solution.average_policy)
  path = options.images / "poker_range_grid.png"
  path.parent.mkdir(parents=True, exist_ok=True)
  title = "3♠ 7♥ T♦ K♠, 1,000 each in the pot, stacks 20,000: player 0 acts first"
  range_grids.plot_range_grid(found, path, title=title)
  summary = {move: timing.significant(float(x)) for move, x in zip(found.moves, found.summary)}
  timing.say(row("grid", bets=options.bets, iterations=iterations, summary=summary))


def draw(options: Options) -> None:
  """Draws what `trace` printed: a picture for each tree or endgame."""
  pictures: dict[tuple[str, str, str], Lines] = {}
  for line in read_rows(options.lines, "poker.figure5", "poker.libratus"):
    if line["benchmark"] == "poker.figure5":
      key = ("pot", f"figure5_{line['bets']}", "Turn endgame hold'em, 3♠7♥T♦K♠")
    else:
      title = f"Libratus's {line['endgame']}, board {line['board']}"
      key = ("mbb", f"libratus_{line['endgame']}", title)
    pictures.setdefault(key, {})[line["algorithm"]] = line["iterations"], line[key[0]]
  names = {"pot": "parts of the pot", "mbb": "mbb"}
  for (unit, name, title), lines in pictures.items():
    y = f"exploitability, {names[unit]}"
    draw_lines(lines, options.images / f"poker_{name}.png", title=title, y=y)


def main(options: Options) -> None:
  """Runs one part."""
  parts: dict[str, Any] = {"figure5": figure5, "libratus": libratus, "grid": grid, "draw": draw}
  parts[options.part](options)


if __name__ == "__main__":
  timing.command(main, Options)
