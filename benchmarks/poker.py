"""Solves poker: turn endgame hold'em, batches of rivers, and endgames that were really played.

  python -m benchmarks.poker update      time of one player's update of turn endgame hold'em
  python -m benchmarks.poker figure5     ReBeL's Figure 5: exploitability against iterations
  python -m benchmarks.poker rivers      river subgames of random boards, pots and beliefs, batched
  python -m benchmarks.poker libratus    real endgames, solved by the thesis's algorithms
  python -m benchmarks.poker grid        a range grid of the solved turn, as a picture
  python -m benchmarks.poker draw --lines FILE ...    the curves that figure5 or libratus printed

An iteration is one player's update. Prints JSON lines; pictures go into `--images`. With `--suits
merged` hands that suits cannot tell apart are one infostate (`games.poker.MergedSuits`).
"""

import argparse
import dataclasses
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import games
import solvers
from benchmarks import curves, timing
from games.poker import (
  LIBRATUS_ENDGAMES,
  TEH,
  BetSizes,
  Deck,
  Holdem,
  MergedSuits,
  RiverEndgame,
  TurnEndgame,
  in_units,
)
from rebel_jax import range_grids

_ONE_BET = dataclasses.replace(TEH, max_raises=1)
BETS = {"teh": TEH, "teh_one_bet": _ONE_BET}
SUITS = ("merged", "apart")
FIGURE_5 = ("linear_cfr", "linear_optimistic_fictitious_play", "linear_fictitious_play")
THESIS = {
  "CFR": solvers.vanilla_cfr(),
  "CFR+": solvers.cfr_plus(),
  "Linear CFR": solvers.linear_cfr(),
  "DCFR(1.5, 0, 2)": solvers.discounted_cfr(1.5, 0.0, 2.0),
  "DCFR(1.5, 0.5, 2)": solvers.discounted_cfr(1.5, 0.5, 2.0),
  "DCFR(1.5, -inf, 2)": solvers.discounted_cfr(1.5, float("-inf"), 2.0),
}


def say(part: str, **figures: Any) -> None:
  """Prints one JSON line."""
  print(json.dumps({"benchmark": f"poker.{part}", **timing.environment(), **figures}), flush=True)


def memory() -> float:
  """Returns the largest resident memory of this process so far, in GB."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def make_tree(game: games.Game, beliefs: np.ndarray | None = None) -> games.PublicTree:
  """Builds the whole tree of `game`, with `beliefs` as its prior, on the device."""
  tree = games.build_public_tree(game)
  if beliefs is not None:
    tree = dataclasses.replace(tree, prior=beliefs.astype(tree.dtype))
  return jax.tree.map(jax.numpy.asarray, tree)


def paper_turn(bets: str, suits: str) -> tuple[Holdem, games.PublicTree]:
  """Returns turn endgame hold'em on the paper's board, and its tree."""
  game = TurnEndgame(bets=timing.look_up("bets", bets, BETS))
  return game, make_tree(MergedSuits(game) if suits == "merged" else game)


def update(bets: str, iterations: int, suits: str) -> None:
  """Times Linear CFR on the paper's board: two runs of different length, compiled."""
  _, tree = paper_turn(bets, suits)
  seconds, of_cores = [], []
  for number in (2, 2 + iterations):

    def run(number=number):
      return solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=number)

    seconds.append(timing.time_calls(run, repeats=3))
    start = time.process_time()
    jax.block_until_ready(run())
    of_cores.append(time.process_time() - start)
  say(
    "update",
    bets=bets,
    suits=suits,
    nodes=tree.num_nodes,
    decisions=int((tree.kind <= games.PLAYER_1).sum()),
    hands=tree.num_infostates,
    milliseconds_per_update=timing.significant(
      1000 * (seconds[1].fastest - seconds[0].fastest) / iterations
    ),
    # Of all cores together: what other programs take away does not count.
    processor_milliseconds=timing.significant(1000 * (of_cores[1] - of_cores[0]) / iterations),
    compile_seconds=timing.significant(seconds[1].compile_seconds, 3),
    gigabytes=timing.significant(memory(), 3),
  )


