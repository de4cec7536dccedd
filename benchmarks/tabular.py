"""Microseconds of one player's update of a whole game, alone and in a batch.

`python -m benchmarks.tabular` prints a JSON line for each game. `microseconds_per_update` is a
solve's time divided by its iterations, an iteration being one player's update: everything that a
caller of `solvers.solve` waits for once it is compiled. `microseconds_per_update_batched` is the
same for each game of a batch that differ in their beliefs (`solvers.solve_batch`). Where OpenSpiel
is installed its C++ `CFRSolver` runs beside it; one of its iterations updates both players.
`--pieces 1 2 4` adds a line for each number of games that are solved side by side.
"""

import dataclasses
import functools
import sys
import time
from collections.abc import Iterator
from typing import Any, Literal

import tyro

import games
from benchmarks import timing
from rebel_jax import flags
from solvers.solve import default_batch_size, solve, solve_batch


@dataclasses.dataclass(frozen=True)
class Options:
  """Time updates of whole games."""

  games: tuple[str, ...] = (
    "kuhn",
    "leduc",
    "liars_dice_1x4f",
    "liars_dice_1x5f",
    "liars_dice_1x6f",
    "liars_dice_2x3f",
  )
  """Short names, from benchmarks.timing."""
  algorithm: str = "linear_cfr"
  """As it is called in solvers."""
  iterations: int = 1024
  """Updates of a solve, both players together."""
  batch: int = 16
  """Games in a batch; 0 for none."""
  pieces: tuple[int, ...] = ()
  """Also solve the batch so many at a time; the largest number makes up the batch."""
  repeats: int = 7
  """Timed calls; the median counts."""
  seconds: float = 0.5
  """Timed calls go on for at least this long."""
  clock: Literal["wall", "cpu"] = "wall"
  """Wall-clock time, or the processor time of all threads, which a busy machine disturbs less."""
  open_spiel: bool = True
  """Whether to time OpenSpiel's solver as well, if it is installed."""


def open_spiel_seconds(name: str, seconds: float) -> float | None:
  """Returns the time of an iteration of OpenSpiel's CFR in C++, or None if not installed."""
  try:
    import pyspiel
  except ImportError:
    return None
  solver = pyspiel.CFRSolver(pyspiel.load_game(name))
  solver.evaluate_and_update_policy()  # builds its tables
  start, count = time.perf_counter(), 0
  while count == 0 or time.perf_counter() - start < seconds:
    solver.evaluate_and_update_policy()
    count += 1
  return (time.perf_counter() - start) / count


def measure(name: str, options: Options) -> Iterator[dict[str, Any]]:
  """Yields the figures of one game, and of each size of a piece."""
  named = timing.look_up("games", name, timing.GAMES)
  algorithm = timing.make_algorithm("algorithm", options.algorithm)
  tree = games.build_public_tree(named.make())
  settings: dict[str, Any] = {"algorithm": algorithm, "num_iterations": options.iterations}
  time_calls = functools.partial(
    timing.time_calls, repeats=options.repeats, seconds=options.seconds, clock=options.clock
  )

  def per_update(time_taken: timing.Timing, batch: int = 1) -> float:
    return timing.significant(1e6 * time_taken.median / options.iterations / batch)

  def time_batch(batch: int, piece: int | None) -> timing.Timing:
    beliefs = timing.random_beliefs(tree, batch)
    return time_calls(lambda: solve_batch(tree, beliefs=beliefs, batch_size=piece, **settings))

  alone = time_calls(lambda: solve(tree, **settings))
  head = timing.describe("tabular", name, tree, options) | {"clock": options.clock}
  row = head | {
    "microseconds_per_update": per_update(alone),
    "compile_seconds": timing.significant(alone.compile_seconds, 3),
  }
  if options.batch:
    together = time_batch(options.batch, None)
    row |= {
      "batch": options.batch,
      "batch_size": default_batch_size(tree),
      "microseconds_per_update_batched": per_update(together, options.batch),
      "compile_seconds_batched": timing.significant(together.compile_seconds, 3),
    }
  if options.open_spiel:
    seconds = open_spiel_seconds(named.open_spiel, options.seconds)
    if seconds is not None:
      row["open_spiel_microseconds_per_iteration"] = timing.significant(1e6 * seconds)
  yield row
  batch = max(options.pieces, default=0)
  for piece in options.pieces:
    whole = batch // piece * piece
    yield head | {
      "batch": whole,
      "batch_size": piece,
      "microseconds_per_update_batched": per_update(time_batch(whole, piece), whole),
    }


def main(options: Options) -> None:
  """Measures every game."""
  for name in options.games:
    for row in measure(name, options):
      timing.say(row)


if __name__ == "__main__":
  sys.exit(flags.command(lambda: main(tyro.cli(Options))))
