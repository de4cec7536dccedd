"""Predictive regret matching+ (Farina, Kroer and Sandholm 2021), the rule of PCFR+."""

import dataclasses

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class PredictiveRegretPlus:
  """Regret matching+ that expects the last instantaneous regrets to come again.

  Sums are floored at zero, and the next policy is matched to the sums plus the last regrets.
  """

  def init(self, zeros: jax.Array) -> jax.Array:
    return zeros

  def update(
    self, state: jax.Array, regret: jax.Array, k: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    del k
    total = jnp.maximum(state + regret, 0.0)
    return total, total + regret
