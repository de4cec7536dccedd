"""Regret minimisers for one infostate, and exponents of discounts and of averaging weights.

A rule is a triple of pure functions over the edges of a level.
"""

import dataclasses
import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from solvers.sweeps.problem import Problem

__all__ = ["DiscountedRegret", "MirrorDescent", "PredictiveRegretPlus", "RegretRule", "Siblings"]


@dataclasses.dataclass(frozen=True)
class Schedule:
  """Exponent `start + slope * k / horizon` at a player's k-th update (Zhang et al. 2024)."""

  start: float  # of the line
  slope: float  # of the line
  horizon: Any = None  # each player's updates in the run; None for staying at `start`

  def at(self, k: jax.Array) -> Any:
    """Returns the exponent at the k-th update."""
    return self.start if self.horizon is None else self.start + self.slope * k / self.horizon


Exponent = float | Schedule


def decay(k: jax.Array, averaging: Exponent) -> jax.Array:
  """Returns `(k / (k + 1)) ** averaging`, the factor of an average before policy k + 1 is added."""
  return (k / (k + 1.0)) ** (averaging.at(k) if isinstance(averaging, Schedule) else averaging)


def at_horizon(part: Any, num_updates: Any) -> Any:
  """Returns an algorithm, or a part of one, whose schedules end after so many updates a player."""
  if not dataclasses.is_dataclass(part):
    return part
  if isinstance(part, Schedule):
    return part if part.horizon is not None else dataclasses.replace(part, horizon=num_updates)
  parts = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
  changed = {name: at_horizon(value, num_updates) for name, value in parts.items()}
  return dataclasses.replace(part, **changed)  # type: ignore[type-var]


@dataclasses.dataclass(frozen=True)
class Siblings:
  """The choices that the edges of a level belong to, for rules that must see them together.

  Attributes:
    problem, index, player: `player`'s moves to level `index`.
  """

  problem: Problem
  index: int
  player: int

  def normalise(self, weights: jax.Array) -> jax.Array:
    """Divides weights `[n, H]` by their sum over the choices; equal shares where all are zero."""
    return self.problem.normalise_rows(self.index, self.player, weights)

  def largest(self, rows: jax.Array) -> jax.Array:
    """Returns the largest of `rows` `[n, H]` over the choices that each edge belongs to."""
    return self.problem.largest_of_siblings(self.index, self.player, rows)


class RegretRule(Protocol):
  """A regret minimiser as three pure functions over the edges `[n, H]` of a level.

  Implementations are frozen dataclasses: equal settings are equal rules, so a jitted solver
  is compiled once for them.
  """

  def init(self, zeros: jax.Array) -> Any:
    """Returns the state before the first update, a pytree of arrays of the shape of `zeros`."""

  def update(self, state: Any, regret: jax.Array, k: jax.Array) -> Any:
    """Updates with a player's k-th instantaneous regrets (k = 1, 2, ...)."""

  def match(self, state: Any, siblings: Siblings, k: jax.Array) -> jax.Array:
    """Returns the policy after k updates, `[n, H]`: a distribution over each row's siblings."""


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
  """Regret matching with discounted regrets (DCFR; thesis, section 3.1.2).

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
    positive, negative = discount(k - 1, self.alpha), discount(k - 1, self.beta)
    by_sign = positive if self.alpha == self.beta else jnp.where(state > 0, positive, negative)
    return state * by_sign + regret

  def match(self, state: jax.Array, siblings: Siblings, k: jax.Array) -> jax.Array:
    """Matches regrets: choices are as likely as their positive sums.

    A choice without any gets exactly zero: a floor, however small, would let the other player
    collect regrets below it, and only their signs count.
    """
    return siblings.normalise(jnp.maximum(state, 0.0))


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


@dataclasses.dataclass(frozen=True)
class MirrorDescent:
  """A step of mirror descent by entropy, pulled to the uniform policy (Sokota et al. 2022).

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
    return siblings.normalise(jnp.exp(state - siblings.largest(state)))
