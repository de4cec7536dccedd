"""Hands of two cards that block each other, without a table of pairs."""

from typing import Any

import jax


def holds(hands: Any, num_cards: int, dtype: Any = float) -> Any:
  """Returns which cards each hand holds, as numbers: `[..., H, 2]` to `[..., H, num_cards]`."""
  xp: Any = hands.__array_namespace__()
  cards = xp.arange(num_cards).reshape(*[1] * hands.ndim, -1)
  return (hands[..., None] == cards).any(axis=-2).astype(dtype)


def compatible_mass(reach: Any, held: Any) -> Any:
  """Returns, for each hand, the sum of `reach` over the hands that share no card with it.

  By inclusion and exclusion: everything, less what holds the first card, less what holds the
  second, plus the hand itself, which holds both.

  Args:
    reach: `[..., H]`.
    held: `[H, C]` `holds` of the hands.

  Returns:
    `[..., H]`.
  """
  # Accelerators would otherwise round the numbers that are about to cancel.
  with jax.default_matmul_precision("highest"):
    return reach.sum(axis=-1, keepdims=True) - (reach @ held) @ held.T + reach
