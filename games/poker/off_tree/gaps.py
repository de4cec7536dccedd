"""Which bet a tree lacks most: the rule of Libratus's self-improver (thesis, section 6.1).

Sizes are fractions of the pot after calling; 0 is a check or call.
"""

from collections.abc import Iterable, Sequence

import numpy as np


def midpoint(low: float, high: float) -> float:
  """Returns the bet that the pseudo-harmonic mapping takes for either neighbour equally often."""
  return (low + high + 2 * low * high) / (low + high + 2)


def widest_gap(bets: Iterable[float], sizes: Sequence[float]) -> tuple[float, float]:
  """Returns the neighbours in `sizes` between which the other player's bets are furthest from both.

  Each bet x between A and B scores `min(x - A, B - x)`; the pair of the highest sum is returned,
  the lowest of equal ones. Bets outside all sizes count for none.

  Args:
    bets: sizes that were bet, each as often as it was.
    sizes: what the tree holds, increasing, at least two.

  Raises:
    ValueError: `sizes` are fewer than two or not increasing.
  """
  known, played = np.asarray(sizes, float), np.asarray(list(bets), float)
  if known.size < 2 or (np.diff(known) <= 0).any():
    raise ValueError(f"sizes={list(sizes)!r} must be at least two fractions, increasing")
  low, high = known[:-1, None], known[1:, None]
  scores = np.maximum(np.minimum(played - low, high - played), 0.0).sum(axis=1)
  best = int(scores.argmax())
  return float(known[best]), float(known[best + 1])
