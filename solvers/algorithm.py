"""What an equilibrium-finding algorithm is: pure functions on one public tree."""

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from games.public_tree import PublicTree
from solvers.leaf_values import LeafQuery
from solvers.traversal import Levels, Setting


class Algorithm(Protocol):
  """An iterative algorithm; implementations are frozen dataclasses and thus static arguments.

  `solve` runs the loop. A caller with its own way to evaluate leaves (self-play packs the
  leaves of many subgames into one network call) runs it itself: `init`, `prime` for the
  players in `primed`, then `leaf_query` and `update` for players in turn.
  """

  @property
  def alternating(self) -> bool:
    """Whether players take turns; else both respond to the same policies."""
    ...

  @property
  def averaging(self) -> float:
    """Exponent of the averaging weights."""
    ...

  @property
  def primed(self) -> tuple[int, ...]:
    """Players for whom `prime` must see leaf values before the first update."""
    ...

  @property
  def values_of_average(self) -> bool:
    """Whether the root values are those of the average policy, not a mean over iterations."""
    ...

  def init(self, tree: PublicTree, setting: Setting, policy: Levels) -> Any:
    """Returns the state before the first update, with `policy` as the first policy."""
    ...

  def leaf_query(self, tree: PublicTree, setting: Setting, state: Any, player: int) -> LeafQuery:
    """Returns what the next update of `player` must know about the leaves."""
    ...

  def prime(
    self, tree: PublicTree, setting: Setting, state: Any, values: jax.Array | None, player: int
  ) -> Any:
    """Takes in the leaf values at the first policy."""
    ...

  def update(
    self, tree: PublicTree, setting: Setting, state: Any, values: jax.Array | None, player: int
  ) -> Any:
    """Updates `player` given its expected leaf values `[L, H]` (None without leaves)."""
    ...

  def merge(self, tree: PublicTree, setting: Setting, first: Any, second: Any) -> Any:
    """Joins player 0's part of `first` with player 1's of `second` (simultaneous updates)."""
    ...

  def current_policy(self, tree: PublicTree, setting: Setting, state: Any) -> Levels:
    """Returns the policy of this iteration, the one to sample leaves and act with."""
    ...

  def average_policy(self, tree: PublicTree, setting: Setting, state: Any) -> Levels:
    """Returns the policy that converges to an equilibrium."""
    ...

  def root_values(self, setting: Setting, state: Any) -> jax.Array:
    """Returns the mean over updates of the root's expected values: `[P, H]`."""
    ...


class RunningValues(NamedTuple):
  """Weighted sums of a player's root values over its updates."""

  total: jax.Array  # [P, H] counterfactual values
  weight: jax.Array  # [P]

  def add(self, player: int, values: jax.Array, decay: jax.Array) -> "RunningValues":
    total = self.total.at[player].set(self.total[player] * decay + values)
    weight = self.weight.at[player].set(self.weight[player] * decay + 1.0)
    return RunningValues(total, weight)

  def mean(self, root_mass: jax.Array) -> jax.Array:
    """Returns expected values: per unit of the opponent's compatible mass, zero without any."""
    scale = self.weight[:, None] * root_mass
    return self.total * (scale > 0) / (scale + (scale <= 0))

  def merge(self, other: "RunningValues") -> "RunningValues":
    """Takes player 0's sums from here and player 1's from `other`."""
    return RunningValues(
      pick_players(self.total, other.total), pick_players(self.weight, other.weight)
    )


def pick_players(first: jax.Array, second: jax.Array) -> jax.Array:
  """Joins row 0 of `first` with row 1 of `second`, both `[P, ...]`."""
  return jnp.stack([first[0], second[1]])
