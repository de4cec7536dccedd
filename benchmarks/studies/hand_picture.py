"""Draws a game as a trained agent sees it: beliefs and policy at every decision.

`python -m benchmarks.studies.hand_picture liars_dice_1x4f --actions 1 3 --figure FILE` follows
these public actions (numbers as in the game's docstring) and prints a JSON line for each decision.
"""

import dataclasses
from pathlib import Path

import numpy as np
import tyro

import rebel_jax
from benchmarks import timing
from rebel_jax import devices
from rebel_jax.agents import range_grids
from rebel_jax.agents.agent import Searcher


@dataclasses.dataclass(frozen=True)
class Options:
  """Draw beliefs and policy along a line of play."""

  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x4f"
  """A run's folder, a checkpoint, or the name of a network that comes with the package."""
  actions: tuple[int, ...] = (1, 3)
  """Public actions from the start of the game."""
  iterations: int = 1024
  """Iterations of each search; one player's update is one."""
  seed: int = 0
  """Which iterations the agent keeps to."""
  figure: Path | None = None
  """Where to draw."""


def main(options: Options) -> None:
  """Follows the line, prints and draws."""
  devices.enable_cache()
  policy = rebel_jax.load(options.checkpoint)
  searcher = Searcher(policy, iterations=options.iterations, seed=options.seed)
  try:
    decisions = range_grids.follow(searcher, options.actions, seed=options.seed)
  except ValueError as error:
    raise SystemExit(str(error)) from None
  for decision in decisions:
    row = {
      "benchmark": "hand_picture",
      **timing.environment(),
      "history": decision.history,
      "mover": decision.mover,
      "beliefs": np.round(decision.beliefs, 3).tolist(),
      "moves": decision.moves,
      "policy": np.round(decision.policy, 3).tolist(),
    }
    timing.say(row)
  if options.figure is not None:
    range_grids.draw(decisions, options.figure, title=f"{searcher.game!r}: one line of play")


if __name__ == "__main__":
  timing.command(main, Options)
