"""Gadgets: how the opponent chooses between a subgame and what it is promised."""

import abc
import dataclasses
from typing import Any

import jax

from solvers.sweeps.problem import Problem
from solvers.validation import check_player


@dataclasses.dataclass(frozen=True)
class Gadget(abc.ABC):
  """How the opponent chooses between a subgame and what it is promised instead.

  No tree is changed: the opponent's own reach at the root is not one but how often it enters, an
  `[H]` that is updated with what entering is worth.

  Attributes:
    searcher: whose policy is wanted, 0 or 1; the other player enters or does not.
  """

  searcher: int

  def __post_init__(self) -> None:
    check_player(self.searcher, "searcher")

  @abc.abstractmethod
  def init(self, problem: Problem) -> Any:
    """Returns the state before the first update."""

  @abc.abstractmethod
  def entry(self, problem: Problem, state: Any) -> jax.Array:
    """Returns the opponent's own reach at the root, `[H]`."""

  @abc.abstractmethod
  def update(self, problem: Problem, state: Any, values: jax.Array, k: jax.Array) -> Any:
    """Updates with the opponent's k-th values of entering, `[H]`, expected payoffs."""
