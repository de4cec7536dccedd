"""Microseconds of one player's update of a whole game, alone and in a batch, a JSON line a game.

`microseconds_per_update` is a compiled solve's time over its iterations; `..._batched` the same of
each game of a batch. OpenSpiel's C++ `CFRSolver` runs beside it where it is installed: one of its
iterations updates both players, and `open_spiel_ratio` compares it with two updates.
"""

import dataclasses
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Literal

import games
from benchmarks import timing
from solvers.solve import default_batch_size


@dataclasses.dataclass(frozen=True)
class Options(timing.Solves):
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
  iterations: int = 1024
  batch: int = 16
  """Games in a batch; 0 for none."""
  pieces: tuple[int, ...] = ()
  """Also solve the batch so many at a time; the largest number makes up the batch."""
  repeats: int = 7
  seconds: float = 0.5
  clock: Literal["wall", "cpu"] = "wall"
  """Wall-clock time, or the processor time of all threads, which a busy machine disturbs less."""
  open_spiel: bool = True
  """Whether to time OpenSpiel's solver as well, if it is installed."""
  lite_efg: str | None = None
  """Also time LiteEFG's, in the environment of this interpreter, as it asks for an older JAX."""


# Prints the seconds of an iteration of LiteEFG's CFR; the arguments are a game and for how long.
_LITE_EFG = """
import sys, time
import LiteEFG, pyspiel
from LiteEFG.baselines import CFR

graph = CFR.graph()
environment = LiteEFG.OpenSpielEnv(pyspiel.load_game(sys.argv[1]), traverse_type="Enumerate")
environment.set_graph(graph)
start, count = time.process_time(), -1
while count < 1 or time.process_time() - start < float(sys.argv[2]):
  graph.update_graph(environment)
  environment.update_strategy(graph.current_strategy())
  count += 1
  start = start if count else time.process_time()
print((time.process_time() - start) / count)
"""


def other_seconds(game: games.Game, options: Options) -> dict[str, float]:
  """Returns the processor seconds of an iteration of other programs' CFR, of those installed."""
  try:
    import pyspiel

    from rebel_jax.open_spiel import load_game
  except ImportError:
    return {}
  solver = pyspiel.CFRSolver(load_game(game))
  solver.evaluate_and_update_policy()  # builds its tables
  start, count = time.process_time(), 0
  while count == 0 or time.process_time() - start < options.seconds:
    solver.evaluate_and_update_policy()
    count += 1
  taken = {"open_spiel": (time.process_time() - start) / count}
  if options.lite_efg is not None:
    command = [options.lite_efg, "-c", _LITE_EFG, str(load_game(game)), str(options.seconds)]
    taken["lite_efg"] = float(subprocess.check_output(command, text=True).split()[-1])
  return taken


def measure(name: str, options: Options) -> Iterator[dict[str, Any]]:
  """Yields the figures of one game, and of each size of a piece."""
  game = timing.make_game(name)
  tree = games.build_public_tree(game)

  def timed(batch: int = 0, piece: int | None = None) -> tuple[float, float]:
    """Returns the microseconds of an update and the seconds of compilation."""
    taken = options.time(options.solver(tree, batch=batch, piece=piece), options.clock)
    per_update = 1e6 * taken.median / options.iterations / max(batch, 1)
    return timing.significant(per_update), timing.significant(taken.compile_seconds, 3)

  alone, compilation = timed()
  head = options.describe("tabular", name, tree) | {"clock": options.clock}
  row = head | {"microseconds_per_update": alone, "compile_seconds": compilation}
  if options.batch:
    together, compilation = timed(options.batch)
    row |= {
      "batch": options.batch,
      "batch_size": default_batch_size(tree),
      "microseconds_per_update_batched": together,
      "compile_seconds_batched": compilation,
    }
  for other, seconds in (other_seconds(game, options) if options.open_spiel else {}).items():
    row[f"{other}_microseconds_per_iteration"] = timing.significant(1e6 * seconds)
    row[f"{other}_ratio"] = timing.significant(1e6 * seconds / (2 * alone), 3)
  yield row
  for piece in options.pieces:
    whole = max(options.pieces) // piece * piece
    yield head | {
      "batch": whole,
      "batch_size": piece,
      "microseconds_per_update_batched": timed(whole, piece)[0],
    }


def main(options: Options) -> None:
  """Measures every game."""
  for name in options.games:
    for row in measure(name, options):
      timing.say(row)


if __name__ == "__main__":
  timing.command(main, Options)
