"""Policies from non-negative weights of edges."""

import jax
import jax.numpy as jnp

from games.game import CHANCE
from games.public_tree import PublicTree
from solvers.levels import Levels, lift, lower, reduce_children, to_children
from solvers.setting import Setting, choose, moves_at


def normalise_policy(tree: PublicTree, setting: Setting, weights: Levels) -> Levels:
  """Divides non-negative weights of edges by their sum over the mover's choices.

  Where all are zero the choices are equally likely. Rows that no player moved to are one, and
  rows of padding zero.
  """
  policy = [jnp.ones_like(weights[0])]
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    actor = level.parent_actor
    exists = jnp.ones_like(weights[i])
    if setting.exists is not None:
      exists = exists * setting.exists[i]
    if actor == CHANCE:
      policy.append(exists)
      continue
    normalised = exists
    for player in (0, 1):
      moved = moves_at(tree, setting, i, player)
      if moved is not False:
        rows = normalise_rows(tree, setting, i, player, weights[i])
        normalised = choose(moved, rows, normalised)
    policy.append(normalised)
  return tuple(policy)


def normalise_rows(
  tree: PublicTree, setting: Setting, index: int, player: int, weights: jax.Array
) -> jax.Array:
  """Divides weights `[n, H]` of level `index` by their sum over `player`'s choices.

  Where all are zero the choices are equally likely. Rows that `player` did not move to are
  meaningless.
  """
  exists = jnp.ones_like(weights)
  if setting.exists is not None:
    exists = exists * setting.exists[index]
  real = exists
  if setting.own_possible is not None and tree.infostate_parent is not None:
    real = exists * setting.own_possible[player][index]
  share, total = _share(tree, index, player, weights * real)
  fallback, _ = _share(tree, index, player, real)
  rows = jnp.where(total > 0, share, fallback)
  if tree.infostate_parent is not None:
    # Impossible infostates come from nowhere: any number will do, and one is harmless.
    rows = jnp.where(real > 0, rows, exists)
  return rows


def _share(tree: PublicTree, index: int, player: int, rows: jax.Array):
  """Returns each row's share of its siblings' sum, and that sum, both `[n, H]`."""
  level = tree.structure.levels[index]
  above = tree.structure.levels[index - 1].num_inner
  total = reduce_children(level, lower(tree, index, player, rows), above)
  total = lift(tree, index, player, to_children(level, total))
  return rows / jnp.where(total > 0, total, 1.0), total
