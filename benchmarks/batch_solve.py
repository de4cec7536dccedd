"""Throughput of solving subgames of different roots and beliefs, against the size of the batch.

`python -m benchmarks.batch_solve` prints a JSON line for each size from 1 to 4,096. The subgames
start at the public states that `--root-depth` actions lead to and reach the end of the game; each
has its own random beliefs. They are stacked into one common shape and solved by
`solvers.solve_batch`, which splits a batch into pieces of its own choice (`--batch-size` overrules
it: with 0 the whole batch is one piece, which is what the splitting is there to avoid).
`--figure FILE` draws the curve.
"""

import dataclasses
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import tyro

import games
import solvers
from benchmarks import timing
from games import Game, PublicTree


@dataclasses.dataclass(frozen=True)
class Options:
  """Time batches of subgames."""

  game: str = "liars_dice_1x4f"
  """Short name, from benchmarks.timing."""
  root_depth: int = 2
  """Public actions from the start of the game to the roots; 0 for the whole game."""
  sizes: tuple[int, ...] = tuple(2**i for i in range(13))
  """How many subgames are solved in one call."""
  batch_size: tuple[int, ...] = ()
  """How many side by side, each in turn; 0 for all, none for what solve_batch chooses."""
  algorithm: str = "linear_cfr"
  """As it is called in solvers."""
  iterations: int = 256
  """Updates of a solve, both players together."""
  repeats: int = 5
  """Timed calls; the median counts."""
  seconds: float = 0.2
  """Timed calls go on for at least this long."""
  figure: Path | None = None
  """Where to draw the throughput."""


def roots_at(game: Game, depth: int) -> list[tuple[int, ...]]:
  """Returns the histories of `depth` public actions at which somebody has to move."""
  if depth == 0:
    return [()]
  tree = games.build_public_tree(game, depth=depth)
  leaves = [tree.history(int(node)) for node in np.asarray(tree.leaf_nodes)]
  return [leaf for leaf in leaves if len(leaf) == depth]


def make_subgames(game: Game, depth: int, size: int, seed: int = 0) -> tuple[PublicTree, int]:
  """Returns `size` stacked subgames, roots in random order, and how many roots there are."""
  trees = [games.build_public_tree(game, root=root) for root in roots_at(game, depth)]
  stacked = games.stack_trees(trees)
  which = np.resize(np.random.default_rng(seed).permutation(len(trees)), size)
  return jax.tree.map(lambda x: np.asarray(x)[which], stacked), len(trees)


def measure(options: Options) -> Iterator[dict[str, Any]]:
  """Yields the figures of each size."""
  game = timing.make_game(options.game, "game")
  algorithm = timing.make_algorithm("algorithm", options.algorithm)
  for size in options.sizes:
    trees, roots = make_subgames(game, options.root_depth, size)
    beliefs = timing.random_beliefs(trees, size)
    real = float((np.asarray(trees.kind) != games.PADDING).mean())
    for piece in options.batch_size or (None,):
      solve = functools.partial(
        solvers.solve_batch,
        trees,
        beliefs=beliefs,
        algorithm=algorithm,
        num_iterations=options.iterations,
        batch_size=size if piece == 0 else piece,
      )
      taken = timing.time_calls(solve, repeats=options.repeats, seconds=options.seconds)
      yield {
        "benchmark": "batch_solve",
        **timing.environment(),
        "game": options.game,
        "roots": roots,
        "nodes": trees.num_nodes,
        "infostates": trees.num_infostates,
        "real_nodes": round(real, 3),
        "algorithm": options.algorithm,
        "iterations": options.iterations,
        "batch": size,
        "batch_size": size if piece == 0 else piece or solvers.default_batch_size(trees),
        "solves_per_second": timing.significant(size / taken.median),
        "updates_per_second": timing.significant(size * options.iterations / taken.median),
        "compile_seconds": timing.significant(taken.compile_seconds, 3),
      }


def draw(rows: list[dict[str, Any]], lines: dict[str, list[int]], path: Path) -> None:
  """Draws throughput against the batch; `lines` names the rows of each curve."""
  from matplotlib.figure import Figure

  figure = Figure(figsize=(6.5, 4), layout="constrained")
  axes = figure.subplots()
  for label, numbers in lines.items():
    x = [rows[i]["batch"] for i in numbers]
    axes.plot(x, [rows[i]["solves_per_second"] for i in numbers], marker="o", label=label)
  axes.set_xscale("log", base=2)
  axes.set_ylim(bottom=0)
  axes.set_xlabel("subgames in a call")
  axes.set_ylabel("subgames solved a second")
  row = rows[0]
  axes.set_title(
    f"{row['game']}, {row['roots']} roots, {row['iterations']} updates a solve, {row['device']}",
    fontsize=9,
  )
  axes.legend(fontsize=8)
  figure.savefig(path, dpi=110)


def main(options: Options) -> None:
  """Measures every size."""
  rows: list[dict[str, Any]] = []
  lines: dict[str, list[int]] = {}
  names = {None: "pieces chosen by solve_batch", 0: "one piece"}
  for i, row in enumerate(measure(options)):
    print(json.dumps(row), flush=True)
    rows.append(row)
    pieces = options.batch_size or (None,)
    piece = pieces[i % len(pieces)]
    lines.setdefault(names.get(piece, f"{piece} side by side"), []).append(i)
  if options.figure is not None:
    draw(rows, lines, options.figure)


if __name__ == "__main__":
  main(tyro.cli(Options))
