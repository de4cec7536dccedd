"""Gadgets: the opponent's choice between a subgame and its alternative payoffs."""

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from games.arrays import Share
from solvers.sweeps.problem import Problem
from solvers.validation import Player, check_fields


@dataclasses.dataclass(frozen=True)
class Gadget(abc.ABC):
  """The opponent's choice between entering a subgame and taking its alternative payoff."""

  # No tree is changed: the opponent's own reach at the root is how often it enters, `[H]`.
  searcher: Player  # whose policy is wanted, 0 or 1; the other player enters or does not

  def __post_init__(self) -> None:
    check_fields(self)

  @abc.abstractmethod
  def init(self, problem: Problem) -> Any:
    """Returns the state before the first update."""

  @abc.abstractmethod
  def entry(self, problem: Problem, state: Any) -> jax.Array:
    """Returns the opponent's own reach at the root, `[H]`."""

  @abc.abstractmethod
  def update(self, problem: Problem, state: Any, values: jax.Array, k: jax.Array) -> Any:
    """Updates with the opponent's k-th values of entering, `[H]`, expected payoffs."""


@dataclasses.dataclass(frozen=True)
class Maxmargin(Gadget):
  """One choice among all root infostates, payoffs less their alternatives (thesis, section 5.1.10).

  Its equilibria maximise the smallest margin over infostates. The choice is by regret matching+.
  With gifts added to the alternatives this is Reach-Maxmargin.

  Attributes:
    searcher: whose policy is wanted.
  """

  def init(self, problem: Problem) -> jax.Array:
    return jnp.zeros(problem.num_infostates, problem.tree.dtype)

  def _picks(self, problem: Problem, state: jax.Array) -> jax.Array:
    """Returns how often each infostate is picked, `[H]`, of those that can be met."""
    real = (self._weight(problem) > 0).astype(state.dtype)
    return _shares(state * real, real / real.sum())

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
    gain = values - problem.alternatives.value
    return jnp.maximum(state + gain - (self._picks(problem, state) * gain).sum(), 0.0)


@dataclasses.dataclass(frozen=True)
class Resolve(Gadget):
  """Each root infostate enters or takes its alternative, by regret matching+ (thesis, 5.1.2).

  With estimates as alternatives this is Estimate, with gifts added to them Reach-Resolve.

  Attributes:
    searcher: whose policy is wanted.
  """

  def init(self, problem: Problem) -> jax.Array:
    return jnp.zeros((2, problem.num_infostates), problem.tree.dtype)

  def entry(self, problem: Problem, state: jax.Array) -> jax.Array:
    return self.follows(state)

  def follows(self, state: jax.Array) -> jax.Array:
    """Returns how often each infostate prefers the subgame to its promise, `[H]`."""
    total = state.sum(axis=0)
    return jnp.where(total > 0, state[0] / jnp.where(total > 0, total, 1.0), 0.5)

  def update(
    self, problem: Problem, state: jax.Array, values: jax.Array, k: jax.Array
  ) -> jax.Array:
    gain = values - problem.alternatives.value
    follow = self.follows(state)
    return jnp.maximum(state + jnp.stack([(1.0 - follow) * gain, -follow * gain]), 0.0)


@dataclasses.dataclass(frozen=True)
class ContinualResolve(Resolve):
  """`Resolve` with the opponent's earlier range mixed in (Player of Games, section B.1.1).

  Each root infostate follows, or takes its promise, by regret matching+. The range of those that
  follow is normalised before it is mixed: raw, it would be small beside the beliefs.

  Attributes:
    searcher: whose policy is wanted.
    mix: share of the range that follows. 1 ignores the earlier beliefs; 0 is unsafe search.
  """

  mix: Share = 0.2

  def entry(self, problem: Problem, state: jax.Array) -> jax.Array:
    opponent = 1 - self.searcher
    root = problem.root_beliefs(opponent)
    known = problem.alternatives.beliefs
    believed = root if known is None else jnp.asarray(known)
    met = (root > 0) & (problem.root_mass[opponent] > 0)
    follow = _shares(jnp.where(met, self.follows(state), 0.0), believed)
    mixed = self.mix * follow + (1.0 - self.mix) * _shares(believed, root)
    # The root's beliefs have dealt it already.
    return jnp.where(met, mixed / jnp.where(met, root, 1.0), 0.0)


def _shares(weights: jax.Array, fallback: jax.Array) -> jax.Array:
  """Returns weights as shares of their sum; `fallback` where that is zero."""
  total = weights.sum()
  return jnp.where(total > 0, weights / jnp.where(total > 0, total, 1.0), fallback)
