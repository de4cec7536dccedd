"""A public tree that grows by insertion into arrays of fixed capacity.

A child's place is after its parent's, so that places are an order from the top down.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from games import CHANCE, TERMINAL, Game
from games.public_tree import PADDING, Array
from solvers.algorithms.wrappers import Promises
from solvers.growing.insertion.problem import InsertedProblem, inserted_problem
from solvers.growing.states import GTCFR
from solvers.growing.store import Moves

# Children that are written at once. Few states have as many as the rules allow, such as one for
# each station where a hidden player may show itself.
_AT_ONCE = 32


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class InsertedTree:
  """Public states that a search has added, in the order in which they joined, then free places."""

  # Letters: `C` capacity, `S` integers a state, `A` actions, `H` infostates, `F` features, `P = 2`,
  # `M` moves of `Game.moves_of`, which are the actions where all moves are seen.
  count: jax.Array  # how many nodes there are
  lost: jax.Array  # how many nodes had no room; their parents stay as they were
  state: jax.Array  # `[C, S]` the game's public state
  kind: jax.Array  # `[C]` 0 or 1 (that player moves), `CHANCE`, `TERMINAL`, or `PADDING` where free
  depth: jax.Array  # `[C]` public actions since the root; -1 where free
  parent: jax.Array  # `[C]` the node before, 0 for the root
  action: jax.Array  # `[C]` that led here
  child: jax.Array  # `[C, A]` the node after each action, -1 where there is none
  legal: jax.Array  # `[C, A]` which actions the rules allow, in the tree or not
  chance: jax.Array  # `[C]` probability of all that chance has done since the root
  possible: jax.Array  # `[C, P, H]` which infostates the rules allow
  features: jax.Array  # `[C, F]` as the mover sees it, player 0 where chance moves
  leads_to: jax.Array  # `[C, M, H]`, see `Game.moves_of`; `[C, 0, H]` without hidden moves
  by_action: jax.Array  # `[C, M, H]`, see `Game.moves_of`; `[C, 0, H]` without hidden moves
  prior: jax.Array  # `[C, M, H]` the network's newest answer; uniform without one
  values: jax.Array  # `[C, P]` expected payoffs with one infostate a player; `[C, 0]` otherwise
  game: Game = dataclasses.field(metadata={"static": True})  # the rules
  width: int = dataclasses.field(metadata={"static": True})  # most children a simulation

  @property
  def capacity(self) -> int:
    return self.kind.shape[-1]

  num_nodes = capacity  # as algorithms ask for it

  @property
  def num_infostates(self) -> int:
    return self.possible.shape[-1]

  grows = True

  @property
  def asks_once(self) -> bool:
    return self.num_infostates == 1

  # What algorithms ask of a tree's arrays.

  @property
  def dtype(self) -> Any:
    return self.chance.dtype

  @property
  def infostate_parent(self) -> jax.Array | None:
    """None where infostates never change; with hidden moves they do, as `leads_to` says."""
    return self.leads_to if self.hides else None

  # What differs with hidden moves.

  @property
  def hides(self) -> bool:
    """Whether there are hidden moves."""
    return self.leads_to.shape[-2] > 0

  @property
  def open(self) -> jax.Array:
    """Which moves the rules allow: `[C, M, H]`, or `[C, M, 1]` where all moves are seen."""
    return self.leads_to >= 0 if self.hides else self.legal[:, : self.prior.shape[1], None]

  def by_move(self, rows: jax.Array) -> jax.Array:
    return rows[self.capacity :].reshape(self.leads_to.shape) if self.hides else rows

  def at_places(self, rows: jax.Array) -> jax.Array:
    over = (self.kind == TERMINAL).reshape(1, -1, *[1] * (rows.ndim - 2))
    return jnp.where(over, jnp.zeros_like(rows), rows)

  # What a search does with a store.

  @property
  def movers(self) -> jax.Array:
    return self.kind

  @property
  def scale(self) -> float:
    return self.game.largest_payoff

  @property
  def deals(self) -> bool:
    return self.game.has_chance

  @property
  def steps(self) -> int:
    return min(self.game.max_moves, self.capacity)

  def seen(self) -> jax.Array:
    return self.features

  def problem(self, beliefs: jax.Array, like: Any = None) -> InsertedProblem:
    return inserted_problem(self, beliefs)

  def join(self, node: jax.Array, joins: jax.Array) -> tuple["InsertedTree", jax.Array]:
    return insert(self, node, joins, self.width)

  def children(self, node: jax.Array) -> jax.Array:
    return self.child[node]

  def moves(self, node: jax.Array, held: jax.Array) -> Moves:
    if self.hides:
      leads_to, action = self.leads_to[node, :, held], self.by_action[node, :, held]
      known, size = (action >= 0) & (self.child[node, action] >= 0), len(action)
      row = self.capacity + node * size + jnp.arange(size, dtype=jnp.int32)
      is_open = leads_to >= 0
    else:
      size = self.prior.shape[1]
      row, is_open = self.child[node, :size], self.legal[node, :size]
      known, action = row >= 0, jnp.arange(len(row), dtype=jnp.int32)
      leads_to = jnp.full_like(row, held)
    place = row, jnp.full_like(row, held), node
    return Moves(is_open, known, action, leads_to, *place, self.prior[node, :, held])

  def dealt(self, node: jax.Array, hands: jax.Array) -> jax.Array:
    kids = jnp.maximum(self.child[node], 0)
    possible = self.possible[kids, 0, hands[0]] & self.possible[kids, 1, hands[1]]
    return jnp.where((self.child[node] >= 0) & possible, self.chance[kids], 0.0)

  def turned(self, node: jax.Array, action: jax.Array, hands: jax.Array) -> jax.Array:
    """Returns the infostates `[P]` after a public action: those who did not move keep theirs."""
    return hands

  @property
  def present(self) -> jax.Array:
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
  game: Game,
  state: Array,
  possible: Array,
  capacity: int,
  dtype: Any,
  width: int = 1,
) -> InsertedTree:
  """Returns the tree of one node, `state` `[S]`."""
  state = jnp.asarray(state)
  num_actions, num_infostates = game.num_actions, game.num_infostates
  features = jax.eval_shape(lambda x: game.features(x, 0), state[None])
  unseen = jnp.full((capacity, game.num_hidden * (game.num_hidden > 1), num_infostates), -1)
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
    features=jnp.zeros((capacity, features.shape[1]), dtype),
    leads_to=unseen.astype(jnp.int32),
    by_action=unseen.astype(jnp.int32),
    prior=jnp.zeros((capacity, game.num_moves, num_infostates), dtype),
    values=jnp.zeros((capacity, 2 if num_infostates == 1 else 0), dtype),
    game=game,
    width=width,
  )
  rows = {
    "state": state[None],
    "depth": jnp.zeros(1, int),
    "parent": jnp.zeros(1, int),
    "action": jnp.full(1, -1),
    "chance": jnp.ones(1, dtype),
    "possible": jnp.asarray(possible, bool)[None],
  }
  tree = _put(free, jnp.zeros(1, int), rows)
  return dataclasses.replace(tree, count=jnp.ones_like(tree.count))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class ByRules:
  """The start of a search in a game whose tree is made as it grows."""

  state: Array  # `[S]` public state of the root
  possible: Array  # `[P, H]` infostates that the rules allow there
  path: Array  # `[D]` public actions from there, then -1
  beliefs: Array  # `[P, H]` at the root
  promises: Promises | None  # there, which may be to nobody; None for never to anybody
  game: Game = dataclasses.field(metadata={"static": True})  # the rules
  capacity: int = dataclasses.field(metadata={"static": True})  # nodes that there is room for

  def plant(self, search: GTCFR) -> tuple[InsertedTree, jax.Array]:
    """Returns the store of the root, the path and their children; and the path's end."""
    root = self.state, self.possible, self.capacity, jnp.asarray(self.beliefs).dtype
    tree = plant(self.game, *root, children_at_once(self.game, search))
    path, most = jnp.asarray(self.path), self.game.num_children
    tree, _ = insert(tree, jnp.zeros((), int), tree.legal[0], most)

    def follow(carry, action):
      tree, node = carry
      next_node = jnp.where(action >= 0, tree.child[node, action], node)
      tree, _ = insert(tree, next_node, tree.legal[next_node] & (action >= 0), most)
      return (tree, next_node), None

    start = tree, jnp.zeros_like(tree.count, tree.child.dtype)
    if not len(path):  # without compilation there is no loop of no turns
      return start
    return lax.scan(follow, start, path)[0]


