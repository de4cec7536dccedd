"""Queries about the leaves of depth-limited trees, and the PBSs in them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem


class LeafQuery(NamedTuple):
  """A question about all leaves of a tree, from one player's seat.

  Attributes:
    features: `[L, F]` the public states as the traverser sees them.
    traverser: 0 or 1, static.
    beliefs: `[L, P, H]` PBS at each leaf, rows sum to one; where no infostate is reached, the
      belief is uniform over those that the rules allow.
    value_beliefs: None, or `[L, P, H]` if the values must be taken over other beliefs than
      those that the subgames are solved at (sound CFR-AVG).
    encoded: None, or what the leaf function's own `encode` or `encode_both` made of the features
      before the solver's loop (`encode_for_both`).
  """

  features: jax.Array  # [L, F]
  traverser: int
  beliefs: jax.Array  # [L, P, H]
  value_beliefs: jax.Array | None = None
  encoded: Any = None


# (params, query) -> [L, H]: the traverser's expected value for each of its infostates, the
# other's infostate drawn from the beliefs.
LeafValues = Callable[[Any, LeafQuery], jax.Array]


def encode_for_both(
  leaf_values: LeafValues, params: Any, features: tuple[jax.Array, jax.Array]
) -> tuple[Any, Any]:
  """Returns the encoding of each player's queries, by `leaf_values` if it has one.

  That is `encode_both(params, features)`, or `encode(params, features)` of each player's own.

  Args:
    leaf_values: which will be asked.
    params: passed on to it.
    features: `[R, F]` the leaves as each player sees them.
  """
  if hasattr(leaf_values, "encode_both"):
    return leaf_values.encode_both(params, features)
  if hasattr(leaf_values, "encode"):
    return leaf_values.encode(params, features[0]), leaf_values.encode(params, features[1])
  return None, None


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


def leaf_beliefs(problem: Problem, own: tuple[Levels, Levels]) -> jax.Array:
  """Returns the PBS at each leaf `[L, P, H]`, given both players' own reach."""
  return beliefs_of(problem, (problem.leaf_reach(own[0], 0), problem.leaf_reach(own[1], 1)))


def beliefs_of(problem: Problem, reach: tuple[jax.Array, jax.Array] | jax.Array) -> jax.Array:
  """Returns the PBS at each leaf `[L, P, H]`, given players' reach there, `[L, H]` each."""
  return normalise_beliefs(jnp.stack((reach[0], reach[1]), axis=1), problem.leaf_possible())


def make_query(
  problem: Problem, player: int, beliefs: jax.Array, value_beliefs: jax.Array | None = None
) -> LeafQuery:
  """Returns `player`'s question about the leaves at `beliefs` `[L, P, H]`."""
  return LeafQuery(problem.leaf_features(player), player, beliefs, value_beliefs)
