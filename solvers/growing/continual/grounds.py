"""The grounds of chains of searches: a written-out tree with small parts of it, or rules.

In most games most decisions are near the end. A search for one of those takes as long as its part
of the game is large, if it is given a tree of that part alone.
"""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import (
  CHANCE,
  Game,
  PublicTree,
  Tabulated,
  build_public_tree,
  stack_trees,
  tabulate,
)
from games.arguments import checked
from games.public_tree import Array, largest_payoff
from games.tabulate import NodeInfo, children_of
from solvers.growing.continual.chain import (
  AskedState,
  ChainSearch,
  Found,
  How,
  Left,
  PublicState,
  beginning,
  longest_wait,
)
from solvers.growing.gt_cfr import Grown, grow
from solvers.growing.settings import GTCFR
from solvers.growing.starts import ByRules, OnTree, most_nodes
from solvers.resolving.graft import Placer

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


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeGround:
  """A `Ground` of a written-out tree, whose nodes are the places of all searches.

  Attributes:
    tree: the whole tree.
    rules: by its tables.
    scale: the largest payoff.
    parts: None where none is small enough.
  """

  tree: PublicTree
  rules: Tabulated
  scale: Any
  parts: Parts | None

  @property
  def child(self) -> jax.Array:
    return jnp.asarray(self.rules.tables.info.child)

  @property
  def num_subgames(self) -> int:
    """How many states of the game a search may be about."""
    return sum(level.num_inner for level in self.tree.structure.levels)

  def nothing(self) -> Left:
    tree = self.tree
    rows = jnp.zeros((2, tree.num_nodes, tree.num_infostates), tree.dtype)
    known, none = jnp.zeros((2, tree.num_nodes), bool), jnp.full((), -1, jnp.int32)
    return Left(none, beginning(self.rules), None, rows, rows, known)

  def kinds(self, roots: jax.Array) -> list[tuple[Any, jax.Array]]:
    everywhere = jnp.ones(len(roots), bool)
    if self.parts is None:
      return [(self, everywhere)]
    small = jnp.asarray(self.parts.part)[roots[:, 0]] >= 0
    return [(self, ~small), (_Part(self), small)]

  def search(self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any) -> Found:
    root, current = row.start.root.state[0], row.here.state[0]
    start = self.start(self.tree, self.rules.tables.info, row, root, current)
    return self.found(row, grow(start, key, params, rounds, how.search, network=how.network))

  def start(
    self, tree: PublicTree, nodes: NodeInfo, row: ChainSearch, root: jax.Array, current: jax.Array
  ) -> OnTree:
    """Returns the start of a search in the whole tree or in a part."""
    return OnTree(tree, nodes, self.scale, root, current, row.start.beliefs, row.start.promises)

  def found(self, row: ChainSearch, grown: Grown) -> Found:
    """Returns the result of a search by the nodes of the whole tree."""
    node = row.here.state[0].astype(jnp.int32)
    left = Left(node, row.here, None, grown.values, grown.reach, grown.known)
    here, asked = grown.asked.node, grown.asked
    possible = jnp.ones((2, self.tree.num_infostates), bool)
    if self.tree.possible is not None:
      possible = jnp.asarray(self.tree.possible)[here]
    asked_of = AskedState(PublicState(here[None], possible), asked.beliefs, asked.total)
    values = grown.values[:, node]
    return Found(grown.policy, values, grown.root_values, grown.root_mass, left, asked_of)


