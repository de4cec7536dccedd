"""Sweeps over a public tree: reach probabilities down, counterfactual values up.

All functions here work on one tree; batches come from `jax.vmap`. Moving arrays between levels
(`levels`), what stays fixed during a solve (`setting`), terminal nodes (`terminal_values`) and
normalising policies (`policies`) have files of their own and are passed on from here, so that an
algorithm needs this one import.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import PublicTree
from solvers import hole_cards
from solvers.levels import (
  Levels,
  join_levels,
  lift,
  lower,
  reduce_children,
  split_levels,
  to_children,
)
from solvers.policies import normalise_policy, normalise_rows
from solvers.setting import Setting, choose, moves_at, prepare, root_mass
from solvers.terminal_values import terminal_values

__all__ = [
  "Levels", "Setting", "Sweep", "both_reach", "choose", "compatible_mass",
  "counterfactual_leaf_reach", "join_levels", "leaf_rows", "lift", "lower", "moves_at",
  "normalise_policy", "normalise_rows", "own_reach", "prepare", "reach_below", "reduce_children",
  "root_mass", "split_levels", "terminal_values", "to_children", "values_up", "weigh_leaf_values",
]  # fmt: skip


def own_reach(
  tree: PublicTree,
  setting: Setting,
  policy: Levels,
  player: int,
  root: jax.Array | None = None,
) -> Levels:
  """Returns `player`'s reach by its own moves alone.

  `policy` holds a probability for every edge, `[n, H]` a level (the root's is ignored). `root`
  is the reach at the root's infostates `[H]`, one by default.
  """
  if root is None:
    root = jnp.ones(tree.num_infostates, policy[0].dtype)
  live = None if setting.hands is None else setting.hands.live[player][0]
  reach = [_among(live, root[None])]
  for i in range(1, len(policy)):
    reach.append(reach_below(tree, setting, i, policy[i], reach[-1], player))
  return tuple(reach)


def reach_below(
  tree: PublicTree, setting: Setting, index: int, policy: jax.Array, above: jax.Array, player: int
) -> jax.Array:
  """Returns `player`'s own reach of level `index` from that of the level above, `[n, H]` each."""
  below = lift(tree, index, player, to_children(tree.structure.levels[index], above))
  moved = moves_at(tree, setting, index, player)
  if moved is not False:
    below = below * choose(moved, policy, jnp.ones_like(policy))
  return _among(None if setting.hands is None else setting.hands.live[player][index], below)


def _among(live: jax.Array | None, rows: jax.Array) -> jax.Array:
  """Returns `rows` `[n, H]`, zero for hands that are blocked; `live` is None where none is."""
  return rows if live is None else rows * live


def both_reach(tree: PublicTree, setting: Setting, policy: Levels) -> tuple[Levels, Levels]:
  """Returns both players' `own_reach`."""
  return own_reach(tree, setting, policy, 0), own_reach(tree, setting, policy, 1)


def leaf_rows(tree: PublicTree, levels: Levels) -> jax.Array:
  """Returns the rows of the leaves `[L, H]` of an array kept by level."""
  rows = [
    x[level.num_inner : level.num_inner + level.num_leaves]
    for x, level in zip(levels, tree.structure.levels)
    if level.num_leaves
  ]
  if not rows:
    return jnp.zeros((0, tree.num_infostates), levels[0].dtype)
  return rows[0] if len(rows) == 1 else jnp.concatenate(rows, axis=0)


def counterfactual_leaf_reach(
  tree: PublicTree, setting: Setting, reach: Levels, player: int
) -> jax.Array:
  """Returns `player`'s reach at the leaves with root beliefs and chance: `[L, H]`."""
  nature = setting.nature[player]
  full = tuple(jnp.broadcast_to(x, y.shape) for x, y in zip(nature, reach))
  return leaf_rows(tree, reach) * leaf_rows(tree, full)


def compatible_mass(setting: Setting, reach: jax.Array, player: int) -> jax.Array:
  """Returns the mass of opponent's `reach` `[L, H]` compatible with `player`'s infostates."""
  if setting.hands is not None:
    return hole_cards.compatible_mass(reach)
  if setting.leaf_weights is None:
    return jnp.broadcast_to(reach.sum(axis=-1, keepdims=True), reach.shape)
  weights = setting.leaf_weights if player == 0 else setting.leaf_weights.swapaxes(-1, -2)
  if len(weights) == 1:
    return jnp.matmul(reach, weights[0].T, precision=lax.Precision.HIGHEST)
  return jnp.einsum("lij,lj->li", weights, reach, precision=lax.Precision.HIGHEST)


class Sweep(NamedTuple):
  """A traverser's counterfactual values.

  Attributes:
    nodes: for each level `[n, H]`, the value of reaching the node, in the node's infostates.
    root: `[H]`.
    parents: for each level `[n, H]`, the value of the parent, in the node's infostates; None
      at levels that the traverser did not move to.
  """

  nodes: Levels
  root: jax.Array
  parents: tuple[jax.Array | None, ...]


def values_up(
  tree: PublicTree,
  setting: Setting,
  policy: Levels | None,
  opponent_reach: Levels,
  leaf_values: jax.Array | None,
  player: int,
) -> Sweep:
  """Computes `player`'s counterfactual values from the bottom up.

  Args:
    tree: the tree.
    setting: `prepare(tree, beliefs)`.
    policy: for each level `[n, H]`; the rows that `player` moved to are used. None to respond
      best instead: the maximum over the player's moves.
    opponent_reach: the opponent's own reach, for each level `[n, H]`.
    leaf_values: `[L, H]` expected values at the leaves times the opponent's compatible reach
      (`weigh_leaf_values`); None if there are no leaves.
    player: whose values, 0 or 1.

  Returns:
    The values; see `Sweep`.
  """
  structure = tree.structure
  terminals = terminal_values(tree, setting, opponent_reach, player)
  nodes: list[jax.Array] = [jnp.zeros(())] * len(structure.levels)
  parents: list[jax.Array | None] = [None] * len(structure.levels)
  inner = None
  for i in reversed(range(len(structure.levels))):
    level = structure.levels[i]
    parts = [] if inner is None else [inner]
    if level.num_leaves:
      assert leaf_values is not None
      start = structure.leaf_offsets[i]
      parts.append(leaf_values[start : start + level.num_leaves])
    ends = terminals[i]
    if ends is not None:
      parts.append(ends)
    values = parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=0)
    if setting.own_possible is not None:
      values = values * setting.own_possible[player][i]
    if setting.hands is not None:
      values = _among(setting.hands.live[player][i], values)
    nodes[i] = values
    if i == 0:
      break
    moved = moves_at(tree, setting, i, player)
    above = structure.levels[i - 1].num_inner
    if policy is None:
      inner = _best_over_children(tree, setting, i, values, above, player, moved)
    else:
      weighted = values if moved is False else choose(moved, policy[i] * values, values)
      inner = reduce_children(level, lower(tree, i, player, weighted), above)
    if moved is not False:
      parents[i] = lift(tree, i, player, to_children(level, inner))
  return Sweep(tuple(nodes), nodes[0][0], tuple(parents))


def _best_over_children(tree, setting, index, values, num_parents, player, moved):
  level = tree.structure.levels[index]
  total = best = None
  if moved is not True:
    total = reduce_children(level, lower(tree, index, player, values), num_parents)
  if moved is not False:
    candidates = values
    if setting.exists is not None:
      candidates = jnp.where(setting.exists[index] > 0, values, -jnp.inf)
    candidates = lower(tree, index, player, candidates, maximum=True)
    best = reduce_children(level, candidates, num_parents, maximum=True)
    best = jnp.where(jnp.isfinite(best), best, 0.0)  # infostates that do not exist
  if total is None or best is None:
    return best if total is None else total
  start = tree.structure.offsets[index - 1]
  kind = tree.kind[start : start + num_parents, None]
  return jnp.where(kind == player, best, total)


def weigh_leaf_values(
  tree: PublicTree,
  setting: Setting,
  values: jax.Array,
  opponent_reach: Levels,
  player: int,
) -> jax.Array:
  """Turns expected values at the leaves `[L, H]` into counterfactual values `[L, H]`."""
  reach = counterfactual_leaf_reach(tree, setting, opponent_reach, 1 - player)
  return values * compatible_mass(setting, reach, player)
