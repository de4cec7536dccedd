"""Throughput of solving subgames of different roots and beliefs, against the size of the batch.

A JSON line for each size: subgames from the public states that `--root-depth` actions lead to, to
the end of the game, each with its own random beliefs. `--figure FILE` draws the curve.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import games
from benchmarks import timing
from benchmarks.figures import draw_lines
from games import Game, PublicTree
from solvers.solve import default_batch_size


@dataclasses.dataclass(frozen=True)
class Options(timing.Solves):
  """Time batches of subgames."""

  game: str = "liars_dice_1x4f"
  """Short name, from benchmarks.timing."""
  root_depth: int = 2
  """Public actions from the start of the game to the roots; 0 for the whole game."""
  sizes: tuple[int, ...] = tuple(2**i for i in range(13))
  """How many subgames are solved in one call."""
  figure: Path | None = None
  """Where to draw the throughput."""


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


def measure(options: Options) -> Iterator[dict[str, Any]]:
  """Yields the figures of each size."""
  game = timing.make_game(options.game, "game")
  for size in options.sizes:
    trees, roots = make_subgames(game, options.root_depth, size)
    real = float((np.asarray(trees.kind) != games.PADDING).mean())
    taken = options.time(options.solver(trees, batch=size))
    yield {
      **options.describe("batch_solve", options.game, trees),
      "roots": roots,
      "real_nodes": round(real, 3),
      "batch": size,
      "batch_size": default_batch_size(trees),
      "solves_per_second": timing.significant(size / taken.median),
      "updates_per_second": timing.significant(size * options.iterations / taken.median),
      "compile_seconds": timing.significant(taken.compile_seconds, 3),
    }


def main(options: Options) -> None:
  """Measures every size."""
  rows = []
  for row in measure(options):
    timing.say(row)
    rows.append(row)
  if options.figure is not None:
    line = [row["batch"] for row in rows], [row["solves_per_second"] for row in rows]
    title = "{game}, {roots} roots, {iterations} updates a solve, {device}".format(**rows[-1])
    names = {"x": "subgames in a call", "y": "subgames solved a second"}
    lines = {"pieces chosen by solve_batch": line}
    draw_lines(lines, options.figure, title=title, yscale="linear", **names)


if __name__ == "__main__":
  timing.command(main, Options)
