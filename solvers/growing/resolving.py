"""Re-solving for whichever player has promises, which is known only while the program runs."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.algorithms.gadgets import ContinualResolve
from solvers.algorithms.with_gadget import WithGadget
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.problem import Problem


class Promises(NamedTuple):
  """Alternative payoffs of a search's root, of at most one player.

  Attributes:
    values: `[P, H]` expected payoffs, for the opponent of the searcher.
    beliefs: `[P, H]` what it is believed to hold.
    given: `[P]` bool, whether a player has them.
  """

  values: jax.Array
  beliefs: jax.Array
  given: jax.Array

  @classmethod
  def none(cls, num_infostates: int, dtype: Any) -> "Promises":
    """Returns the promises of a search without an opponent."""
    nothing = jnp.zeros((2, num_infostates), dtype)
    return cls(nothing, nothing, jnp.zeros(2, bool))

  @classmethod
  def to_opponent(cls, searcher: Any, values: Any, beliefs: Any) -> "Promises":
    """Returns those of the opponent of `searcher`, `values` and `beliefs` `[H]`."""
    others = jnp.arange(2, dtype=jnp.int32) == 1 - jnp.asarray(searcher, jnp.int32)
    rows = [jnp.where(others[:, None], x, 0.0) for x in (values, beliefs)]
    return cls(rows[0], rows[1], others)


@dataclasses.dataclass(frozen=True)
class Resolving(WithGadget):
  """`WithGadget` whose searcher is data: a player with promises enters as the gadget says.

  Attributes:
    promises: may be traced.
  """

  promises: Promises

  @property
  def _opponents(self) -> tuple[int, ...]:
    return (0, 1)

  def _gadget(self, opponent: int) -> Any:
    assert isinstance(self.gadget, ContinualResolve)
    return dataclasses.replace(self.gadget, searcher=1 - opponent)

  def _promised(self, problem: Any, opponent: int) -> Problem:
    value, beliefs = self.promises.values[opponent], self.promises.beliefs[opponent]
    return dataclasses.replace(problem, alternatives=Alternatives(value, beliefs=beliefs))

  def _entry(self, problem: Problem, opponent: int, state: Any) -> jax.Array:
    entry = super()._entry(problem, opponent, state)
    return jnp.where(self.promises.given[opponent], entry, 1.0)
