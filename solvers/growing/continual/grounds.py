"""Where searches grow: a game's tree, and small trees for the searches that need no more of it.

In most games most decisions are near the end. A search for one of those takes as long as its part
of the game is large, if it is given a tree of that part alone.
"""

from typing import NamedTuple

import jax
import numpy as np

from games import CHANCE, Game, PublicTree, build_public_tree, stack_trees
from games.public_tree import Array
from solvers.resolving.graft import Placer
from solvers.sweeps.masked import NodeInfo, node_info

# A part has at most this share of the nodes of the whole.
_SHARE = 1 / 16


class Parts(NamedTuple):
  """`G` parts of a game, each below one node, stacked to a common shape.

  Attributes:
    trees, nodes: every array has a leading axis `[G]`.
    places: `[G, n]` where their nodes are in the whole tree; its size for padding.
    part: `[N]` the part that a node of the whole tree is in; -1 for none.
    local: `[N]` its place there.
  """

  trees: PublicTree
  nodes: NodeInfo
  places: Array
  part: Array
  local: Array


class Grounds(NamedTuple):
  """Where the searches of a game grow.

  Attributes:
    tree, nodes: the whole game's, which nodes are numbered by.
    parts: None where none is small enough.
  """

  tree: PublicTree
  nodes: NodeInfo
  parts: Parts | None

  @property
  def num_subgames(self) -> int:
    """How many states of the game a search may be about."""
    return sum(level.num_inner for level in self.tree.structure.levels)


def make_grounds(game: Game, tree: PublicTree, *, share: float = _SHARE) -> Grounds:
  """Returns where searches of a game grow.

  Args:
    game, tree: the game and its whole tree.
    share: of the nodes, that a part may have at most; 0 for no parts.
  """
  info = node_info(game, tree)
  roots = _part_roots(tree, share)
  if not roots:
    return Grounds(tree, info, None)
  built = [build_public_tree(game, root=tree.history(root)).astype(tree.dtype) for root in roots]
  trees, placer = stack_trees(built), Placer(tree)
  places = np.full((len(roots), trees.num_nodes), tree.num_nodes)
  part, local = np.full(tree.num_nodes, -1), np.zeros(tree.num_nodes, int)
  for g, root in enumerate(roots):
    found = placer.places(jax.tree.map(lambda x, g=g: x[g], trees), root)
    real = np.flatnonzero(found >= 0)
    places[g, real] = found[real]
    part[found[real]], local[found[real]] = g, real
  rows = np.minimum(places, tree.num_nodes - 1)
  nodes = NodeInfo(
    np.moveaxis(np.asarray(info.features)[:, rows], 0, 1), np.asarray(info.pair_index)[rows]
  )
  return Grounds(tree, info, Parts(trees, nodes, places, part, local))


def _part_roots(tree: PublicTree, share: float) -> list[int]:
  """Returns the roots of the largest subtrees that are small enough, those of ends left out."""
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  sizes = np.ones(tree.num_nodes, int)
  for node in range(tree.num_nodes - 1, 0, -1):
    sizes[parent[node]] += sizes[node]
  small = sizes <= share * tree.num_nodes
  first = small & ~small[np.maximum(parent, 0)]
  return np.flatnonzero(first & (kind <= CHANCE) & (parent >= 0)).tolist()
