"""Compatibility and payoffs of pairs of infostates: one protocol, two implementations."""

from typing import Protocol

import jax
import jax.numpy as jnp

from games import pairs
from games.public_tree import Array, PublicTree
from solvers.sweeps.dense_pairs import DensePairs
from solvers.sweeps.hole_cards import HoleCardPairs
from solvers.sweeps.levels import Levels


class Pairs(Protocol):
  """Pair compatibility and terminal payoffs of one tree at given root beliefs.

  Counterfactual reach at a node is own reach times `nature`. `DensePairs` keeps tables `[H, H]`,
  `HoleCardPairs` the cards of hands; nothing else tells the two apart.
  """

  @property
  def nature(self) -> tuple[Levels, Levels]:
    """For each player, for each level `[n or 1, H]`: root belief times public chance."""

  @property
  def root_mass(self) -> jax.Array:
    """The opponent's mass at the root that is compatible with an infostate: `[P, H]`."""

  def mask_reach(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns own reach `[n, H]` of level `index` without infostates that chance ruled out."""

  def mask_values(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns values `[n, H]` of level `index`, zero for impossible infostates."""

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    """Returns 1 where an infostate of level `index` is possible, `[n, H]`; None for everywhere."""

  def compatible_mass(self, reach: jax.Array, player: int) -> jax.Array:
    """Returns the mass of the opponent's `reach` `[L, H]` at the leaves that `player` may meet."""

  def at_leaf(self, row: jax.Array) -> "Pairs":
    """Returns the pairs of one leaf alone, of which `compatible_mass` may be asked."""

  def terminal_values(
    self, tree: PublicTree, opponent_reach: Levels, player: int
  ) -> tuple[jax.Array | None, ...]:
    """Returns `player`'s counterfactual values at each level's terminal nodes, `[T, H]`."""


_KINDS: dict[type, type[DensePairs] | type[HoleCardPairs]] = {
  pairs.DensePairs: DensePairs,
  pairs.HoleCards: HoleCardPairs,
}


def make_pairs(tree: PublicTree, beliefs: jax.Array, lanes: int = 1) -> Pairs:
  """Computes what stays fixed about pairs while `tree` is solved from `beliefs` `[P, H]`.

  `lanes` is how many trees of the same shape are solved side by side, by `jax.vmap`.
  """
  return _KINDS[pairs.kind_of(tree)].make(tree, beliefs, lanes)


def root_mass(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns the opponent's mass compatible with each root infostate: `[P, H]`."""
  return _KINDS[pairs.kind_of(tree)].mass_at_root(tree, jnp.asarray(beliefs))


def root_marginals(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns each player's marginal of the joint prior at the root: `[P, H]`; nothing is checked."""
  joint = jnp.asarray(beliefs) * root_mass(tree, beliefs)
  return joint / joint.sum(axis=1, keepdims=True)
