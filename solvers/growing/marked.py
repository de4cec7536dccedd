"""The store whose places are the nodes of a written-out tree: a search marks those that it adds."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.node_info import NodeInfo, infostates_after
from games.public_tree import Array, PublicTree, TreeStructure
from solvers.growing.marked_problem import MarkedProblem, leaf_places, marked_problem, with_nodes
from solvers.growing.store import Moves


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Marked:
  """A `Store` of a tree's nodes; letters as there, with `N` for `C`.

  Attributes:
    tree: the game's whole tree, or all of it that the search may grow into.
    nodes: from `node_info`.
    root: `[]` the node at which the search starts.
    scale: the largest payoff of the game, of which the tree may be a part.
    present: `[N]` which nodes the search has added.
    prior: `[L, M, H]` see `Store`.
  """

  tree: PublicTree
  nodes: NodeInfo
  root: Any
  scale: Any
  present: jax.Array
  prior: jax.Array

  asks_once = False
  deals = True

  @property
  def kind(self) -> Array:
    return self.tree.kind

  @property
  def rows(self) -> np.ndarray:
    """Places of the problem's leaves among the nodes: `[L]`."""
    return leaf_places(self.tree.structure)

  @property
  def movers(self) -> jax.Array:
    return self.tree.kind[self.rows]

  @property
  def open(self) -> Any:
    return self.nodes.by_action[self.rows] >= 0

  @property
  def legal(self) -> Any:
    return self.nodes.child >= 0

  def problem(self, beliefs: jax.Array, like: MarkedProblem | None = None) -> MarkedProblem:
    if like is not None:
      return with_nodes(like, self.present)
    return marked_problem(self.tree, self.nodes, self.root, beliefs, self.present)

  def seen(self) -> jax.Array:
    """Returns the public states of the problem's leaves as their movers see them: `[L, F]`."""
    first, second = self.nodes.features[:, self.rows]
    return jnp.where((self.movers == 1)[:, None], second, first)

  def join(self, node: jax.Array, joins: jax.Array) -> tuple["Marked", jax.Array]:
    places = jnp.where(joins, self.nodes.child[node], self.tree.num_nodes)
    present = self.present.at[places].set(True, mode="drop")
    return dataclasses.replace(self, present=present), places

  def children(self, node: jax.Array) -> jax.Array:
    child = self.nodes.child[node]
    return jnp.where((child >= 0) & self.present[child], child, -1)

  def moves(self, node: jax.Array, held: jax.Array) -> Moves:
    hides = self.tree.infostate_parent is not None
    action = jnp.asarray(self.nodes.by_action[node, :, held if hides else 0])
    leads_to = jnp.full_like(action, held)
    if hides:
      leads_to = jnp.asarray(self.nodes.leads_to[node, :, held])
    child = jnp.asarray(self.nodes.child[node, action])
    rows, known = row_of_nodes(self.tree.structure), (action >= 0) & self.present[child]
    here, below = jnp.asarray(rows)[node], jnp.asarray(rows)[child]
    asks = below < len(self.prior)
    met = jnp.where(asks, below, here), jnp.where(asks, leads_to, held)
    place = child, leads_to, *met, here
    return Moves(action >= 0, known, action, leads_to, *place, self.prior[here, :, held])

  def dealt(self, node: jax.Array, hands: jax.Array) -> jax.Array:
    tree, kids = self.tree, self.nodes.child[node]
    weights = (kids >= 0).astype(tree.dtype)
    if tree.chance_probability is not None:
      weights *= tree.chance_probability[kids]
    if tree.possible is not None:
      origins = jnp.arange(tree.num_infostates)
      if tree.infostate_parent is not None:
        origins = tree.infostate_parent[kids]
      reached = tree.possible[kids] & (origins == hands[:, None])
      weights *= reached.any(axis=-1).all(axis=-1)
    if tree.dealt is not None and tree.hands is not None:
      held = tree.hands[hands].reshape(-1)
      weights *= ~(tree.dealt[kids][:, :, None] == held).any(axis=(1, 2))
    return weights

  def turned(self, node: jax.Array, action: jax.Array, hands: jax.Array) -> jax.Array:
    return infostates_after(self.tree, self.nodes.child[node, action], hands)

  def by_move(self, rows: jax.Array) -> jax.Array:
    return rows

  def at_places(self, rows: jax.Array) -> jax.Array:
    padded = jnp.concatenate([rows, jnp.zeros_like(rows[:, :1])], axis=1)
    return padded[:, row_of_nodes(self.tree.structure)]


def plant_marked(
  tree: PublicTree, nodes: NodeInfo, root: Array, current: Array, scale: Array, *, whole: bool
) -> Marked:
  """Returns the store of a search: its root, the nodes on the way to `current`, their children.

  Args:
    tree, nodes, scale: see `Marked`.
    root, current: nodes; may be traced.
    whole: whether all below the root is there.
  """
  tree, nodes, root, scale = jax.tree.map(jnp.asarray, (tree, nodes, root, scale))
  paths = jnp.asarray(ancestors(tree.structure))
  if whole:
    present = (paths == root).any(axis=1)
  else:  # a node's number is larger than those above it
    path = jnp.maximum(paths[current], root)
    kids = nodes.child[path].reshape(-1)
    there = jnp.concatenate([path, jnp.where(kids >= 0, kids, tree.num_nodes)])
    present = jnp.zeros(tree.num_nodes, bool).at[there].set(True, mode="drop")
  planted: Any = Marked(tree, nodes, root, scale, present, jnp.zeros(()))
  allowed = planted.open.astype(tree.dtype)
  uniform = allowed / jnp.maximum(allowed.sum(axis=1, keepdims=True), 1.0)
  uniform = jnp.broadcast_to(uniform, (*uniform.shape[:2], tree.num_infostates))
  return dataclasses.replace(planted, prior=uniform)


def row_of_nodes(structure: TreeStructure) -> np.ndarray:
  """Returns the row of every node among the problem's leaves, `[N]`; their number for none."""
  places = leaf_places(structure)
  rows = np.full(structure.num_nodes, len(places))
  rows[places] = np.arange(len(places))
  return rows


def ancestors(structure: TreeStructure) -> np.ndarray:
  """Returns each node's path from the root, itself last, filled up with itself: `[N, D + 1]`."""
  paths = [np.zeros((1, structure.depth + 1), np.int32)]
  for depth, (start, level) in enumerate(zip(structure.offsets[1:], structure.levels[1:]), 1):
    own = paths[-1][level.parents]
    own[:, depth:] = start + np.arange(level.size)[:, None]
    paths.append(own)
  return np.concatenate(paths)