def trace(part: str, game: Holdem, tree, algorithms, last: int, **labels) -> None:
  """Solves `tree` by each of `algorithms` and prints their curves in all units."""
  at = curves.checkpoints(last)
  for name, algorithm in algorithms.items():
    start = time.perf_counter()
    values = curves.curve(tree, algorithm, at)
    units = [in_units(game, value) for value in values]
    say(
      part,
      **labels,
      algorithm=name,
      dtype=str(tree.dtype),
      iterations=at,
      pot=[timing.significant(u.pot) for u in units],
      mbb=[timing.significant(u.mbb) for u in units],
      seconds=timing.significant(time.perf_counter() - start, 3),
      gigabytes=timing.significant(memory(), 3),
    )


def draw(files: list[Path], images: Path) -> None:
  """Draws what `trace` printed into `files`: a picture for each tree or endgame."""
  pictures: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
  for line in (line for file in files for line in file.read_text().splitlines()):
    row = json.loads(line)
    if row["benchmark"] == "poker.figure5":
      key = (f"poker_figure5_{row['bets']}", "pot", "Turn endgame hold'em, 3♠7♥T♦K♠")
    elif row["benchmark"] == "poker.libratus":
      title = f"Libratus's {row['endgame']}, board {row['board']}"
      key = (f"poker_libratus_{row['endgame']}", "mbb", title)
    else:
      continue
    pictures.setdefault(key, []).append(row)
  if not pictures:
    sys.exit(f"--lines {[str(file) for file in files]} hold no curves of figure5 or libratus")
  for (name, unit, title), rows in pictures.items():
    _draw(rows, unit, title, images / f"{name}.png")


def _draw(rows: list[dict[str, Any]], unit: str, title: str, path: Path) -> None:
  from matplotlib.backends.backend_agg import FigureCanvasAgg
  from matplotlib.figure import Figure

  figure = Figure(figsize=(7, 4.5), layout="constrained")
  FigureCanvasAgg(figure)
  axes = figure.add_subplot()
  for row in rows:
    axes.loglog(row["iterations"], row[unit], "o-", markersize=3, label=row["algorithm"])
  axes.set_xlabel("iterations (one player's update each)")
  axes.set_ylabel({"pot": "exploitability / pot", "mbb": "exploitability, mbb"}[unit])
  axes.set_title(title)
  axes.grid(True, which="both", alpha=0.3)
  axes.legend()
  path.parent.mkdir(parents=True, exist_ok=True)
  figure.savefig(path, dpi=100)


def figure5(bets: str, iterations: int, names: list[str], suits: str) -> None:
  game, tree = paper_turn(bets, suits)
  algorithms = {name: timing.make_algorithm("algorithm", name) for name in names}
  trace("figure5", game, tree, algorithms, iterations, bets=bets, suits=suits)


def random_rivers(number: int, seed: int = 0) -> tuple[list[Holdem], np.ndarray]:
  """Returns games of random boards and pots, and random beliefs `[B, P, H]`."""
  rng, deck = np.random.default_rng(seed), Deck()
  bets = BetSizes((((1.0,),),))  # the pot or all-in, at every decision
  made: list[Holdem] = []
  beliefs = []
  for _ in range(number):
    board = deck.names(rng.choice(deck.num_cards, 5, replace=False).tolist())
    pot = 2 * int(rng.integers(500, 2_500))
    made.append(RiverEndgame(board=board, pot=pot, bets=bets))
    weights = rng.exponential(size=(2, made[-1].num_infostates))
    beliefs.append(weights / weights.sum(axis=1, keepdims=True))
  return made, np.stack(beliefs)


def rivers(number: int, iterations: int) -> None:
  """Solves `number` rivers in one batch and measures how well each is solved."""
  made, beliefs = random_rivers(number)
  start = time.perf_counter()
  trees = [games.build_public_tree(game) for game in made]
  shapes: dict[Any, list[int]] = {}
  for i, tree in enumerate(trees):
    shapes.setdefault(tree.structure, []).append(i)
  stacks = [(rows, games.stack_trees([trees[i] for i in rows])) for rows in shapes.values()]
  building = time.perf_counter() - start

  solutions: list[solvers.Solution] = []

  def solve():
    solutions[:] = [
      solvers.solve_batch(
        jax.tree.map(jax.numpy.asarray, stack),
        algorithm=solvers.discounted_cfr(),
        num_iterations=iterations,
        beliefs=beliefs[rows],
      )
      for rows, stack in stacks
    ]
    return solutions

  time_taken = timing.time_calls(solve, repeats=1)
  worst = []
  for (rows, _), solution in zip(stacks, solutions):
    for k, i in enumerate(rows[:8]):
      value = solvers.exploitability(trees[i], solution.average_policy[k], beliefs=beliefs[i])
      worst.append(in_units(made[i], value).pot)
  say(
    "rivers",
    rivers=number,
    shapes=len(stacks),
    nodes=sorted({tree.num_nodes for tree in trees}),
    iterations=iterations,
    rivers_per_second=timing.significant(number / time_taken.fastest),
    build_seconds=timing.significant(building, 3),
    compile_seconds=timing.significant(time_taken.compile_seconds, 3),
    measured=len(worst),
    pot_median=timing.significant(float(np.median(worst))),
    pot_worst=timing.significant(max(worst)),
    gigabytes=timing.significant(memory(), 3),
  )


