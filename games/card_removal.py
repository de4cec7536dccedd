"""Hands of two cards that block each other, without a table of pairs."""

import functools
import itertools
import math
from typing import Any

import jax
import numpy as np


def holds(hands: Any, num_cards: int, dtype: Any = float) -> Any:
  """Returns which cards each hand holds, as numbers: `[..., H, 2]` to `[..., H, num_cards]`."""
  xp: Any = hands.__array_namespace__()
  cards = xp.arange(num_cards).reshape(*[1] * hands.ndim, -1)
  return (hands[..., None] == cards).any(axis=-2).astype(dtype)


def num_live_cards(num_hands: int) -> int:
  """Returns how many cards make so many pairs.

  Raises:
    ValueError: no number of cards does.
  """
  cards = (1 + math.isqrt(1 + 8 * num_hands)) // 2
  if cards * (cards - 1) // 2 != num_hands:
    raise ValueError(f"hands={num_hands} must be all pairs of some number of cards")
  return cards


@functools.cache
def all_pairs(num_hands: int) -> np.ndarray:
  """Returns the two cards of each hand, cards numbered by their order: `[H, 2]`."""
  return np.array(list(itertools.combinations(range(num_live_cards(num_hands)), 2)), np.int32)


def compatible_mass(reach: Any, held: Any = None) -> Any:
  """Returns, for each hand, the sum of `reach` over the hands that share no card with it.

  By inclusion and exclusion: everything, less what holds the first card, less what holds the
  second, plus the hand itself, which holds both.

  Args:
    reach: `[..., H]`.
    held: `[H, C]` `holds` of the hands; None for all pairs of some cards.

  Returns:
    `[..., H]`.
  """
  if held is None:
    xp: Any = reach.__array_namespace__()
    hands = all_pairs(reach.shape[-1])
    held = xp.asarray(holds(hands, int(hands.max()) + 1, reach.dtype))
  # Accelerators would otherwise round the numbers that are about to cancel.
  with jax.default_matmul_precision("highest"):
    return reach.sum(axis=-1, keepdims=True) - (reach @ held) @ held.T + reach
