"""Ranges of hold'em as beliefs at the start of a game."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from games.poker.notation.ranges import parse_range


def beliefs_of(ranges: np.ndarray | Sequence[str], game: Any) -> np.ndarray:
  """Returns two ranges as beliefs `[P, H]`, rows sum to one; see `Holdem.beliefs`, which is this.

  Raises:
    ValueError: the shape is wrong, a string is not understood, a weight is negative or not finite,
      or the board leaves a player no hand.
  """
  every = game.deck.hole_cards()
  if not isinstance(ranges, str) and all(isinstance(x, str) for x in ranges):
    named = [parse_range(str(x), game.deck, field=f"ranges[{p}]") for p, x in enumerate(ranges)]
    ranges = np.array(named)
  weights = np.asarray(ranges, float)
  if weights.shape != (2, len(every)):
    raise ValueError(f"ranges of shape {weights.shape} must have shape (2, {len(every)})")
  if not np.isfinite(weights).all() or (weights < 0).any():
    raise ValueError("ranges hold negative or infinite weights; each must be at least 0")
  free = ~np.isin(every, game.board).any(axis=1)
  live = weights * free if game.every_hand else weights[:, free]
  totals = live.sum(axis=1, keepdims=True)
  if (totals == 0).any():
    raise ValueError(
      f"ranges give player {int(totals.argmin())} no hand that the board "
      f"{game.deck.names(game.board)!r} leaves; some must have weight"
    )
  return live / totals
