"""Starts of growing searches: a node of a written-out tree, or a public state by a game's rules.

They are checked first.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, Game, pairs
from games.public_tree import Array, PublicTree, largest_payoff
from games.tabulate import NodeInfo, children_of
from solvers import validation
from solvers.algorithms.wrappers import Promises
from solvers.growing.insertion.tree import InsertedTree, plant, plant_path
from solvers.growing.marked import Marked, plant_marked
from solvers.growing.settings import GTCFR


def check_nodes(tree: PublicTree, nodes: Any) -> None:
  """Checks that `nodes` is what `node_info` returns for `tree`."""
  if not isinstance(nodes, NodeInfo) or not isinstance(nodes.pair_index, np.ndarray | jax.Array):
    raise TypeError(f"nodes={type(nodes).__name__} must be what solvers.node_info returned")
  if len(nodes.pair_index) != tree.num_nodes:
    raise ValueError(f"nodes are those of {len(nodes.pair_index)}, but tree has {tree.num_nodes}")
  if validation.is_concrete(tree, nodes):
    number = nodes.child.shape[1]
    if tree.action.max() >= number or (children_of(tree, number) != nodes.child).any():
      raise ValueError("nodes are those of another tree; solvers.node_info(game, tree) makes them")


def check_key(key: Any) -> None:
  """Checks that `key` is one random key."""
  typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
  if not typed or key.ndim:
    raise TypeError(f"key={type(key).__name__} must be one key, such as jax.random.key(0)")


def check_node(name: str, tree: PublicTree, node: Any) -> jax.Array:
  """Returns one node, which may be traced."""
  if isinstance(node, jax.core.Tracer):
    return node
  if np.ndim(node) == 0 and isinstance(node, int | np.integer | np.ndarray | jax.Array):
    number = validation.check_integer(name, node if isinstance(node, int) else node.item(), least=0)
    if number < tree.num_nodes:
      return jnp.asarray(number)
  raise ValueError(
    f"{name}={validation.short(node)} must be a node of the tree, 0 to {tree.num_nodes - 1}"
  )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OnTree:
  """The start of a search on a written-out tree.

  Attributes:
    tree, nodes, scale: see `Marked`.
    root, current: nodes, where it and its simulations start.
    beliefs: `[P, H]` at the root.
    promises: there, which may be to nobody; None for never to anybody.
  """

  tree: PublicTree
  nodes: NodeInfo
  scale: Any
  root: Array
  current: Array
  beliefs: Array
  promises: Promises | None

  def plant(self, search: GTCFR) -> tuple[Marked, jax.Array]:
    """Returns the store before the first simulation, and the place at which simulations start."""
    current = jnp.asarray(self.current)
    store = plant_marked(self.tree, self.nodes, self.root, current, self.scale, whole=search.whole)
    return store, current

  def steps(self, store: Marked) -> int:
    """Returns the most steps of a simulation."""
    return store.tree.structure.depth


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ByRules:
  """The start of a search in a game whose tree is made as it grows.

  Attributes:
    state: `[S]` public state of the root.
    possible: `[P, H]` infostates that the rules allow there.
    path: `[D]` public actions from there, then -1.
    beliefs, promises: see `OnTree`.
    game: the rules; static.
    capacity: nodes that there is room for; static.
    asks_once: see `InsertedTree`; static.
  """

  state: Array
  possible: Array
  path: Array
  beliefs: Array
  promises: Promises | None
  game: Game = dataclasses.field(metadata={"static": True})
  capacity: int = dataclasses.field(metadata={"static": True})
  asks_once: bool = dataclasses.field(metadata={"static": True})

  def plant(self, search: GTCFR) -> tuple[InsertedTree, jax.Array]:
    root = self.state, self.possible, self.capacity, jnp.asarray(self.beliefs).dtype
    tree = plant(self.game, *root, children_at_once(self.game, search), asks_once=self.asks_once)
    return plant_path(tree, jnp.asarray(self.path))

  def steps(self, store: InsertedTree) -> int:
    return min(self.game.max_moves, store.capacity)


def children_at_once(game: Game, search: GTCFR) -> int:
  """Returns the most children that a simulation adds."""
  if search.children is None or game.has_chance:
    return game.num_children
  return min(search.children, game.num_children)


def most_nodes(game: Game, search: GTCFR, length: int) -> int:
  """Returns the most nodes of a search whose path is of `length` actions."""
  most = search.simulations * children_at_once(game, search)
  return 1 + game.num_children * (length + 1) + most


def start_on_tree(tree: PublicTree, nodes: Any, root: Any, current: Any, beliefs: Any) -> OnTree:
  """Returns the start of `gt_cfr` in a tree; arguments as for `gt_cfr`."""
  validation.check_unstacked(tree)
  check_nodes(tree, nodes)
  beliefs = tree.prior if beliefs is None else beliefs
  validation.check_shape("beliefs", beliefs, (2, tree.num_infostates), "(P, H)")
  root = check_node("root", tree, 0 if root is None else root)
  current = root if current is None else check_node("current", tree, current)
  if validation.is_concrete(tree, nodes, root, current):
    above = int(current)
    while above > int(root):  # a node's number is larger than those above it
      above = int(tree.parent[above])
    if above != int(root) or tree.kind[int(current)] > CHANCE:
      raise ValueError(
        f"current={int(current)} must be a node where the game goes on, root={int(root)} or below"
      )
    if validation.is_concrete(beliefs):
      possible = None if tree.possible is None else np.asarray(tree.possible)[int(root)]
      table = int(nodes.pair_index[int(root)])
      validation.check_distributions(beliefs, possible, pairs.of_tree(tree), table)
  beliefs = jnp.asarray(beliefs, tree.dtype)
  return OnTree(tree, nodes, largest_payoff(tree), root, current, beliefs, None)


def start_by_rules(
  game: Game, search: GTCFR, state: Any, possible: Any, path: Any, beliefs: Any, capacity: Any
) -> ByRules:
  """Returns the start of `gt_cfr` in a game by its rules; arguments as for `gt_cfr`."""
  if game.renumbers:
    raise ValueError(
      f"infostates of {game.name} change by others' moves, which rules do not follow"
    )
  if beliefs is None and state is not None:
    raise ValueError("beliefs=None are the game's prior: give those at root")
  if game.num_hidden > 1 and possible is None:
    if state is not None:
      raise ValueError(f"possible=None, but infostates of {game.name} change: give those possible")
    possible = np.asarray(game.prior()) > 0
  shape = (2, game.num_infostates)
  first = np.asarray(game.initial_state())
  state = first if state is None else state
  validation.check_shape("root", state, first.shape, "(S,)")
  beliefs = game.prior() if beliefs is None else beliefs
  validation.check_shape("beliefs", beliefs, shape, "(P, H)")
  possible = np.ones(shape, bool) if possible is None else possible
  validation.check_shape("possible", possible, shape, "(P, H)")
  if not isinstance(path, jax.Array):
    path = jnp.asarray(validation.check_history(path), jnp.int32)
  validation.check_shape("path", path, (path.size,), "(D,)")
  if validation.is_concrete(state, possible, path, beliefs):
    followed = [action for action in path.tolist() if action >= 0]
    last = game.state_after(followed, start=np.asarray(state), field="path")
    if game.actor(last[None])[0] > CHANCE:
      raise ValueError(f"root and path={followed} lead to where the game is over")
    table = int(game.pair_index(np.asarray(state)[None])[0])
    validation.check_distributions(beliefs, np.asarray(possible) > 0, game.pairs(), table)
  most = most_nodes(game, search, path.size)
  if capacity is None:
    capacity = most
  elif validation.check_integer("capacity", capacity) < 1 + game.num_children * (path.size + 1):
    raise ValueError(
      f"capacity={capacity} must have room for the root, the path and their children: "
      f"{1 + game.num_children * (path.size + 1)} nodes"
    )
  state, possible, beliefs = jnp.asarray(state), jnp.asarray(possible), jnp.asarray(beliefs, float)
  once = game.num_infostates == 1
  return ByRules(state, possible, path, beliefs, None, game, min(capacity, most), once)
