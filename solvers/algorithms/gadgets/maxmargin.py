"""Maxmargin: the opponent picks the infostate in which the subgame serves it best."""

import dataclasses

import jax
import jax.numpy as jnp

from solvers.algorithms.gadgets.gadget import Gadget
from solvers.sweeps.problem import Problem


@dataclasses.dataclass(frozen=True)
class Maxmargin(Gadget):
  """One choice among all root infostates, payoffs less what each is promised (section 5.1.10).

  The smallest margin over infostates is what its equilibria maximise. The choice is by regret
  matching+. With gifts added to the alternatives this is Reach-Maxmargin.

  Attributes:
    searcher: whose policy is wanted.
  """

  def init(self, problem: Problem) -> jax.Array:
    return jnp.zeros(problem.num_infostates, problem.tree.dtype)

  def _picks(self, problem: Problem, state: jax.Array) -> jax.Array:
    """Returns how often each infostate is picked, `[H]`, of those that can be met."""
    real = (self._weight(problem) > 0).astype(state.dtype)
    weights = state * real
    total = weights.sum()
    return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), real / real.sum())

  def _weight(self, problem: Problem) -> jax.Array:
    """Returns the joint prior of the opponent's infostates, up to a constant: `[H]`."""
    opponent = 1 - self.searcher
    return problem.root_beliefs(opponent) * problem.root_mass[opponent]

  def entry(self, problem: Problem, state: jax.Array) -> jax.Array:
    # The opponent picks, and nature then deals the searcher's infostate. The root's beliefs have
    # dealt both, so their weight is taken out.
    weight = self._weight(problem)
    return self._picks(problem, state) / jnp.where(weight > 0, weight, 1.0)

  def update(
    self, problem: Problem, state: jax.Array, values: jax.Array, k: jax.Array
  ) -> jax.Array:
    del k
    assert problem.alternatives is not None
    gain = values - problem.alternatives.value
    return jnp.maximum(state + gain - (self._picks(problem, state) * gain).sum(), 0.0)
