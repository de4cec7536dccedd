"""Expected values of a fixed policy, and the sweep that everything about policies shares."""

from typing import Any

import jax
import jax.numpy as jnp

from games.public_tree import Array, PublicTree
from solvers import leaf_values as leaves
from solvers import traversal, validation
from solvers.leaf_values import LeafValues
from solvers.traversal import Levels, Setting


def policy_values(
  tree: PublicTree,
  setting: Setting,
  policy: Levels,
  leaf_values: LeafValues | None = None,
  params: Any = None,
) -> jax.Array:
  """Returns both players' expected values per root infostate under `policy`: `[P, H]`."""
  answers = None
  if leaf_values is not None:
    at_leaves = leaves.leaf_reach(tree, setting, traversal.both_reach(tree, setting, policy))
    answers = (
      leaf_values(params, leaves.make_query(tree, 0, at_leaves)),
      leaf_values(params, leaves.make_query(tree, 1, at_leaves)),
    )
  return values_given_leaves(tree, setting, policy, answers)


def values_given_leaves(
  tree: PublicTree,
  setting: Setting,
  policy: Levels,
  answers: tuple[jax.Array, jax.Array] | None,
) -> jax.Array:
  """Returns `policy_values` given both players' expected leaf values, each `[L, H]`."""
  reach = traversal.both_reach(tree, setting, policy)
  totals = []
  for player in (0, 1):
    opponent = reach[1 - player]
    values = None
    if answers is not None:
      values = traversal.weigh_leaf_values(tree, setting, answers[player], opponent, player)
    sweep = traversal.values_up(tree, setting, policy, opponent, values, player)
    totals.append(sweep.root)
  return per_unit_of_mass(jnp.stack(totals), setting.root_mass)


def per_unit_of_mass(values: jax.Array, mass: jax.Array) -> jax.Array:
  """Divides counterfactual values by the compatible mass; zero where there is none."""
  return jnp.where(mass > 0, values / jnp.where(mass > 0, mass, 1.0), 0.0)


def check_whole(tree: PublicTree, policy, beliefs) -> jax.Array:
  """Checks the arguments that metrics share; returns the beliefs `[P, H]`."""
  validation.check_unstacked(tree)
  if tree.depth_limited:
    raise ValueError(
      f"tree is cut off at {tree.num_leaves} leaves, so a policy on it has no value; build the "
      "tree without a depth"
    )
  validation.check_policy("policy", tree, policy)
  if beliefs is None:
    return jnp.asarray(tree.prior)
  validation.check_beliefs(tree, beliefs)
  return jnp.asarray(beliefs, tree.dtype)


def expected_values(tree: PublicTree, policy: Array, *, beliefs: Array | None = None) -> jax.Array:
  """Computes what each player expects under `policy`, for each of its root infostates.

  Args:
    tree: a tree without leaves.
    policy: `[N, H]`, as `solve` returns it.
    beliefs: `[P, H]` at the root; None for the tree's own prior.

  Returns:
    `[P, H]` payoffs, the other's infostate drawn from the root beliefs conditioned on the
    player's. Zero where no infostate of the other is compatible.

  Raises:
    ValueError: the tree is depth-limited or stacked, or `policy` or `beliefs` has the wrong
      shape or is concrete and not a distribution.
  """
  beliefs = check_whole(tree, policy, beliefs)
  return _expected_values(tree, jnp.asarray(policy, tree.dtype), beliefs)


@jax.jit
def _expected_values(tree, policy, beliefs):
  setting = traversal.prepare(tree, beliefs)
  return policy_values(tree, setting, traversal.split_levels(tree, policy))
