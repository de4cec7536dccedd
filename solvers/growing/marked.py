"""The store whose places are the nodes of a written-out tree: a search marks those that it adds."""

import dataclasses
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.public_tree import PADDING, Array, PublicTree, TreeStructure
from games.tabulate import NodeInfo
from solvers.algorithms.wrappers import Promises
from solvers.growing.states import GTCFR
from solvers.growing.store import Moves, PlacesProblem
from solvers.sweeps.levels import Levels, join_levels, lift, lower, reduce_gathered, split_levels
from solvers.sweeps.pairs import TreePairs, make_pairs
from solvers.sweeps.problem import Sweep


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class MarkedProblem(PlacesProblem):
  """The problem of a tree's marked nodes; its `L` leaves are all inner nodes and leaves."""

  pairs: TreePairs  # of the tree, by level
  root: jax.Array  # `[]` the node at which it starts
  features: jax.Array  # `[P, L, F]` see `NodeInfo`

  @property
  def rows(self) -> jax.Array:
    return jnp.asarray(leaf_places(self.tree.structure))

  def leaf_rows(self, levels: Levels) -> jax.Array:
    return join_levels(levels)[leaf_places(self.tree.structure)]

  def leaf_features(self, player: int) -> jax.Array:
    return self.features[player]

  def leaf_possible(self) -> jax.Array | None:
    return None if self.tree.possible is None else jnp.asarray(self.tree.possible)[self.rows]

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    there = [x for x in self.pairs.possible[player] if x is not None]  # all of them or none
    return None if not there else jnp.concatenate(there[1:]) if index else there[0]

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    start = jnp.ones(self.num_infostates, policy[0].dtype) if root is None else root
    nodes = jnp.arange(self.tree.num_nodes, dtype=jnp.int32)
    taken, at_root = self._taken(policy, player), nodes[:, None] == self.root
    reach = [jnp.where(at_root[:1], start, 0.0)]
    for i, a, b in self._levels():
      above = reach[-1][self.tree.structure.levels[i].parents]
      below = lift(self.tree, i, player, above) * taken[a:b]
      below = self.pairs.mask_reach(i, player, below)
      # Means of a node are over the updates since it joined: nobody reaches it before.
      reach.append(jnp.where(at_root[a:b], start, below))
    return reach[0], jnp.concatenate(reach[1:])

  def values_up(
    self,
    policy: Any,
    opponent_reach: Levels,
    leaf_values: Any,
    player: int,
  ) -> Sweep:
    tree, pairs, taken = self.tree, self.pairs, self._taken(policy, player)
    by_level = split_levels(tree, join_levels(opponent_reach))
    ends = pairs.terminal_values(tree, by_level, player)
    levels, stop = tree.structure.levels, len(leaf_values)
    nodes, inner = list[jax.Array](), jnp.zeros((0, self.num_infostates), leaf_values.dtype)
    for i in reversed(range(len(levels))):
      start = stop - levels[i].num_inner - levels[i].num_leaves
      asked = leaf_values[start:stop]
      frontier = self.frontier[start : start + len(inner), None]
      parts = [jnp.where(frontier, asked[: len(inner)], inner), asked[len(inner) :]]
      parts += [] if ends[i] is None else [ends[i]]
      nodes.append(pairs.mask_values(i, player, jnp.concatenate(parts)))
      stop = start
      if i:
        a, b = tree.structure.offsets[i : i + 2]
        below = lower(tree, i, player, taken[a:b] * nodes[-1])
        inner = reduce_gathered(levels[i].parents, below, levels[i - 1].num_inner)
    values = jnp.concatenate(nodes[::-1])
    root = values[self.root]
    return Sweep(self.split(values), root, (None, self.from_parents(1, player, values)))

  def from_parents(self, index: int, player: int, above: jax.Array) -> jax.Array:
    rows = above[self.tree.structure.parents[1:]]
    if self.tree.infostate_parent is None:
      return rows
    return jnp.concatenate(
      [lift(self.tree, i, player, rows[a - 1 : b - 1]) for i, a, b in self._levels()]
    )

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    rows = jnp.where(self.exists[index] > 0, rows, -jnp.inf if maximum else 0.0)
    if self.tree.infostate_parent is not None:
      pieces = [(i, rows[a - 1 : b - 1]) for i, a, b in self._levels()]
      rows = jnp.concatenate([lower(self.tree, i, player, x, maximum=maximum) for i, x in pieces])
    parents = self.tree.structure.parents[1:]
    return reduce_gathered(parents, rows, self.tree.num_nodes, maximum=maximum)

  def _levels(self) -> list[tuple[int, int, int]]:
    """Returns the number of each level but the first, and where its nodes begin and end."""
    bounds = itertools.pairwise(self.tree.structure.offsets)
    return [(i, a, b) for i, (a, b) in enumerate(bounds) if i]


def leaf_places(structure: TreeStructure) -> np.ndarray:
  """Returns the places of a marked problem's leaves among the nodes: `[L]`."""
  levels = zip(structure.offsets, structure.levels)
  return np.concatenate([x + np.arange(level.num_inner + level.num_leaves) for x, level in levels])


