"""Resolving: the opponent enters or takes what it is promised (Burch et al. 2014)."""

import dataclasses

import jax
import jax.numpy as jnp

from solvers.algorithms.gadgets.gadget import Gadget
from solvers.sweeps.problem import Problem


@dataclasses.dataclass(frozen=True)
class Resolve(Gadget):
  """Two choices for each root infostate, by regret matching+ (thesis, section 5.1.2).

  With estimates as alternatives this is Estimate, with gifts added to them Reach-Resolve.

  Attributes:
    searcher: whose policy is wanted.
  """

  def init(self, problem: Problem) -> jax.Array:
    return jnp.zeros((2, problem.num_infostates), problem.tree.dtype)

  def entry(self, problem: Problem, state: jax.Array) -> jax.Array:
    del problem
    return self.follows(state)

  def follows(self, state: jax.Array) -> jax.Array:
    """Returns how often each infostate prefers the subgame to its promise, `[H]`."""
    total = state.sum(axis=0)
    return jnp.where(total > 0, state[0] / jnp.where(total > 0, total, 1.0), 0.5)

  def update(
    self, problem: Problem, state: jax.Array, values: jax.Array, k: jax.Array
  ) -> jax.Array:
    del k
    assert problem.alternatives is not None
    gain = values - problem.alternatives.value
    follow = self.follows(state)
    return jnp.maximum(state + jnp.stack([(1.0 - follow) * gain, -follow * gain]), 0.0)
