"""Predictive regret matching+ (Farina, Kroer and Sandholm 2021), the rule of PCFR+ and its kin."""

import dataclasses
import math

import jax
import jax.numpy as jnp

from solvers.algorithms.regret_rules.discounted import discount
from solvers.algorithms.regret_rules.rule import Siblings


@dataclasses.dataclass(frozen=True)
class PredictiveRegretPlus:
  """Regret matching+ that expects the last instantaneous regrets to come again.

  Sums are floored at zero, and the next policy is matched to the sums plus the last regrets.

  Attributes:
    alpha: sums are multiplied by `k**alpha / (k**alpha + 1)` after the k-th update, and before the
      next policy is matched (PDCFR+, Xu et al. 2024); inf for one.
    share: of the last regrets that is expected again (SAPCFR+, Meng et al. 2025: 1/3).
  """

  alpha: float = math.inf
  share: float = 1.0

  def init(self, zeros: jax.Array) -> tuple[jax.Array, jax.Array]:
    return zeros, zeros

  def update(
    self, state: tuple[jax.Array, jax.Array], regret: jax.Array, k: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    return jnp.maximum(state[0] * discount(k - 1, self.alpha) + regret, 0.0), regret

  def match(
    self, state: tuple[jax.Array, jax.Array], siblings: Siblings, k: jax.Array
  ) -> jax.Array:
    total, last = state
    expected = total * discount(k, self.alpha) + last * self.share
    return siblings.normalise(jnp.maximum(expected, 0.0))
