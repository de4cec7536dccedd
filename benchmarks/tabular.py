"""Microseconds of one player's update of a whole game, alone and in a batch, a JSON line a game.

`microseconds_per_update` is a compiled solve's time over its iterations; `..._batched` the same of
each game of a batch. OpenSpiel's C++ `CFRSolver` runs beside it where it is installed: one of its
iterations updates both players, and `open_spiel_ratio` compares it with two updates.
"""

import subprocess
import time
from typing import Any, Literal

from benchmarks import timing
from games import Game, build_public_tree
from solvers.solve import default_batch_size

SOLVES = timing.Solves(iterations=1024, repeats=7, seconds=0.5)
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


def other_seconds(game: Game, seconds: float, lite_efg: str | None) -> dict[str, float]:
  """Returns the processor seconds of an iteration of other programs' CFR, of those installed."""
  try:
    import pyspiel

    from rebel_jax.open_spiel import load_game
  except ImportError:
    return {}
  solver = pyspiel.CFRSolver(load_game(game))
  solver.evaluate_and_update_policy()  # builds its tables
  start, count = time.process_time(), 0
  while count == 0 or time.process_time() - start < seconds:
    solver.evaluate_and_update_policy()
    count += 1
  taken = {"open_spiel": (time.process_time() - start) / count}
  if lite_efg is not None:
    command = [lite_efg, "-c", _LITE_EFG, str(load_game(game)), str(seconds)]
    taken["lite_efg"] = float(subprocess.check_output(command, text=True).split()[-1])
  return taken


def main(
  games: tuple[str, ...] = (
    "kuhn",
    "leduc",
    "liars_dice_1x4f",
    "liars_dice_1x5f",
    "liars_dice_1x6f",
    "liars_dice_2x3f",
  ),
  batch: int = 16,
  pieces: tuple[int, ...] = (),
  clock: Literal["wall", "cpu"] = "wall",
  open_spiel: bool = True,
  lite_efg: str | None = None,
  solves: timing.Solves = SOLVES,
) -> None:
  """Time updates of whole games.

  Args:
    games: Short names, from benchmarks.timing.
    batch: Games in a batch; 0 for none.
    pieces: Also solve the batch so many at a time; the largest number makes up the batch.
    clock: Wall-clock time, or the processor time of all threads, which a busy machine disturbs
      less.
    open_spiel: Whether to time OpenSpiel's solver as well, if it is installed.
    lite_efg: Also time LiteEFG's, in the environment of this interpreter, as it asks for an older
      JAX.
    solves: Of the solves.
  """
  for name in games:
    game = timing.make_game(name)
    tree = build_public_tree(game)

    def timed(batch: int = 0, piece: int | None = None, tree=tree) -> tuple[float, float]:
      """Returns the microseconds of an update and the seconds of compilation."""
      taken = solves.time(solves.solver(tree, batch=batch, piece=piece), clock)
      per_update = 1e6 * taken.median / solves.iterations / max(batch, 1)
      return timing.significant(per_update), timing.significant(taken.compile_seconds, 3)

    alone, compilation = timed()
    head = solves.describe(name, tree) | {"clock": clock}
    row: dict[str, Any] = {"microseconds_per_update": alone, "compile_seconds": compilation}
    if batch:
      together, compilation = timed(batch)
      row |= {
        "batch": batch,
        "batch_size": default_batch_size(tree),
        "microseconds_per_update_batched": together,
        "compile_seconds_batched": compilation,
      }
    others = other_seconds(game, solves.seconds, lite_efg) if open_spiel else {}
    for other, seconds in others.items():
      row[f"{other}_microseconds_per_iteration"] = timing.significant(1e6 * seconds)
      row[f"{other}_ratio"] = timing.significant(1e6 * seconds / (2 * alone), 3)
    timing.say("tabular", **head, **row)
    for piece in pieces:
      whole = max(pieces) // piece * piece
      each, _ = timed(whole, piece)
      sizes = {"batch": whole, "batch_size": piece}
      timing.say("tabular", **head, **sizes, microseconds_per_update_batched=each)


if __name__ == "__main__":
  timing.command(main)
