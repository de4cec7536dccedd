"""Magnetic mirror descent (Sokota et al. 2022) with counterfactual values, towards uniform play."""

import dataclasses

import jax
import jax.numpy as jnp

from solvers.algorithms.regret_rules.rule import Siblings


@dataclasses.dataclass(frozen=True)
class MirrorDescent:
  """A step of mirror descent by entropy, pulled to the uniform policy.

  With regrets r, `log policy = (log policy + rate * r) / (1 + rate * pull)` up to a constant. Both
  fade as `1 / sqrt(k)`: as the pull does, the last policy nears an equilibrium.
  """

  rate: float
  pull: float

  def init(self, zeros: jax.Array) -> jax.Array:
    return zeros

  def update(self, state: jax.Array, regret: jax.Array, k: jax.Array) -> jax.Array:
    rate, pull = self.rate / jnp.sqrt(k), self.pull / jnp.sqrt(k)
    return (state + rate * regret) / (1 + rate * pull)

  def match(self, state: jax.Array, siblings: Siblings, k: jax.Array) -> jax.Array:
    del k
    return siblings.normalise(jnp.exp(state - siblings.largest(state)))
