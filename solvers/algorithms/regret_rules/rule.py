"""The protocol of regret rules, and the siblings that they match over."""

import dataclasses
from typing import Any, Protocol

import jax

from solvers.sweeps.problem import Problem


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
