"""Continual re-solving: the opponent follows or takes its promise, its range mixed in."""

import dataclasses

import jax
import jax.numpy as jnp

from solvers.algorithms.gadgets.resolve import Resolve
from solvers.sweeps.problem import Problem
from solvers.validation import check_number


@dataclasses.dataclass(frozen=True)
class ContinualResolve(Resolve):
  """`Resolve`, entered by a mixture of who follows and of who was believed to (section B.1.1).

  Each root infostate chooses by regret matching+ between following and what it is promised. The
  frequencies of following are normalised to a distribution before they are mixed: the raw ones
  would drown in the beliefs, and the search would be unsafe (Player of Games, appendix B.1.1).

  Attributes:
    searcher: whose policy is wanted.
    mix: share of those who follow. 1 trusts no beliefs, 0 nothing else, which is unsafe.
  """

  mix: float = 0.2

  def __post_init__(self):
    super().__post_init__()
    if not 0 <= check_number("mix", self.mix) <= 1:
      raise ValueError(f"mix={self.mix!r} must be a share, from 0 to 1")

  def entry(self, problem: Problem, state: jax.Array) -> jax.Array:
    opponent = 1 - self.searcher
    assert problem.alternatives is not None
    root = problem.root_beliefs(opponent)
    known = problem.alternatives.beliefs
    believed = root if known is None else jnp.asarray(known)
    met = (root > 0) & (problem.root_mass[opponent] > 0)
    follow = self._normalised(jnp.where(met, self.follows(state), 0.0), believed)
    mixed = self.mix * follow + (1.0 - self.mix) * self._normalised(believed, root)
    # The root's beliefs have dealt it already.
    return jnp.where(met, mixed / jnp.where(met, root, 1.0), 0.0)

  def _normalised(self, weights: jax.Array, fallback: jax.Array) -> jax.Array:
    total = weights.sum()
    return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), fallback)
