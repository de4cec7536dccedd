"""What stays fixed while a tree is solved: beliefs, chance, who moves where, payoff tables."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import PADDING, Array, PublicTree
from solvers import hole_cards
from solvers.levels import Levels, lift, split_levels, to_children

# Below this many entries a level's payoff tables are multiplied node by node in one fused
# loop; above it, one product for each run of nodes that share a table.
_SMALL_LEVEL = 8192

# How many units in the last place a sum over hands may be off that ought to be zero.
_CANCELLED = 16.0


class Setting(NamedTuple):
  """What stays fixed while a tree is solved from given beliefs; computed once, before the loop.

  Attributes:
    nature: for each player, for each level `[n or 1, H]`: the root belief that led to the
      infostate times the probabilities of public chance and whether the infostate is possible.
      Times the player's own reach this is its counterfactual reach for the opponent.
    own_possible: for each player and level, 1 where the infostate is possible, or None.
    exists: for each level `[n, 1]`, 0 for padding, or None.
    mover: for each level `[n, 1]`, who moved to get there, or None if that is static.
    terminal_tables: for each player, for each level `[H, T, H]`: at `[j, t, h]` the payoff to the
      player holding h when the other holds j. None where `payoff_runs` are used.
    terminal_scale: for each level `[T, 1]`.
    leaf_weights: `[L or 1, H, H]` pair weights at the leaves, or None if all are one.
    root_mass: `[P, H]` the opponent's mass at the root that is compatible with an infostate.
    hands: what a tree of hands has instead of tables; None for others.
  """

  nature: tuple[Levels, Levels]
  own_possible: tuple[Levels, Levels] | None
  exists: Levels | None
  mover: tuple[jax.Array | None, ...]
  terminal_tables: tuple[tuple[jax.Array | None, ...], tuple[jax.Array | None, ...]]
  terminal_scale: Levels
  leaf_weights: jax.Array | None
  root_mass: jax.Array
  hands: hole_cards.HandSetting | None = None


def prepare(tree: PublicTree, beliefs: Array) -> Setting:
  """Computes what stays fixed while `tree` is solved from root `beliefs` `[P, H]`."""
  beliefs = jnp.asarray(beliefs)
  structure, dtype = tree.structure, beliefs.dtype
  own_possible = None
  if tree.possible is not None and tree.hands is None:
    possible = split_levels(tree, tree.possible.astype(dtype))
    own_possible = (tuple(x[:, 0] for x in possible), tuple(x[:, 1] for x in possible))
  kinds = split_levels(tree, tree.kind)
  exists = None
  if tree.padded:
    exists = tuple((kind != PADDING).astype(dtype)[:, None] for kind in kinds)
  mover: list[jax.Array | None] = [None]
  for above, level in zip(kinds, structure.levels[1:]):
    fixed = level.parent_actor is not None
    mover.append(None if fixed else to_children(level, above[:, None]))

  hands = None
  if tree.hands is not None:
    hands = hole_cards.prepare_hands(tree, beliefs, chance_reach(tree, dtype))
  tables: tuple[list[jax.Array | None], ...] = ([], [])
  scales: list[jax.Array] = []
  payoffs, payoff_scale = jnp.asarray(tree.payoffs), jnp.asarray(tree.payoff_scale)
  h = tree.num_infostates
  for level, start in zip(structure.levels, structure.terminal_offsets):
    rows = slice(start, start + level.num_terminals)
    gathered = level.payoff_runs is None or level.num_terminals * h * h <= _SMALL_LEVEL
    gathered = gathered and hands is None
    table = payoffs[tree.payoff_index[rows]] if gathered else None  # [T, H, H]
    tables[0].append(None if table is None else jnp.moveaxis(table, 2, 0))
    tables[1].append(None if table is None else -jnp.moveaxis(table, 1, 0))
    scales.append(payoff_scale[rows, None])

  leaf_weights = None
  if not tree.compatible and hands is None:
    leaf_weights = jnp.asarray(tree.pair_weights)
    if len(leaf_weights) > 1:
      leaf_weights = leaf_weights[tree.leaf_pair_index]
  return Setting(
    nature=(
      _nature(tree, beliefs, 0, own_possible),
      _nature(tree, beliefs, 1, own_possible),
    ),
    own_possible=own_possible,
    exists=exists,
    mover=tuple(mover),
    terminal_tables=(tuple(tables[0]), tuple(tables[1])),
    terminal_scale=tuple(scales),
    leaf_weights=leaf_weights,
    root_mass=root_mass(tree, beliefs),
    hands=hands,
  )


def root_mass(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns the opponent's mass compatible with each root infostate: `[P, H]`."""
  if tree.hands is not None:
    other = jnp.asarray(beliefs)[::-1]
    mass = hole_cards.compatible_mass(other)
    # What sums that cancel leave of nothing is rounding, and values are divided by it.
    rounding = _CANCELLED * jnp.finfo(mass.dtype).eps * other.sum(axis=-1, keepdims=True)
    return jnp.where(mass > rounding, mass, 0.0)
  return pair_mass(jnp.asarray(tree.pair_weights[tree.root_pair_index]), jnp.asarray(beliefs))


def pair_mass(weights: jax.Array, reach: jax.Array) -> jax.Array:
  """Returns the other's mass that is compatible with each infostate, `[..., P, H]`.

  Args:
    weights: `[..., H, H]` of pairs, player 0's infostate first.
    reach: `[..., P, H]`.
  """
  exactly = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)
  return jnp.stack(
    [
      exactly("...ij,...j->...i", weights, reach[..., 1, :]),
      exactly("...ij,...i->...j", weights, reach[..., 0, :]),
    ],
    axis=-2,
  )


def chance_reach(tree: PublicTree, dtype) -> Levels:
  """Returns the probability of all that chance did to get to each node: `[n, 1]` a level."""
  chance = [jnp.ones((1, 1), dtype)]
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    below = to_children(level, chance[-1])
    if tree.chance_probability is not None:
      start, stop = tree.structure.offsets[i : i + 2]
      below = below * tree.chance_probability[start:stop, None]
    chance.append(below)
  return tuple(chance)


def _nature(tree: PublicTree, beliefs: jax.Array, player: int, own_possible) -> Levels:
  levels = tree.structure.levels
  if tree.hands is not None:  # the hands that cards block are left out of own reach
    return tuple(beliefs[None, player] * chance for chance in chance_reach(tree, beliefs.dtype))
  unchanging = own_possible is None and tree.infostate_parent is None
  if unchanging and tree.chance_probability is None:
    return (beliefs[None, player],) * len(levels)
  reach = [beliefs[None, player]]
  probabilities = None
  if tree.chance_probability is not None:
    probabilities = split_levels(tree, tree.chance_probability)
  for i, level in enumerate(levels[1:], start=1):
    below = lift(tree, i, player, to_children(level, reach[-1]))
    if probabilities is not None:
      below = below * probabilities[i][:, None]
    if own_possible is not None:
      below = below * own_possible[player][i]
    reach.append(below)
  return tuple(reach)


def moves_at(tree: PublicTree, setting: Setting, index: int, player: int):
  """Says which nodes of level `index` `player` moved to: True, False or `[n, 1]` of bool."""
  level = tree.structure.levels[index]
  if level.movers and player not in level.movers:
    return False
  actor = level.parent_actor
  return setting.mover[index] == player if actor is None else actor == player


def choose(condition, x: jax.Array, y: jax.Array) -> jax.Array:
  """`jnp.where` that costs nothing where the condition is static."""
  if isinstance(condition, bool):
    return x if condition else y
  return jnp.where(condition, x, y)
