"""How each hand of hold'em stands against the opponent's range on the cards shown."""

import jax
import jax.numpy as jnp

from solvers.sweeps.showdowns import Showdowns, compatible_mass, showdown_values

_LEAST_MASS = 1e-6  # of a range: sums that cancel leave a little of nothing


def standing(showdowns: Showdowns, live: jax.Array, other: jax.Array) -> jax.Array:
  """Returns each hand's share of the opponent's range that it beats less that which beats it.

  Only hands that share no card with the hand and none with the board count. Which these are
  differs from hand to hand, and is hard to learn from beliefs alone (docs/results/poker.md).

  Args:
    showdowns: of `R` boards, which need not be complete (`make_showdowns`).
    live: `[R, H]` 1 for hands that the board leaves, else 0.
    other: `[R, H]` the opponent's beliefs.

  Returns:
    `[R, 2, H]`: the difference of shares, from -1 to 1, and how likely the hands that count are
    together; 0 for hands that the board blocks.
  """
  other = other * live
  mass = compatible_mass(other)
  won = showdown_values(showdowns, other[:, None])[:, 0]
  return jnp.stack([won / jnp.maximum(mass, _LEAST_MASS), mass], axis=1) * live[:, None]
