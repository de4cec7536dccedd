"""Discounted regret matching: vanilla CFR, CFR+, Linear CFR and DCFR are settings of it."""

import dataclasses
import math

import jax
import jax.numpy as jnp


def discount(k: jax.Array, exponent: float) -> jax.Array | float:
  """Returns `k**e / (k**e + 1)`; 1 for e = inf and 0 for e = -inf."""
  if exponent == math.inf:
    return 1.0
  if exponent == -math.inf:
    return 0.0
  # Written so that large k and |e| do not overflow float32.
  return 1.0 / (1.0 + k ** (-exponent))


@dataclasses.dataclass(frozen=True)
class DiscountedRegret:
  """Regret matching with discounted regrets (Brown's thesis, section 3.1, DCFR).

  After the k-th instantaneous regrets are added, positive sums are multiplied by
  `k**alpha / (k**alpha + 1)` and negative ones by `k**beta / (k**beta + 1)`.
  (inf, inf) is vanilla CFR, (inf, -inf) regret matching+, (1, 1) Linear CFR.
  """

  alpha: float
  beta: float

  def init(self, zeros: jax.Array) -> jax.Array:
    return zeros

  def update(
    self, state: jax.Array, regret: jax.Array, k: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    total = state + regret
    positive, negative = discount(k, self.alpha), discount(k, self.beta)
    if self.alpha == self.beta:
      return total * positive, total
    return jnp.where(total > 0, total * positive, total * negative), total
