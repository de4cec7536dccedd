"""Pairs of a tree's infostates at given root beliefs, and their values at terminal nodes."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp

from games.game import CHANCE
from games.pairs import Pairs, of_tree
from games.public_tree import Array, PublicTree
from solvers.sweeps.hand_ends import HandEnds
from solvers.sweeps.levels import Levels, chance_reach, join_levels, lift, split_levels, to_children
from solvers.sweeps.table_ends import TableEnds

Rows = tuple[jax.Array | None, ...]  # for each level `[n or 1, H]`, None for all ones


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreePairs:
  """Pair compatibility and terminal payoffs of one tree at given root beliefs.

  Counterfactual reach at a node is own reach times `nature`.

  Attributes:
    pairs: of the tree.
    nature: for each player, for each level `[n or 1, H]`: root belief times public chance, zero
      for infostates that are not possible. Hands that cards block are left out of own reach
      instead.
    possible: for each player and level, 1 where an infostate is possible; of hands `[n, H]` 0 for
      those that the cards just dealt block (at the root those that are impossible).
    root_mass: `[P, H]` the opponent's mass at the root that is compatible with an infostate.
    leaf_index: `[L]` which weights hold at the leaves.
    scale: for each level `[T, 1]`, of the payoffs of terminal nodes.
    ends: their payoffs.
    blocked: whether own reach leaves out what is not possible; static.
  """

  pairs: Pairs
  nature: tuple[Levels, Levels]
  possible: tuple[Rows, Rows]
  root_mass: jax.Array
  leaf_index: jax.Array
  scale: Levels
  ends: TableEnds | HandEnds
  blocked: bool = dataclasses.field(metadata={"static": True})

  def mask_reach(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns own reach `[n, H]` of level `index` without infostates that chance ruled out."""
    return self.mask_values(index, player, rows) if self.blocked else rows

  def mask_values(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns values `[n, H]` of level `index`, zero for impossible infostates."""
    possible = self.possible[player][index]
    return rows if possible is None else rows * possible

  def compatible_mass(self, reach: jax.Array, player: int, row: Any = slice(None)) -> jax.Array:
    """Returns the mass of the opponent's `reach` that `player` meets at all leaves or at `row`."""
    return self.pairs.mass(jnp.atleast_1d(self.leaf_index[row]), reach, player)

  def terminal_values(
    self, tree: PublicTree, opponent_reach: Levels, player: int
  ) -> tuple[jax.Array | None, ...]:
    """Returns `player`'s counterfactual values at each level's terminal nodes, `[T, H]`.

    `opponent_reach` is the opponent's own; levels without terminal nodes hold None.
    """
    reach = []
    for i, level in enumerate(tree.structure.levels):
      rows = slice(level.size - level.num_terminals, level.size)
      nature = self.nature[1 - player][i]
      own = opponent_reach[i][rows] * (nature[rows] if len(nature) > 1 else nature)
      reach.append(own * self.scale[i])
    return self.ends.values(tree, self.pairs, reach, player)


def make_pairs(
  tree: PublicTree, beliefs: jax.Array, root: jax.Array | None = None, lanes: int = 1
) -> TreePairs:
  """Computes what stays fixed about pairs while `tree` is solved from `beliefs` `[P, H]`.

  They are those of the node `root`, which may be traced, and nothing else is reached; None for the
  first. `lanes` is the number of trees of this shape that are solved side by side, by `jax.vmap`.
  """
  dtype, structure = beliefs.dtype, tree.structure
  kind = TableEnds if tree.hands is None else HandEnds
  possible = _possible(tree, dtype) if tree.hands is None else _live_hands(tree, dtype)
  chance = None if tree.chance_probability is None else chance_reach(tree, dtype)
  if chance is not None and root is not None:
    before = join_levels(chance)[root, 0]
    chance = tuple(x / before for x in chance)
  scale = jnp.asarray(tree.payoff_scale)[:, None]
  starts = zip(structure.levels, structure.terminal_offsets)
  pairs = of_tree(tree, dtype)
  return TreePairs(
    pairs=pairs,
    nature=(
      _nature(tree, beliefs[0], 0, chance, possible[0], root),
      _nature(tree, beliefs[1], 1, chance, possible[1], root),
    ),
    possible=possible,
    root_mass=pairs.root_mass(tree.root_pair_index, beliefs),
    leaf_index=jnp.asarray(tree.leaf_pair_index),
    scale=tuple(scale[start : start + level.num_terminals] for level, start in starts),
    ends=kind.make(tree, dtype, lanes),
    blocked=tree.hands is not None,
  )


def _possible(tree: PublicTree, dtype: Any) -> tuple[Rows, Rows]:
  """Returns `TreePairs.possible` of infostates in tables."""
  if tree.possible is None:
    nothing = (None,) * len(tree.structure.levels)
    return nothing, nothing
  by_level = split_levels(tree, tree.possible.astype(dtype))
  return tuple(x[:, 0] for x in by_level), tuple(x[:, 1] for x in by_level)


def _live_hands(tree: PublicTree, dtype: Any) -> tuple[Rows, Rows]:
  """Returns `TreePairs.possible` of hands."""
  hands = jnp.asarray(tree.hands)[None, :, None, :]
  live: list[jax.Array | None] = []
  for level, cards in zip(tree.structure.levels, split_levels(tree, jnp.asarray(tree.dealt))):
    dealt = CHANCE in level.movers
    apart = ~(cards[:, None, :, None] == hands).any(axis=(2, 3)) if dealt else None
    live.append(None if apart is None else apart.astype(dtype))
  if tree.possible is None:
    return tuple(live), tuple(live)
  possible = jnp.asarray(tree.possible)[0].astype(dtype)
  return (possible[0, None], *live[1:]), (possible[1, None], *live[1:])


def _nature(
  tree: PublicTree, belief: jax.Array, player: int, chance: Any, possible: Rows, root: Any
) -> Levels:
  """Returns the root belief times public chance since, zero where impossible, by level."""
  nature, own = list[jax.Array](), belief[None]
  for i, (start, stop) in enumerate(itertools.pairwise(tree.structure.offsets)):
    if i and (root is not None or tree.infostate_parent is not None):
      own = lift(tree, i, player, to_children(tree.structure.levels[i], own))
    if root is not None:
      at_root = jnp.arange(start, stop, dtype=jnp.int32)[:, None] == root
      own = jnp.where(at_root, belief[None], own if i else 0.0)
    rows = own if chance is None else own * chance[i]
    there = possible[i] if tree.hands is None else None
    nature.append(rows if there is None else rows * there)
  return tuple(nature)


def root_mass(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns the opponent's mass compatible with each root infostate: `[P, H]`."""
  beliefs = jnp.asarray(beliefs)
  return of_tree(tree, beliefs.dtype).root_mass(tree.root_pair_index, beliefs)


def root_marginals(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns each player's marginal of the joint prior at the root: `[P, H]`; nothing is checked."""
  joint = jnp.asarray(beliefs) * root_mass(tree, beliefs)
  return joint / joint.sum(axis=1, keepdims=True)