def read_endgame(path: Path) -> tuple[Holdem, np.ndarray]:
  """Reads an endgame of Libratus: its game, and both players' beliefs `[P, H]`.

  Player 0 is the first of the file, who acts first.
  """
  fields: dict[str, list[str]] = {}
  for line in path.read_text().splitlines():
    words = line.split()
    if words:
      fields[words[0].lstrip("-")] = words[1:]
  kind = {"3": TurnEndgame, "4": RiverEndgame}[fields["round"][0]]
  game = kind(board=fields["board"][0], pot=int(fields["pot"][0]), bets=LIBRATUS_ENDGAMES)
  every = game.deck.hole_cards()
  reach = np.array(fields["reach"], float).reshape(2, len(every))
  reach[:, np.isin(every, game.board).any(axis=1)] = 0.0
  return game, game.beliefs(reach)


def libratus(folder: Path, iterations: int, names: list[str]) -> None:
  algorithms = {name: timing.look_up("algorithm", name, THESIS) for name in names}
  for path in sorted(folder.glob("*.txt")):
    game, beliefs = read_endgame(path)
    tree = make_tree(game, beliefs)
    labels = {"endgame": path.stem, "board": game.deck.names(game.board)}
    trace("libratus", game, tree, algorithms, iterations, **labels)


def grid(bets: str, iterations: int, images: Path) -> None:
  """Draws what player 0 does first on the paper's board."""
  game = TurnEndgame(bets=timing.look_up("bets", bets, BETS))
  tree = make_tree(game)
  solution = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=iterations)
  found = range_grids.range_grid(game, tree, solution.average_policy)
  path = images / "poker_range_grid.png"
  path.parent.mkdir(parents=True, exist_ok=True)
  title = "3♠ 7♥ T♦ K♠, 1,000 each in the pot, stacks 20,000: player 0 acts first"
  range_grids.plot_range_grid(found, path, title=title)
  summary = {move: timing.significant(float(x)) for move, x in zip(found.moves, found.summary)}
  say("grid", bets=bets, iterations=iterations, summary=summary)


def main(arguments: list[str] | None = None) -> None:
  parser = argparse.ArgumentParser(prog="python -m benchmarks.poker", description=__doc__)
  parser.add_argument("part", choices=["update", "figure5", "rivers", "libratus", "grid", "draw"])
  parser.add_argument("--bets", default="teh", help=f"one of {', '.join(BETS)}")
  parser.add_argument(
    "--suits", choices=SUITS, default=None, help="of update and figure5; figure5 merges for teh"
  )
  parser.add_argument("--algorithms", nargs="+", default=None, help="of figure5 or libratus")
  parser.add_argument("--lines", nargs="+", type=Path, default=[], help="what to draw")
  parser.add_argument("--iterations", type=int, default=None)
  parser.add_argument("--number", type=int, default=1024, help="of rivers")
  parser.add_argument("--folder", type=Path, default=None, help="of the endgames' files")
  parser.add_argument("--images", type=Path, default=Path("docs/images"))
  options = parser.parse_args(arguments)
  if options.part == "update":
    update(options.bets, options.iterations or 20, options.suits or "apart")
  elif options.part == "figure5":
    names = options.algorithms or list(FIGURE_5)
    suits = options.suits or ("merged" if options.bets == "teh" else "apart")
    figure5(options.bets, options.iterations or 1024, names, suits)
  elif options.part == "rivers":
    rivers(options.number, options.iterations or 256)
  elif options.part == "grid":
    grid(options.bets, options.iterations or 512, options.images)
  elif options.part == "draw":
    draw(options.lines, options.images)
  elif options.folder is None:
    sys.exit("--folder must name the folder that holds the endgames' files")
  else:
    libratus(options.folder, options.iterations or 1024, options.algorithms or list(THESIS))


if __name__ == "__main__":
  main()
