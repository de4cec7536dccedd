"""Draws a game as a trained agent sees it: beliefs and policy at every decision of a line."""

from pathlib import Path

import numpy as np
import tyro

import rebel_jax
from benchmarks import timing
from rebel_jax import devices
from rebel_jax.agents import range_grids
from rebel_jax.agents.agent import Searcher
from rebel_jax.agents.belief_agent import follow


def main(
  checkpoint: tyro.conf.Positional[str] = "liars_dice_1x4f",
  actions: tuple[int, ...] = (1, 3),
  iterations: int = 1024,
  seed: int = 0,
  figure: Path | None = None,
) -> None:
  """Follows the line, prints and draws.

  Args:
    checkpoint: a run's folder, a checkpoint, or the name of a network that comes with the package.
    actions: public actions from the start of the game, by number as in its docstring.
    iterations: iterations of each search; one player's update is one.
    seed: which iterations the agent keeps to.
    figure: where to draw.
  """
  devices.enable_cache()
  policy = rebel_jax.load(checkpoint)
  searcher = Searcher(policy, iterations=iterations, seed=seed)
  try:
    decisions = follow(searcher, actions, seed=seed)
  except ValueError as error:
    raise SystemExit(str(error)) from None
  for decision in decisions:
    timing.say(
      "hand_picture",
      history=decision.history,
      mover=decision.mover,
      beliefs=np.round(decision.beliefs, 3).tolist(),
      moves=decision.moves,
      policy=np.round(decision.policy, 3).tolist(),
    )
  if figure is not None:
    range_grids.draw(decisions, figure, title=f"{searcher.game!r}: one line of play")


if __name__ == "__main__":
  timing.command(main)
