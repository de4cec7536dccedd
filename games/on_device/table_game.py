"""Rules on JAX's arrays for any game whose public tree can be written out."""

import jax
import jax.numpy as jnp
import numpy as np

from games.build import build_public_tree
from games.game import CHANCE, Game, check_is_game
from games.kinds import TERMINAL
from games.origin import check_tree_of
from games.public_tree import PublicTree, largest_payoff


def table_game(game: Game, tree: PublicTree | None = None) -> "TableGame":
  """Returns `game` as rules on JAX's arrays, read from tables of its public tree.

  Args:
    game: with moves that both players see.
    tree: its whole tree, whose float type the rules then have; None to build it.

  Raises:
    TypeError: `game` or `tree` is something else.
    ValueError: the tree is cut off, padded or of another game, moves are hidden, or infostates are
      hands of two cards.
  """
  check_is_game(game)
  if tree is None:
    tree = build_public_tree(game)
  check_tree_of(game, tree)
  if tree.depth_limited or tree.padded:
    raise ValueError(f"tree is cut off at {tree.num_leaves} leaves or padded; tables need it all")
  if tree.infostate_parent is not None:
    raise ValueError(f"{game.name} has hidden moves, which tables of rules do not hold")
  if tree.hands is not None:
    raise ValueError(f"{game.name} has hands of cards, whose tables of pairs would be large")
  return TableGame(game, tree)


class TableGame:
  """A `DeviceGame` made by `table_game`; a public state is `[1]`, a node of the tree.

  Attributes:
    tree: the tree.
    words: of the game.
  """

  num_hidden = 1

  def __init__(self, game: Game, tree: PublicTree):
    self.name = game.name
    self.num_infostates, self.num_actions = tree.num_infostates, game.num_actions
    self.num_children = game.num_actions
    self.tree = tree = jax.tree.map(np.asarray, tree)
    self.words = game
    self.orders_infostates = game.orders_infostates
    self.max_moves = tree.structure.depth
    self.deals = bool((tree.kind == CHANCE).any())
    self._child = np.full((tree.num_nodes, game.num_actions), -1, np.int32)
    self._child[tree.parent[1:], tree.action[1:]] = np.arange(1, tree.num_nodes)
    inner = tree.kind != TERMINAL
    self._pair_index = np.zeros(tree.num_nodes, np.int32)
    self._pair_index[inner] = game.pair_index(tree.state[inner])
    width = tree.root_features.shape[-1]
    self._features = np.zeros((2, tree.num_nodes, width), tree.dtype)
    for player in (0, 1):
      self._features[player, inner] = game.features(tree.state[inner], player)
    self._payoff_index = np.zeros(tree.num_nodes, np.int32)
    self._payoff_index[tree.terminal_nodes] = tree.payoff_index
    self._payoff_scale = np.zeros(tree.num_nodes, tree.dtype)
    self._payoff_scale[tree.terminal_nodes] = tree.payoff_scale
    self.largest_payoff = float(largest_payoff(tree))

  def possible_at(self, node: int | jax.Array) -> jax.Array:
    """Returns which infostates the rules allow at a node: `[P, H]` bool."""
    if self.tree.possible is None:
      return jnp.ones((2, self.num_infostates), bool)
    return jnp.asarray(self.tree.possible)[node]

  def initial_state(self):
    return np.zeros(1, np.int32)

  def actor(self, state):
    return jnp.asarray(self.tree.kind)[state[0]]

  def legal_actions(self, state):
    return jnp.asarray(self._child)[state[0]] >= 0

  def next_state(self, state, action):
    return jnp.asarray(self._child)[state[0], action][None].astype(state.dtype)

  def prior(self):
    return self.tree.prior

  def chance(self, state):
    children = jnp.asarray(self._child)[state[0]]
    if self.tree.chance_probability is None:  # each outcome happens, to some infostates
      return (children >= 0).astype(self.tree.dtype)
    return jnp.where(children >= 0, jnp.asarray(self.tree.chance_probability)[children], 0.0)

  def possible_after(self, state, action, possible):
    if self.tree.possible is None:
      return possible
    return possible & self.possible_at(self.next_state(state, action)[0])

  def hidden_moves(self, state) -> None:
    del state

  def compatible_mass(self, state, reach, player):
    weights = jnp.asarray(self.tree.pair_weights)[jnp.asarray(self._pair_index)[state[0]]]
    return _product(weights if player == 0 else weights.T, reach)

  def terminal_values(self, state, reach, player):
    table = jnp.asarray(self.tree.payoffs)[jnp.asarray(self._payoff_index)[state[0]]]
    reach = reach * jnp.asarray(self._payoff_scale)[state[0]]
    return _product(table if player == 0 else -table.T, reach)

  def features(self, state, player):
    return jnp.asarray(self._features)[player, state[0]]

  def __repr__(self):
    return f"games.table_game({self.name})"


def _product(table: jax.Array, reach: jax.Array) -> jax.Array:
  # XLA fuses this; products of matrices this small are calls into a library on a CPU.
  return (table * reach[None]).sum(axis=1)
