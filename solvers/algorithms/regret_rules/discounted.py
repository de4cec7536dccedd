"""Discounted regret matching: vanilla CFR, CFR+, Linear CFR and DCFR are settings of it."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from solvers.algorithms.regret_rules.rule import Siblings
from solvers.algorithms.schedule import Exponent, Schedule


def discount(k: jax.Array, exponent: Exponent) -> jax.Array | float:
  """Returns `k**e / (k**e + 1)`; 1 for e = inf and 0 for e = -inf."""
  if isinstance(exponent, Schedule):
    return 1.0 / (1.0 + k ** (-exponent.at(k)))
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
  (inf, inf) is vanilla CFR, (inf, -inf) regret matching+, (1, 1) Linear CFR. Schedules make
  HS-DCFR.
  """

  alpha: Exponent
  beta: Exponent

  def init(self, zeros: jax.Array) -> jax.Array:
    return zeros

  def update(self, state: jax.Array, regret: jax.Array, k: jax.Array) -> jax.Array:
    # Sums are kept before their discount, since matching does not depend on it.
    return self._discounted(state, k - 1) + regret

  def _discounted(self, total: jax.Array, k: jax.Array) -> jax.Array:
    positive, negative = discount(k, self.alpha), discount(k, self.beta)
    if self.alpha == self.beta:
      return total * positive
    return jnp.where(total > 0, total * positive, total * negative)

  def match(self, state: jax.Array, siblings: Siblings, k: jax.Array) -> jax.Array:
    """Matches regrets: choices are as likely as their positive sums.

    A choice without any gets exactly zero: a floor, however small, would let the other player
    collect regrets below it, and only their signs count.
    """
    del k
    return siblings.normalise(jnp.maximum(state, 0.0))
