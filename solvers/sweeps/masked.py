"""A problem on a subset of a static tree's nodes, which may grow between updates.

Shapes are those of the whole tree; nodes that are not there are padding. A decision or chance state
without children is *frontier*: a leaf, whose value comes from outside, until a child joins it.
"""

import dataclasses
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from games import PublicTree
from games.node_info import NodeInfo
from games.public_tree import PADDING, Array, TreeStructure
from solvers.sweeps.levels import Levels, reduce_children, split_levels
from solvers.sweeps.problem import Problem, Sweep, make_problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class MaskedProblem(Problem):
  """The problem of the nodes that are there; everything else is as for `Problem`.

  Its `L` leaves are all of the tree's inner nodes and leaves, level by level. Values are asked for
  all of them, and those of frontier nodes count.

  Attributes:
    frontier: for each level `[inner nodes + leaves, 1]`, 1 where the node is frontier, else 0.
    rows: `[L]` places of the leaves among the nodes.
    features: `[P, L, F]` see `NodeInfo`.
  """

  frontier: Levels
  rows: jax.Array
  features: jax.Array

  @property
  def asks(self) -> bool:
    """Whether there are leaves, whose values come from outside."""
    return True

  def leaf_rows(self, levels: Levels) -> jax.Array:
    """Returns the rows of the leaves `[L, H]` of an array kept by level."""
    return jnp.concatenate([x[: len(f)] for x, f in zip(levels, self.frontier)], axis=0)

  def leaf_features(self, player: int) -> jax.Array:
    """Returns the leaves' public states as `player` sees them: `[L, F]`."""
    return self.features[player]

  def leaf_possible(self) -> jax.Array | None:
    """Returns which infostates the rules allow at the leaves, `[L, P, H]`, or None for all."""
    return None if self.tree.possible is None else jnp.asarray(self.tree.possible)[self.rows]

  def is_frontier(self) -> jax.Array:
    """Returns which leaves' values count: `[L]`, bool."""
    return jnp.concatenate(self.frontier)[:, 0] > 0

  def _inner_and_leaves(self, index: int, inner: jax.Array | None, leaf_values: jax.Array | None):
    assert leaf_values is not None
    counts = [len(x) for x in self.frontier]
    start = sum(counts[:index])
    asked = leaf_values[start : start + counts[index]]
    num_inner = self.tree.structure.levels[index].num_inner
    if inner is not None:
      inner = jnp.where(self.frontier[index][:num_inner] > 0, asked[:num_inner], inner)
    return inner, asked[num_inner:] if counts[index] > num_inner else None

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    # Values of nodes that are not there must not reach their parents.
    assert self.exists is not None
    there = self.exists[index] > 0
    return super()._over_children(index, player, jnp.where(there, rows, 0.0), maximum=maximum)

  def advantages(self, sweep: Sweep, index: int, player: int) -> jax.Array | None:
    """Returns what each move is worth beyond its parent, zero for moves that are not there."""
    assert self.exists is not None
    found = super().advantages(sweep, index, player)
    return None if found is None else jnp.where(self.exists[index] > 0, found, 0.0)


def leaf_places(structure: TreeStructure) -> np.ndarray:
  """Returns the places of a masked problem's leaves among the nodes: `[L]`."""
  levels = zip(structure.offsets, structure.levels)
  return np.concatenate([x + np.arange(level.num_inner + level.num_leaves) for x, level in levels])


def row_of_nodes(structure: TreeStructure) -> np.ndarray:
  """Returns the row of every node among a masked problem's leaves, `[N]`; their number for none."""
  places = leaf_places(structure)
  found = np.full(structure.num_nodes, len(places))
  found[places] = np.arange(len(places))
  return found


def at_nodes(structure: TreeStructure, rows: jax.Array) -> jax.Array:
  """Returns rows of a masked problem's leaves `[..., L, H]` by node, `[..., N, H]`, others zero."""
  padded = jnp.concatenate([rows, jnp.zeros_like(rows[..., :1, :])], axis=-2)
  return padded[..., row_of_nodes(structure), :]


Masked = TypeVar("Masked", bound=MaskedProblem)


def make_masked_problem(
  tree: PublicTree, beliefs: Array, info: NodeInfo, present: Array
) -> MaskedProblem:
  """Returns the problem of those nodes of `tree` that `present` `[N]` marks.

  Args:
    tree: whole or depth-limited.
    beliefs: `[P, H]` at the root.
    info: from `node_info`.
    present: bool; the root, and the parent of every other node, must be present.
  """
  places = leaf_places(tree.structure)
  # Pair weights are looked up at the leaves, which here are inner nodes too.
  asked = dataclasses.replace(
    tree, leaf_pair_index=jnp.asarray(info.pair_index)[places], leaf_nodes=places
  )
  whole = make_problem(asked, beliefs)
  problem = MaskedProblem(
    **{field.name: getattr(whole, field.name) for field in dataclasses.fields(Problem)},
    frontier=(),
    rows=jnp.asarray(places),
    features=jnp.asarray(info.features)[:, places],
  )
  return with_nodes(problem, present)


def with_nodes(problem: Masked, present: Array) -> Masked:
  """Returns `problem` with the nodes that `present` `[N]` marks; works while traced."""
  tree = problem.tree
  there = jnp.asarray(present) & (jnp.asarray(tree.kind) != PADDING)
  exists = tuple(x[:, None].astype(tree.dtype) for x in split_levels(tree, there))
  frontier = []
  levels = tree.structure.levels
  for i, level in enumerate(levels):
    asked = exists[i][: level.num_inner + level.num_leaves]
    if level.num_inner:
      children = reduce_children(levels[i + 1], exists[i + 1], level.num_inner, maximum=True)
      asked = asked.at[: level.num_inner].multiply(1.0 - children)
    frontier.append(asked)
  return dataclasses.replace(problem, exists=exists, frontier=tuple(frontier))
