"""What a depth-limited solver asks about its leaves, and how the answers enter CFR.

CFR-D (ReBeL, section 5.1) asks for values at the beliefs of the current policies, CFR-AVG
(appendix I) at those of the average policies.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.public_tree import PublicTree
from solvers import traversal
from solvers.traversal import Levels, Setting


class LeafQuery(NamedTuple):
  """A question about all leaves of a tree, from one player's seat.

  Attributes:
    features: `[L, F]` the public states as the traverser sees them.
    traverser: 0 or 1, static.
    beliefs: `[L, P, H]` PBS at each leaf, rows sum to one; where no infostate is reached, the
      belief is uniform over those that the rules allow.
    value_beliefs: None, or `[L, P, H]` if the values must be taken over other beliefs than
      those that the subgames are solved at (sound CFR-AVG).
    encoded: None, or what the leaf function's own `encode` made of the features before the
      solver's loop.
  """

  features: jax.Array  # [L, F]
  traverser: int
  beliefs: jax.Array  # [L, P, H]
  value_beliefs: jax.Array | None = None
  encoded: Any = None


# (params, query) -> [L, H]: the traverser's expected value for each of its infostates, the
# other's infostate drawn from the beliefs.
LeafValues = Callable[[Any, LeafQuery], jax.Array]


class LeafBeliefs(enum.Enum):
  """Which policies set the leaves' beliefs."""

  CURRENT = "current"  # CFR-D: the policies of this iteration
  AVERAGE = "average"  # modified CFR-AVG: averages, values turned back into this iteration's
  AVERAGE_SOUND = "average-sound"  # CFR-AVG: solved at the averages, valued at this iteration


def leaf_possible(tree: PublicTree) -> jax.Array | None:
  """Returns which infostates the rules allow at the leaves, `[L, P, H]`, or None for all."""
  return None if tree.possible is None else jnp.asarray(tree.possible)[tree.leaf_nodes]


def normalise_beliefs(reach: jax.Array, possible: jax.Array | None) -> jax.Array:
  """Turns reach `[..., H]` into beliefs; without any mass, uniform over `possible`."""
  total = reach.sum(axis=-1, keepdims=True)
  if possible is None:
    fallback = jnp.full_like(reach, 1.0 / reach.shape[-1])
  else:
    allowed = possible.astype(reach.dtype)
    fallback = allowed / jnp.maximum(allowed.sum(axis=-1, keepdims=True), 1.0)
  # A sum of subnormal numbers would divide to garbage, so it counts as no mass.
  enough = total > jnp.finfo(reach.dtype).tiny
  return jnp.where(enough, reach / jnp.where(enough, total, 1.0), fallback)


def make_query(
  tree: PublicTree,
  player: int,
  reach: tuple[jax.Array, jax.Array],
  value_reach: tuple[jax.Array, jax.Array] | None = None,
) -> LeafQuery:
  """Builds `player`'s query from both players' reach at the leaves, each `[L, H]`."""
  possible = leaf_possible(tree)
  beliefs = normalise_beliefs(jnp.stack(reach, axis=1), possible)
  value_beliefs = None
  if value_reach is not None:
    value_beliefs = normalise_beliefs(jnp.stack(value_reach, axis=1), possible)
  return LeafQuery(tree.leaf_features[player], player, beliefs, value_beliefs)


def leaf_reach(
  tree: PublicTree, setting: Setting, reach: tuple[Levels, Levels]
) -> tuple[jax.Array, jax.Array]:
  """Returns both players' reach at the leaves with root beliefs and chance, each `[L, H]`."""
  return (
    traversal.counterfactual_leaf_reach(tree, setting, reach[0], 0),
    traversal.counterfactual_leaf_reach(tree, setting, reach[1], 1),
  )
