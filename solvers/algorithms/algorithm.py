"""The protocol of equilibrium-finding algorithms: pure functions of a problem and a state."""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from solvers.algorithms.schedule import Exponent
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep, per_unit_of_mass

Pair = tuple[jax.Array, jax.Array]  # of each player


class Algorithm(Protocol):
  """An iterative algorithm; implementations are frozen dataclasses and thus static arguments.

  `loop.run` runs them all: `init`, `prime` for the players in `primed`, then `leaf_query` and
  `update` for players in turn.
  """

  @property
  def alternating(self) -> bool:
    """Whether players take turns; else both respond to the same policies."""

  @property
  def averaging(self) -> Exponent:
    """Exponent of the averaging weights, or its schedule."""

  @property
  def primed(self) -> tuple[int, ...]:
    """Players for whom `prime` must see leaf values before the first update."""
    return ()

  @property
  def head_start(self) -> int:
    """Number of iterations that the first policy stands for; 0 unless warm-started."""
    return 0

  @property
  def uses_average(self) -> bool:
    """Whether root values, and beliefs where play goes on, are those of the average policy.

    Else root values are a mean over iterations, and beliefs follow the current policy.
    """
    return False

  def init(self, problem: Problem, policy: Levels | None = None) -> Any:
    """Returns the state before the first update, with `policy` (uniform if None) as the first."""

  def leaf_query(self, problem: Problem, state: Any, player: int) -> LeafQuery:
    """Returns the leaf query of `player`'s next update."""

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    """Updates with the leaf values at the first policy, of players in `primed`."""
    del problem, values, player
    return state

  def update(
    self, problem: Problem, state: Any, values: jax.Array | None, player: int
  ) -> tuple[Any, Sweep]:
    """Updates `player` given its expected leaf values `[L, H]` (None without leaves).

    Returns:
      The new state, and the sweep of counterfactual values that it learned from.
    """

  def merge(self, problem: Problem, first: Any, second: Any) -> Any:
    """Joins player 0's part of `first` with player 1's of `second` (simultaneous updates)."""

  def extend(self, problem: Problem, state: Any) -> Any:
    """Returns the state on a problem that nodes have joined since: their moves become choices."""

  def current_policy(self, problem: Problem, state: Any) -> Levels:
    """Returns the policy of this iteration, the one to sample leaves and act with."""

  def average_policy(self, problem: Problem, state: Any) -> Levels:
    """Returns the policy that converges to an equilibrium."""

  def root_values(self, problem: Problem, state: Any) -> jax.Array:
    """Returns the mean over updates of the root's expected values: `[P, H]`."""


class RunningValues(NamedTuple):
  """Weighted sums of each player's root values over its updates.

  What an update leaves alone is an array of its own: a GPU would copy rows of `[P, ...]`.
  """

  total: Pair  # [H] each, counterfactual values
  weight: Pair  # [] each

  @classmethod
  def zeros(cls, problem: Problem, dtype: Any) -> "RunningValues":
    total, weight = jnp.zeros(problem.num_infostates, dtype), jnp.zeros((), dtype)
    return cls((total, total), (weight, weight))

  def add(self, player: int, values: jax.Array, decay: jax.Array) -> "RunningValues":
    return RunningValues(
      replace_player(self.total, player, self.total[player] * decay + values),
      replace_player(self.weight, player, self.weight[player] * decay + 1.0),
    )

  def mean(self, root_mass: jax.Array) -> jax.Array:
    """Returns expected values `[P, H]`: per unit of the opponent's compatible mass, else zero."""
    return per_unit_of_mass(jnp.stack(self.total), jnp.stack(self.weight)[:, None] * root_mass)

  def merge(self, other: "RunningValues") -> "RunningValues":
    """Takes player 0's sums from here and player 1's from `other`."""
    return RunningValues(
      pick_players(self.total, other.total), pick_players(self.weight, other.weight)
    )


def pick_players(first: Pair, second: Pair) -> Pair:
  """Joins player 0's part of `first` with player 1's of `second`."""
  return first[0], second[1]


def replace_player(pair: tuple[Any, Any], player: int, value: Any) -> tuple[Any, Any]:
  """Returns the pair with `player`'s part replaced."""
  return (value, pair[1]) if player == 0 else (pair[0], value)