def marked_problem(
  tree: PublicTree, info: NodeInfo, root: jax.Array, beliefs: Array, present: Array
) -> MarkedProblem:
  """Returns the problem of the nodes that `present` `[N]` marks, below `root`."""
  places = leaf_places(tree.structure)
  # Pair weights are looked up at the leaves, which here are inner nodes too.
  tree = dataclasses.replace(
    tree, leaf_pair_index=jnp.asarray(info.pair_index)[places], leaf_nodes=places
  )
  tree, given = jax.tree.map(jnp.asarray, tree), jnp.asarray(beliefs, tree.dtype)
  root = jnp.asarray(root, jnp.int32)
  pairs = make_pairs(tree, given, root)
  rows = [(x[0], jnp.concatenate(x[1:])) for x in pairs.nature]
  at_root = jnp.asarray(places, jnp.int32) == root
  mass = [pairs.compatible_mass(given[1 - p][None], p, jnp.argmax(at_root))[0] for p in (0, 1)]
  problem = MarkedProblem(
    tree=tree,
    pairs=pairs,
    nature=(rows[0], rows[1]),
    root_mass=jnp.where(at_root.any(), jnp.stack(mass), 0.0),
    beliefs=given,
    root=root,
    frontier=jnp.zeros(len(places), bool),
    features=jnp.asarray(info.features)[:, places],
  )
  return with_nodes(problem, present)


def with_nodes(problem: MarkedProblem, present: Array) -> MarkedProblem:
  """Returns `problem` with the nodes that `present` `[N]` marks; works while traced."""
  tree, places = problem.tree, problem.rows
  there = jnp.asarray(present) & (jnp.asarray(tree.kind) != PADDING)
  exists = there[:, None].astype(tree.dtype)
  parents = tree.structure.parents[1:]
  below = reduce_gathered(parents, exists[1:], tree.num_nodes, maximum=True)
  frontier = (exists[places] > 0) & (below[places] <= 0)
  return dataclasses.replace(problem, exists=(exists[:1], exists[1:]), frontier=frontier[:, 0])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Marked:
  """A `Store` of a tree's nodes; letters as there, with `N` for `C`."""

  tree: PublicTree  # the game's whole tree, or all of it that the search may grow into
  nodes: NodeInfo  # from `node_info`
  root: Any  # `[]` the node at which the search starts
  scale: Any  # the largest payoff of the game, of which the tree may be a part
  present: jax.Array  # `[N]` which nodes the search has added
  prior: jax.Array  # `[L, M, H]` see `Store`

  asks_once = False
  grows = False
  deals = True

  @property
  def kind(self) -> Array:
    return self.tree.kind

  @property
  def rows(self) -> np.ndarray:
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

  @property
  def steps(self) -> int:
    return self.tree.structure.depth

  def problem(self, beliefs: jax.Array, like: MarkedProblem | None = None) -> MarkedProblem:
    if like is not None:
      return with_nodes(like, self.present)
    return marked_problem(self.tree, self.nodes, self.root, beliefs, self.present)

  def seen(self) -> jax.Array:
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
    here = jnp.asarray(row_of_nodes(self.tree.structure))[node]
    known = (action >= 0) & self.present[child]
    place = child, leads_to, here
    return Moves(action >= 0, known, action, leads_to, *place, self.prior[here, :, held])

  def dealt(self, node: jax.Array, hands: jax.Array) -> jax.Array:
    tree, kids = self.tree, self.nodes.child[node]
    weights = (kids >= 0).astype(tree.dtype)
    if tree.chance_probability is not None:
      weights *= tree.chance_probability[kids]
    if tree.possible is not None:
      origins = jnp.arange(tree.num_infostates, dtype=hands.dtype)[None, None]
      if tree.infostate_parent is not None:
        origins = tree.infostate_parent[kids]
      reached = tree.possible[kids] & (origins == hands[None, :, None])
      weights = jnp.where(reached.any(axis=-1).all(axis=-1), weights, 0.0)
    return weights

  def turned(self, node: jax.Array, action: jax.Array, hands: jax.Array) -> jax.Array:
    tree = self.tree
    if tree.infostate_parent is None:
      return hands
    child = self.nodes.child[node, action]
    # Of several infostates that come from one, the first.
    reached = jnp.asarray(tree.infostate_parent)[child] == hands[:, None]
    if tree.possible is not None:
      reached &= jnp.asarray(tree.possible)[child]
    return jnp.argmax(reached, axis=-1).astype(hands.dtype)

  def by_move(self, rows: jax.Array) -> jax.Array:
    return rows

  def at_places(self, rows: jax.Array) -> jax.Array:
    padded = jnp.concatenate([rows, jnp.zeros_like(rows[:, :1])], axis=1)
    return padded[:, row_of_nodes(self.tree.structure)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OnTree:
  """The start of a search on a written-out tree."""

  tree: PublicTree  # see `Marked`
  nodes: NodeInfo
  scale: Any
  root: Array  # the node where it starts
  current: Array  # the node where simulations start
  beliefs: Array  # `[P, H]` at the root
  promises: Promises | None  # there, which may be to nobody; None for never to anybody

  def plant(self, search: GTCFR) -> tuple[Marked, Any]:
    """Returns the store of the root, the way to `current` and their children; and `current`."""
    tree, nodes, scale = jax.tree.map(jnp.asarray, (self.tree, self.nodes, self.scale))
    root, current = (jnp.asarray(x, jnp.int32) for x in (self.root, self.current))
    paths = jnp.asarray(ancestors(tree.structure))
    if search.whole:
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
    return dataclasses.replace(planted, prior=uniform), current


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
