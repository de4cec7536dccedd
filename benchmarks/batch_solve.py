"""Throughput of solving subgames of different roots and beliefs, against the size of the batch.

A JSON line for each size: subgames from the public states that `--root-depth` actions lead to, to
the end of the game, each with its own random beliefs. `--figure FILE` draws the curve.
"""

from pathlib import Path

import jax
import numpy as np

import games
from benchmarks import timing
from benchmarks.figures import draw_lines
from games import Game, PublicTree
from solvers.solve import default_batch_size

SIZES = tuple(2**i for i in range(13))


def roots_at(game: Game, depth: int) -> list[tuple[int, ...]]:
  """Returns the histories of `depth` public actions at which somebody has to move."""
  if depth == 0:
    return [()]
  tree = games.build_public_tree(game, depth=depth)
  leaves = [tree.history(int(node)) for node in np.asarray(tree.leaf_nodes)]
  return [leaf for leaf in leaves if len(leaf) == depth]


def make_subgames(game: Game, depth: int, size: int) -> tuple[PublicTree, int]:
  """Returns `size` stacked subgames, roots in random order, and how many roots there are."""
  trees = [games.build_public_tree(game, root=root) for root in roots_at(game, depth)]
  stacked = games.stack_trees(trees)
  which = np.resize(np.random.default_rng(0).permutation(len(trees)), size)
  return jax.tree.map(lambda x: np.asarray(x)[which], stacked), len(trees)


def main(
  game: str = "liars_dice_1x4f",
  root_depth: int = 2,
  sizes: tuple[int, ...] = SIZES,
  figure: Path | None = None,
  solves: timing.Solves = timing.SOLVES,
) -> None:
  """Time batches of subgames.

  Args:
    game: Short name, from benchmarks.timing.
    root_depth: Public actions from the start of the game to the roots; 0 for the whole game.
    sizes: How many subgames are solved in one call.
    figure: Where to draw the throughput.
    solves: Of the solves.
  """
  rules, rates = timing.make_game(game, "game"), list[float]()
  for size in sizes:
    trees, roots = make_subgames(rules, root_depth, size)
    taken = solves.time(solves.solver(trees, batch=size))
    rates.append(timing.significant(size / taken.median))
    timing.say(
      "batch_solve",
      **solves.describe(game, trees),
      roots=roots,
      real_nodes=round(float((np.asarray(trees.kind) != games.PADDING).mean()), 3),
      batch=size,
      batch_size=default_batch_size(trees),
      solves_per_second=rates[-1],
      updates_per_second=timing.significant(size * solves.iterations / taken.median),
      compile_seconds=timing.significant(taken.compile_seconds, 3),
    )
  if figure is not None:
    device = timing.environment()["device"]
    title = f"{game}, {roots} roots, {solves.iterations} updates a solve, {device}"
    names = {"x": "subgames in a call", "y": "subgames solved a second"}
    lines = {"pieces chosen by solve_batch": (list(sizes), rates)}
    draw_lines(lines, figure, title=title, yscale="linear", **names)


if __name__ == "__main__":
  timing.command(main)
