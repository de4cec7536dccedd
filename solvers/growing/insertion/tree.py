"""A public tree that grows by insertion into arrays of fixed capacity (store B).

A child's place is after its parent's, so that places are an order from the top down.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from games.game import CHANCE, TERMINAL
from games.on_device.game import DeviceGame
from games.public_tree import PADDING, Array


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class InsertedTree:
  """Public states that a search has added, in the order in which they joined, then free places.

  Letters: `C` capacity, `S` integers a state, `A` actions, `H` infostates, `F` features, `P = 2`.

  Attributes:
    count: how many nodes there are.
    lost: how many had to stay out for want of room; their parents kept what they were.
    state: `[C, S]` the game's public state.
    kind: `[C]` 0 or 1 (that player moves), `CHANCE`, `TERMINAL`, or `PADDING` where free.
    depth: `[C]` public actions since the root; -1 where free.
    parent, action: `[C]` the node before, 0 for the root, and the action that led here.
    child: `[C, A]` the node after each action, -1 where there is none.
    legal: `[C, A]` which actions the rules allow, in the tree or not.
    chance: `[C]` probability of all that chance has done since the root.
    possible: `[C, P, H]` which infostates the rules allow.
    features: `[C, F]` as the mover sees it, player 0 where chance moves; zero where the game is
      over.
    prior: `[C, A, H]` how likely the network thought each move when it was asked last; uniform
      without one.
    values: `[C, P]` with one infostate a player, expected payoffs: the game's where it is over,
      the network's where it was asked when the node joined; `[C, 0]` otherwise.
  """

  count: jax.Array  # []
  lost: jax.Array  # []
  state: jax.Array  # [C, S]
  kind: jax.Array  # [C]
  depth: jax.Array  # [C]
  parent: jax.Array  # [C]
  action: jax.Array  # [C]
  child: jax.Array  # [C, A]
  legal: jax.Array  # [C, A]
  chance: jax.Array  # [C]
  possible: jax.Array  # [C, P, H]
  features: jax.Array  # [C, F]
  prior: jax.Array  # [C, A, H]
  values: jax.Array  # [C, P] or [C, 0]

  @property
  def capacity(self) -> int:
    return self.kind.shape[-1]

  @property
  def num_infostates(self) -> int:
    return self.possible.shape[-1]

  # What algorithms ask of a tree's arrays.

  @property
  def num_nodes(self) -> int:
    return self.capacity

  @property
  def dtype(self) -> Any:
    return self.chance.dtype

  @property
  def infostate_parent(self) -> None:
    """Infostates never change: there are no hidden moves."""

  @property
  def present(self) -> jax.Array:
    """Which places hold a node: `[C]` bool."""
    return self.kind != PADDING

  @property
  def interior(self) -> jax.Array:
    """Which nodes have a child: `[C]` bool."""
    return (self.child >= 0).any(axis=-1)

  @property
  def frontier(self) -> jax.Array:
    """Which nodes are valued from outside: `[C]` bool."""
    return (self.kind <= CHANCE) & ~self.interior


def plant(
  game: DeviceGame, state: Array, possible: Array, capacity: int, dtype: Any
) -> InsertedTree:
  """Returns the tree of one node, `state` `[S]`.

  Args:
    game: the rules.
    state: of the root.
    possible: `[P, H]` infostates there.
    capacity: of the arrays.
    dtype: of numbers that are not integers.
  """
  state = jnp.asarray(state)
  num_actions, num_infostates = game.num_actions, game.num_infostates
  features = jax.eval_shape(lambda x: game.features(x, 0), state)
  free = InsertedTree(
    count=jnp.zeros((), jnp.int32),
    lost=jnp.zeros((), jnp.int32),
    state=jnp.zeros((capacity, len(state)), state.dtype),
    kind=jnp.full(capacity, PADDING, jnp.int32),
    depth=jnp.full(capacity, -1, jnp.int32),
    parent=jnp.zeros(capacity, jnp.int32),
    action=jnp.full(capacity, -1, jnp.int32),
    child=jnp.full((capacity, num_actions), -1, jnp.int32),
    legal=jnp.zeros((capacity, num_actions), bool),
    chance=jnp.zeros(capacity, dtype),
    possible=jnp.zeros((capacity, 2, num_infostates), bool),
    features=jnp.zeros((capacity, *features.shape), dtype),
    prior=jnp.zeros((capacity, num_actions, num_infostates), dtype),
    values=jnp.zeros((capacity, 2 if num_infostates == 1 else 0), dtype),
  )
  rows = {
    "state": state[None],
    "depth": jnp.zeros(1, int),
    "parent": jnp.zeros(1, int),
    "action": jnp.full(1, -1),
    "chance": jnp.ones(1, dtype),
    "possible": jnp.asarray(possible, bool)[None],
  }
  tree = _put(game, free, jnp.zeros(1, int), rows)
  return dataclasses.replace(tree, count=jnp.ones_like(tree.count))


def insert(
  game: DeviceGame, tree: InsertedTree, node: jax.Array, joins: jax.Array, width: int
) -> tuple[InsertedTree, jax.Array]:
  """Adds children of a node, all or, where they do not fit, none.

  Args:
    game: the rules.
    tree: what there is.
    node: whose children.
    joins: `[A]` bool, by action; of legal ones that are not there.
    width: how many join at most; static.

  Returns:
    The tree, and the places of those who joined, `[width]`, the capacity where none.
  """
  actions = jnp.nonzero(joins, size=width, fill_value=0)[0].astype(jnp.int32)
  number = joins.sum().astype(tree.count.dtype)
  fits = tree.count + number <= tree.capacity
  real = (jnp.arange(width) < number) & fits
  places = jnp.where(real, tree.count + jnp.arange(width, dtype=jnp.int32), tree.capacity)
  above = tree.state[node]
  chance = jnp.broadcast_to(tree.chance[node], width)
  if game.deals:
    dealt = game.chance(above).astype(tree.dtype)[actions]
    chance = chance * jnp.where(tree.kind[node] == CHANCE, dealt, 1.0)
  possible = jax.vmap(game.possible_after, (None, 0, None))(above, actions, tree.possible[node])
  rows = {
    "state": jax.vmap(game.next_state, (None, 0))(above, actions),
    "depth": jnp.broadcast_to(tree.depth[node] + 1, width),
    "parent": jnp.broadcast_to(node, width),
    "action": actions,
    "chance": chance,
    "possible": possible,
  }
  child = tree.child.at[node, jnp.where(real, actions, len(joins))].set(places, mode="drop")
  tree = dataclasses.replace(
    _put(game, tree, places, rows),
    child=child,
    count=tree.count + jnp.where(fits, number, 0),
    lost=tree.lost + jnp.where(fits, 0, number),
  )
  return tree, places


def _put(
  game: DeviceGame, tree: InsertedTree, places: jax.Array, rows: dict[str, jax.Array]
) -> InsertedTree:
  """Writes nodes and what the rules say of them to `places` `[K]`; those beyond are dropped."""
  state = rows["state"]
  kind = jax.vmap(game.actor)(state)
  over = kind == TERMINAL
  legal = jax.vmap(game.legal_actions)(state) & ~over[:, None]
  seen = [jax.vmap(lambda x, p=p: game.features(x, p))(state) for p in (0, 1)]
  features = jnp.where((kind == 1)[:, None], seen[1], seen[0]) * ~over[:, None]
  uniform = legal / jnp.maximum(legal.sum(axis=1, keepdims=True), 1)
  prior = jnp.broadcast_to(uniform[:, :, None], (len(state), *tree.prior.shape[1:]))
  rows = rows | {"kind": kind, "legal": legal, "features": features, "prior": prior}
  if tree.num_infostates == 1:
    one = jnp.ones(1, tree.dtype)
    won = [jax.vmap(lambda x, p=p: game.terminal_values(x, one, p)[0])(state) for p in (0, 1)]
    rows["values"] = jnp.stack(won, axis=1) * over[:, None]
  written = {}
  for name, new in rows.items():
    old = getattr(tree, name)
    written[name] = old.at[places].set(new.astype(old.dtype), mode="drop")
  return dataclasses.replace(tree, **written)