def children_at_once(game: Game, search: GTCFR) -> int:
  """Returns the most children that a simulation adds."""
  if search.children is None or game.has_chance:
    return game.num_children
  return min(search.children, game.num_children)


def most_nodes(game: Game, search: GTCFR, length: int) -> int:
  """Returns the most nodes of a search whose path is of `length` actions."""
  most = search.simulations * children_at_once(game, search)
  return 1 + game.num_children * (length + 1) + most


def insert(
  tree: InsertedTree, node: jax.Array, joins: jax.Array, width: int
) -> tuple[InsertedTree, jax.Array]:
  """Adds children of a node, all or, where they do not fit, none."""
  # `joins` `[A]` are legal actions without a child yet; the capacity stands for a place of none.
  actions = jnp.nonzero(joins, size=width, fill_value=0)[0].astype(jnp.int32)
  number = joins.sum().astype(tree.count.dtype)
  fits = tree.count + number <= tree.capacity
  each = jnp.arange(width, dtype=jnp.int32)
  real = (each < number) & fits
  places = jnp.where(real, tree.count + each, tree.capacity)
  child = tree.child.at[node, jnp.where(real, actions, len(joins))].set(places, mode="drop")
  tree = dataclasses.replace(
    tree,
    child=child,
    count=tree.count + jnp.where(fits, number, 0),
    lost=tree.lost + jnp.where(fits, 0, number),
  )
  if width <= _AT_ONCE:
    return _put_children(tree, node, actions, places), places
  rest = -width % _AT_ONCE
  slots = jnp.pad(actions, (0, rest)), jnp.pad(places, (0, rest), constant_values=tree.capacity)

  def some(i, tree):
    here = [lax.dynamic_slice(x, (i * _AT_ONCE,), (_AT_ONCE,)) for x in slots]
    return _put_children(tree, node, *here)

  return lax.fori_loop(0, -(-number // _AT_ONCE), some, tree), places


def _put_children(
  tree: InsertedTree, node: jax.Array, actions: jax.Array, places: jax.Array
) -> InsertedTree:
  """Writes the children of a node after `actions` `[K]` to `places` `[K]`."""
  game, width = tree.game, len(actions)
  above, possible, chance = (
    jnp.broadcast_to(x[node], (width, *x.shape[1:]))
    for x in (tree.state, tree.possible, tree.chance)
  )
  if game.has_chance:
    dealt = game.chance(above, actions)[0].astype(tree.dtype)
    chance = chance * jnp.where(tree.kind[node] == CHANCE, dealt, 1.0)
  rows = {
    "state": game.next_states(above, actions),
    "depth": jnp.broadcast_to(tree.depth[node] + 1, width),
    "parent": jnp.broadcast_to(node, width),
    "action": actions,
    "chance": chance,
    "possible": game.possible_after(above, actions, possible),
  }
  return _put(tree, places, rows)


def _put(tree: InsertedTree, places: jax.Array, rows: dict[str, jax.Array]) -> InsertedTree:
  """Writes nodes and the rules' answers for them to `places` `[K]`; those beyond are dropped."""
  game, state = tree.game, rows["state"]
  kind = game.actor(state)
  over = kind == TERMINAL
  legal = game.legal_actions(state) & ~over[:, None]
  seen = [game.features(state, player) for player in (0, 1)]
  features = jnp.where((kind == 1)[:, None], seen[1], seen[0])
  features = jnp.where(over[:, None], jnp.zeros_like(features), features)
  rows = rows | {"kind": kind, "legal": legal, "features": features}
  allowed = legal[:, : tree.prior.shape[1], None]
  if tree.hides:
    moves = game.moves_of(state, rows["possible"])
    moves = jax.tree.map(lambda x: jnp.where((kind < CHANCE)[:, None, None], x, -1), moves)
    rows = rows | {"leads_to": moves.leads_to, "by_action": moves.action}
    allowed = moves.leads_to >= 0
  uniform = allowed.astype(tree.dtype)
  uniform = uniform / jnp.maximum(uniform.sum(axis=1, keepdims=True), 1.0)
  rows["prior"] = jnp.broadcast_to(uniform, (len(state), *tree.prior.shape[1:]))
  if tree.num_infostates == 1:
    one = jnp.ones((len(state), 1), tree.dtype)
    won = [game.terminal_values(state, one, player) for player in (0, 1)]
    rows["values"] = jnp.where(over[:, None], jnp.concatenate(won, axis=1), 0.0)
  written = {}
  for name, new in rows.items():
    old = getattr(tree, name)
    written[name] = old.at[places].set(new.astype(old.dtype), mode="drop")
  return dataclasses.replace(tree, **written)
