"""Predictive regret matching+ (Farina, Kroer and Sandholm 2021), the rule of PCFR+."""

import dataclasses

import jax
import jax.numpy as jnp

from solvers.algorithms.regret_rules.rule import Siblings


@dataclasses.dataclass(frozen=True)
class PredictiveRegretPlus:
  """Regret matching+ that expects the last instantaneous regrets to come again.

  Sums are floored at zero, and the next policy is matched to the sums plus the last regrets.
  """

  def init(self, zeros: jax.Array) -> tuple[jax.Array, jax.Array]:
    return zeros, zeros

  def update(
    self, state: tuple[jax.Array, jax.Array], regret: jax.Array, k: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    return jnp.maximum(state[0] + regret, 0.0), regret

  def match(
    self, state: tuple[jax.Array, jax.Array], siblings: Siblings, k: jax.Array
  ) -> jax.Array:
    total, last = state
    return siblings.normalise(jnp.maximum(total + last, 0.0))
