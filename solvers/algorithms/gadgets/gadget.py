"""The protocol of gadgets: how the opponent chooses between a subgame and what it is promised."""

from typing import Any, Protocol

import jax

from solvers.sweeps.problem import Problem


class Gadget(Protocol):
  """How the opponent chooses between a subgame and what it is promised instead.

  No tree is changed: the opponent's own reach at the root is not one but how often it enters, an
  `[H]` that is updated with what entering is worth. Implementations are frozen dataclasses.
  """

  @property
  def searcher(self) -> int:
    """The player whose policy is wanted; the other one enters or does not."""
    ...

  def init(self, problem: Problem) -> Any:
    """Returns the state before the first update."""
    ...

  def entry(self, problem: Problem, state: Any) -> jax.Array:
    """Returns the opponent's own reach at the root, `[H]`."""
    ...

  def update(self, problem: Problem, state: Any, values: jax.Array, k: jax.Array) -> Any:
    """Takes in the opponent's k-th values of entering, `[H]`, expected payoffs."""
    ...