class _Part(NamedTuple):
  """The parts of a `TreeGround`."""

  whole: TreeGround

  def search(self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any) -> Found:
    ground, parts = self.whole, jax.tree.map(jnp.asarray, self.whole.parts)
    root, current = row.start.root.state[0], row.here.state[0]
    number = parts.part[root]
    tree, nodes, places = jax.tree.map(
      lambda x: x[number], (parts.trees, parts.nodes, parts.places)
    )
    start = ground.start(tree, nodes, row, parts.local[root], parts.local[current])
    grown = grow(start, key, params, rounds, how.search, network=how.network)

    def put(x: jax.Array) -> jax.Array:
      empty = jnp.zeros((2, ground.tree.num_nodes, *x.shape[2:]), x.dtype)
      return empty.at[:, places].set(x, mode="drop")

    spread = grown._replace(
      values=put(grown.values),
      reach=put(grown.reach),
      known=put(grown.known),
      asked=grown.asked._replace(node=places[grown.asked.node].astype(jnp.int32)),
    )
    return ground.found(row, spread)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class RulesGround:
  """A `Ground` of rules by which searches make their trees.

  Attributes:
    rules: the game; static.
    capacity: nodes that a tree has room for; static.
  """

  rules: Game = dataclasses.field(metadata={"static": True})
  capacity: int = dataclasses.field(metadata={"static": True})

  child = None
  num_subgames = None  # nobody has counted the states that a search may be about

  @classmethod
  def of(cls, rules: Game, search: GTCFR) -> "RulesGround":
    """Returns a ground of a capacity that no search exceeds."""
    return cls(rules, most_nodes(rules, search, longest_wait(rules)))

  def nothing(self) -> Left:
    rules = self.rules
    rows = jnp.zeros((2, self.capacity, rules.num_infostates), jnp.result_type(float))
    child = jnp.full((self.capacity, rules.num_actions), -1, jnp.int32)
    none = jnp.full((), -1, jnp.int32)
    return Left(none, beginning(rules), child, rows, rows, jnp.zeros((2, self.capacity), bool))

  def kinds(self, roots: jax.Array) -> list[tuple[Any, jax.Array]]:
    return [(self, jnp.ones(len(roots), bool))]

  def search(self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any) -> Found:
    (root, path, beliefs, promises), rules = row.start, self.rules
    start = ByRules(*root, path, beliefs, promises, rules, self.capacity, rules.num_infostates == 1)
    grown = grow(start, key, params, rounds, how.search, network=how.network)
    tree, place = grown.tree, grown.current.astype(jnp.int32)
    assert tree is not None
    left = Left(place, row.here, tree.child, grown.values, grown.reach, grown.known)
    node, asked = grown.asked.node, grown.asked
    here = PublicState(tree.state[node], tree.possible[node])
    asked_of = AskedState(here, _allowed(asked.beliefs, here.possible), asked.total)
    values = grown.values[:, place]
    return Found(grown.policy, values, grown.root_values, grown.root_mass, left, asked_of)


def _allowed(beliefs: jax.Array, possible: jax.Array) -> jax.Array:
  """Returns beliefs `[P, H]` in what is possible alone; uniform there where they were in none."""
  kept = jnp.where(possible, beliefs, 0.0)
  kept = jnp.where(kept.sum(axis=1, keepdims=True) > 0, kept, possible.astype(kept.dtype))
  return kept / jnp.maximum(kept.sum(axis=1, keepdims=True), jnp.finfo(beliefs.dtype).tiny)


@checked
def tree_ground(game: Game, tree: PublicTree, *, share: float = _SHARE) -> TreeGround:
  """Returns the ground of a game's whole tree.

  Args:
    game, tree: the game and its whole tree.
    share: of the nodes, that a part may have at most; 0 for no parts.
  """
  rules, roots = tabulate(game, tree), _part_roots(tree, share)
  tree = jax.tree.map(np.asarray, tree)
  if not roots:
    return TreeGround(tree, rules, largest_payoff(tree), None)
  built = [build_public_tree(game, root=tree.history(root)).astype(tree.dtype) for root in roots]
  trees, placer = stack_trees(built), Placer(tree)
  places = np.full((len(roots), trees.num_nodes), tree.num_nodes)
  part, local = np.full(tree.num_nodes, -1), np.zeros(tree.num_nodes, int)
  child = []
  for g, root in enumerate(roots):
    own = jax.tree.map(lambda x, g=g: x[g], trees)
    found = placer.places(own, root)
    real = np.flatnonzero(found >= 0)
    places[g, real] = found[real]
    part[found[real]], local[found[real]] = g, real
    child.append(children_of(own, game.num_actions))
  rows, info = np.minimum(places, tree.num_nodes - 1), rules.tables.info
  there = (places < tree.num_nodes)[..., None, None]
  nodes = NodeInfo(
    np.moveaxis(np.asarray(info.features)[:, rows], 0, 1),
    np.asarray(info.pair_index)[rows],
    np.stack(child),
    np.where(there, np.asarray(info.by_action)[rows], -1),
    np.asarray(info.leads_to)[rows],
  )
  return TreeGround(tree, rules, largest_payoff(tree), Parts(trees, nodes, places, part, local))


def _part_roots(tree: PublicTree, share: float) -> list[int]:
  """Returns the roots of the largest subtrees that are small enough, those of ends left out."""
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  sizes = np.ones(tree.num_nodes, int)
  for node in range(tree.num_nodes - 1, 0, -1):
    sizes[parent[node]] += sizes[node]
  small = sizes <= share * tree.num_nodes
  first = small & ~small[np.maximum(parent, 0)]
  return np.flatnonzero(first & (kind <= CHANCE) & (parent >= 0)).tolist()
