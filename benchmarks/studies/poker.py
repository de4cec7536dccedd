"""Hold'em of the papers: ReBeL's Figure 5, endgames that were really played, and a range grid.

figure5   exploitability against iterations, turn endgame
libratus  real endgames, solved by the thesis's algorithms
grid      a range grid of the solved turn, as a picture
draw      --lines FILE ...: what figure5 or libratus printed
"""

import functools
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

IMAGES = Path("docs/images")
FIGURE_5 = ("linear_cfr", "linear_optimistic_fictitious_play", "linear_fictitious_play")
THESIS: dict[str, solvers.Algorithm] = {
  "CFR": solvers.vanilla_cfr(),
  "CFR+": solvers.cfr_plus(),
  "Linear CFR": solvers.linear_cfr(),
  "DCFR(1.5, 0, 2)": solvers.discounted_cfr(1.5, 0.0, 2.0),
  "DCFR(1.5, 0.5, 2)": solvers.discounted_cfr(1.5, 0.5, 2.0),
  "DCFR(1.5, -inf, 2)": solvers.discounted_cfr(1.5, float("-inf"), 2.0),
}


def trace(part: str, game: Holdem, tree, algorithms, last: int, **labels) -> None:
  """Solves `tree` by each of `algorithms` and prints their curves in all units."""
  at = curves.checkpoints(last)
  for name, algorithm in algorithms.items():
    values, seconds, _ = timing.timed(functools.partial(curves.curve, tree, algorithm, at))
    units = [in_units(game, value) for value in values]
    figures: dict[str, Any] = labels | {"algorithm": name, "dtype": str(tree.dtype)}
    figures |= {"iterations": at, "seconds": timing.significant(seconds, 3)}
    figures |= {x: [timing.significant(getattr(u, x)) for u in units] for x in ("pot", "mbb")}
    timing.say(**row(part, **figures))


def figure5(
  bets: str = "teh",
  suits: Suits | None = None,
  algorithms: tuple[str, ...] = FIGURE_5,
  iterations: int = 1_024,
) -> None:
  """Prints curves of algorithms of `solvers` on the paper's board."""
  suits = suits or ("merged" if bets == "teh" else "apart")
  game, tree = paper_turn(bets, suits)
  made = {name: solvers.make_algorithm(name, "algorithms") for name in algorithms}
  labels = {"bets": bets, "suits": suits}
  trace("figure5", game, tree, made, iterations, **labels)


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


def libratus(
  folder: Path | None = None, algorithms: tuple[str, ...] = tuple(THESIS), iterations: int = 1_024
) -> None:
  """Prints curves of the thesis's algorithms on the endgames of a folder."""
  if folder is None:
    raise SystemExit("--folder must name the folder that holds the endgames' files")
  made = {name: timing.look_up("algorithms", name, THESIS) for name in algorithms}
  for path in sorted(folder.glob("*.txt")):
    game, beliefs = read_endgame(path)
    labels = {"endgame": path.stem, "board": game.deck.names(game.board)}
    trace("libratus", game, make_tree(game, beliefs), made, iterations, **labels)


def grid(bets: str = "teh", iterations: int = 512, images: Path = IMAGES) -> None:
  """Draws what player 0 does first on the paper's board."""
  game, tree = paper_turn(bets)
  policy = timing.average_policy(tree, solvers.linear_cfr(), iterations)
  found = range_grids.range_grid(game, tree, policy)
  images.mkdir(parents=True, exist_ok=True)
  title = "3♠ 7♥ T♦ K♠, 1,000 each in the pot, stacks 20,000: player 0 acts first"
  range_grids.plot_range_grid(found, images / "poker_range_grid.png", title=title)
  summary = {move: timing.significant(float(x)) for move, x in zip(found.moves, found.summary)}
  timing.say(**row("grid", bets=bets, iterations=iterations, summary=summary))


def draw(lines: tuple[Path, ...] = (), images: Path = IMAGES) -> None:
  """Draws what `trace` printed: a picture for each tree or endgame."""
  pictures: dict[tuple[str, str, str], Lines] = {}
  for line in read_rows(lines, "poker.figure5", "poker.libratus"):
    if line["benchmark"] == "poker.figure5":
      key = ("pot", f"figure5_{line['bets']}", "Turn endgame hold'em, 3♠7♥T♦K♠")
    else:
      title = f"Libratus's {line['endgame']}, board {line['board']}"
      key = ("mbb", f"libratus_{line['endgame']}", title)
    pictures.setdefault(key, {})[line["algorithm"]] = line["iterations"], line[key[0]]
  names = {"pot": "parts of the pot", "mbb": "mbb"}
  for (unit, name, title), drawn in pictures.items():
    y = f"exploitability, {names[unit]}"
    draw_lines(drawn, images / f"poker_{name}.png", title=title, y=y)


def main(
  part: tyro.conf.Positional[Literal["figure5", "libratus", "grid", "draw"]],
  bets: str | None = None,
  suits: Suits | None = None,
  algorithms: tuple[str, ...] = (),
  iterations: int | None = None,
  folder: Path | None = None,
  lines: tuple[Path, ...] = (),
  images: Path | None = None,
) -> None:
  """Solve the papers' hold'em.

  Args:
    part: What to do.
    bets: Of figure5 and grid: teh, the paper's, or teh_one_bet, one bet or raise a round; None for
      teh.
    suits: Of figure5, whether suits that cannot make a flush are merged; None merges them for teh.
    algorithms: Of figure5 as they are called in solvers, of libratus by the thesis's names; none
      for all.
    iterations: Updates of the longest solve; None for 1,024, of grid 512.
    folder: Of the endgames' files.
    lines: What to draw.
    images: Where pictures go; None for docs/images.
  """
  parts: dict[str, Any] = {"figure5": figure5, "libratus": libratus, "grid": grid, "draw": draw}
  timing.run_part(
    parts, part, bets=bets, suits=suits, algorithms=algorithms, iterations=iterations,
    folder=folder, lines=lines, images=images,
  )  # fmt: skip


if __name__ == "__main__":
  timing.command(main)
