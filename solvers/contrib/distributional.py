"""Alternatives of a normal distribution (thesis, sections 5.1.5 and 5.1.6)."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr

from solvers.algorithms.gadgets import Gadget
from solvers.sweeps.problem import Problem

_STEP = 0.75  # of the quadrature


class Observed(NamedTuple):
  """What entering was worth, `[H]` each: the last value, the sum and the sum of squares."""

  last: jax.Array
  total: jax.Array
  squares: jax.Array
  updates: jax.Array  # []


@dataclasses.dataclass(frozen=True)
class Distributional(Gadget):
  """Alternatives that are normally distributed around a value (thesis, sections 5.1.5 and 5.1.6).

  The opponent sees which alternative was drawn, so in an infostate it enters as often as that is
  less than what entering is worth: with probability P(X <= v) (Theorem 22), or with Hedge over
  every X at once (equation 5.3). As spreads go to zero the second is Resolve by Hedge; as they
  grow both maximise the sum of margins.

  Attributes:
    searcher: whose policy is wanted.
    softmax: whether to use Hedge, which the thesis found better in practice.
  """

  softmax: bool = True

  def init(self, problem: Problem) -> Observed:
    if problem.alternatives is None or problem.alternatives.spread is None:
      raise ValueError("spread=None, but Distributional needs it: give Alternatives(value, spread)")
    zeros = jnp.zeros(problem.num_infostates, problem.tree.dtype)
    return Observed(zeros, zeros, zeros, jnp.zeros((), zeros.dtype))

  def entry(self, problem: Problem, state: Observed) -> jax.Array:
    mean = jnp.asarray(problem.alternatives.value, state.last.dtype)
    spread = jnp.asarray(problem.alternatives.spread, state.last.dtype)
    if self.softmax:
      rate = hedge_rate(state)
      entry = mean_sigmoid(
        rate * (state.total - state.updates * mean), rate * state.updates * spread
      )
    else:
      gain = state.last - mean
      entry = ndtr(gain / jnp.where(spread > 0, spread, 1.0))
      entry = jnp.where(spread > 0, entry, (gain >= 0).astype(gain.dtype))
    return jnp.where(state.updates > 0, entry, 0.5)

  def update(self, problem: Problem, state: Observed, values: jax.Array, k: jax.Array) -> Observed:
    return Observed(values, state.total + values, state.squares + values**2, k)


def hedge_rate(observed: Observed) -> jax.Array:
  """Returns Hedge's tuning parameter for two actions, `[H]` (thesis, section 5.1.6)."""
  # sqrt(ln 2) / (3 sqrt(variance) sqrt(t)); before there is a variance, values vary by their size.
  count = jnp.maximum(observed.updates, 1.0)
  mean = observed.total / count
  variance = jnp.maximum(observed.squares / count - mean**2, 0.0)
  tiny = jnp.finfo(variance.dtype).eps * observed.squares / count
  variance = jnp.where(variance > tiny, variance, observed.squares / count)
  return jnp.sqrt(jnp.log(2.0) / (9.0 * jnp.where(variance > 0, variance, 1.0) * count))


def mean_sigmoid(centre: jax.Array, width: jax.Array) -> jax.Array:
  """Returns the mean of sigmoid(centre - width Z) over a standard normal Z, to 1e-7."""
  # The trapezoidal rule converges exponentially where the integrand is smooth over a step: over Z
  # for widths up to one, else as the mean of the normal distribution function over a logistic
  # variable.
  narrow = jnp.minimum(width, 1.0)
  z = _STEP * np.arange(-8, 9)
  weights = jnp.asarray(np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum(), centre.dtype)
  sigmoid = jax.nn.sigmoid(centre[None] - narrow[None] * z[:, None].astype(centre.dtype))
  over_normal = jnp.matmul(weights, sigmoid, precision=lax.Precision.HIGHEST)
  wide = jnp.maximum(width, 1.0)
  x = _STEP * np.arange(-27, 28)
  logistic = jnp.asarray(_STEP / (4.0 * np.cosh(x / 2) ** 2), centre.dtype)
  cdf = ndtr((centre[None] - x[:, None].astype(centre.dtype)) / wide[None])
  over_logistic = jnp.matmul(logistic, cdf, precision=lax.Precision.HIGHEST)
  return jnp.where(width <= 1.0, over_normal, over_logistic)
