"""Rules on JAX's arrays for any game whose public tree can be written out."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.build import build_public_tree
from games.game import CHANCE, Game, check_is_game
from games.node_info import NodeInfo, infostates_after, node_info
from games.origin import check_tree_of
from games.public_tree import PublicTree, largest_payoff


def table_game(game: Game, tree: PublicTree | None = None) -> "TableGame":
  """Returns `game` as rules on JAX's arrays, read from tables of its public tree.

  Args:
    game: such that infostates change by their holder's own moves alone.
    tree: its whole tree, whose float type the rules then have; None to build it.

  Raises:
    TypeError: `game` or `tree` is something else.
    ValueError: the tree is cut off, padded or of another game, or infostates are hands of two
      cards.
  """
  check_is_game(game)
  if tree is None:
    tree = build_public_tree(game)
  check_tree_of(game, tree)
  if tree.depth_limited or tree.padded:
    raise ValueError(f"tree is cut off at {tree.num_leaves} leaves or padded; tables need it all")
  if tree.infostate_parent is not None and _renumbers(tree):
    raise ValueError(f"infostates of {game.name} change by others' moves, which rules do not hold")
  if tree.hands is not None:
    raise ValueError(f"{game.name} has hands of cards, whose tables of pairs would be large")
  return TableGame(game, tree)


@jax.tree_util.register_pytree_node_class
class TableGame:
  """A `DeviceGame` made by `table_game`; a public state is `[1]`, a node of the tree.

  It is static where programs take rules as they are, and a pytree of its tables where they are
  given to a program. Where infostates change, `held_after` says those of who did not move.

  Attributes:
    tree: the tree.
    nodes: tables of every node.
    words: of the game; None in what JAX makes of the tables.
  """

  def __init__(self, game: Game, tree: PublicTree):
    nodes = node_info(game, tree)
    tree = jax.tree.map(np.asarray, tree)
    self._fill(
      (tree, nodes),
      {
        "name": game.name,
        "num_infostates": tree.num_infostates,
        "max_moves": tree.structure.depth,
        "num_actions": game.num_actions,
        "num_player_actions": game.num_player_actions,
        "num_hidden": nodes.by_action.shape[1] if nodes.leads_to.shape[1] else 1,
        "orders_infostates": game.orders_infostates,
        "deals": bool((tree.kind == CHANCE).any()),
        "largest_payoff": float(largest_payoff(tree)),
      },
    )
    self.words: Game | None = game

  def _fill(self, tables: tuple[PublicTree, NodeInfo], settings: dict[str, Any]) -> None:
    self.tree, self.nodes = tables
    self.num_infostates, self.max_moves = settings["num_infostates"], settings["max_moves"]
    self._settings = tuple(settings.items())
    self.name: str = settings["name"]
    self.num_actions = self.num_children = settings["num_actions"]
    self.num_player_actions: int = settings["num_player_actions"]
    self.num_hidden: int = settings["num_hidden"]
    self.orders_infostates: bool = settings["orders_infostates"]
    self.deals: bool = settings["deals"]
    self.largest_payoff: float = settings["largest_payoff"]

  def tree_flatten(self):
    return (self.tree, self.nodes), self._settings

  @classmethod
  def tree_unflatten(cls, settings, tables):
    rules = object.__new__(cls)
    rules._fill(tables, dict(settings))
    rules.words = None
    return rules

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
    return self._children(state) >= 0

  def next_state(self, state, action):
    return self._children(state)[action][None].astype(state.dtype)

  def prior(self):
    return self.tree.prior

  def chance(self, state):
    children = self._children(state)
    if self.tree.chance_probability is None:  # each outcome happens, to some infostates
      return (children >= 0).astype(self.tree.dtype)
    return jnp.where(children >= 0, jnp.asarray(self.tree.chance_probability)[children], 0.0)

  def possible_after(self, state, action, possible):
    tree, child = self.tree, self.next_state(state, action)[0]
    if tree.possible is not None:
      return self.possible_at(child)
    if tree.hands is not None and tree.dealt is not None:
      cards = jnp.asarray(tree.dealt)[child]
      possible = possible & ~(jnp.asarray(tree.hands)[:, :, None] == cards).any(axis=(1, 2))
    return possible

  def held_after(self, state, action, hands):
    """Returns the infostates `[P]` after an action of players who held `hands` and did not move."""
    return infostates_after(self.tree, self._children(state)[action], hands)

  def hidden_moves(self, state):
    if self.num_hidden == 1:
      return None
    node = state[0]
    leads_to, action = self.nodes.leads_to, self.nodes.by_action
    return jnp.asarray(leads_to)[node].T, jnp.asarray(action)[node].T

  def compatible_mass(self, state, reach, player):
    if self.tree.hands is not None:  # all but the hands that share a card
      hands = jnp.asarray(self.tree.hands)
      of_card = jnp.zeros(self.tree.num_cards, reach.dtype).at[hands].add(reach[:, None])
      return reach.sum() - of_card[hands].sum(axis=1) + reach
    weights = jnp.asarray(self.tree.pair_weights)[jnp.asarray(self.nodes.pair_index)[state[0]]]
    return _product(weights if player == 0 else weights.T, reach)

  def terminal_values(self, state, reach, player):
    tree, structure = self.tree, self.tree.structure
    rows = np.zeros(structure.num_nodes, np.int32)
    rows[structure.terminal_nodes] = np.arange(structure.num_terminals)
    row = jnp.asarray(rows)[state[0]]
    table = jnp.asarray(tree.payoffs)[jnp.asarray(tree.payoff_index)[row]]
    reach = reach * jnp.asarray(tree.payoff_scale)[row]
    return _product(table if player == 0 else -table.T, reach)

  def features(self, state, player):
    return jnp.asarray(self.nodes.features)[player, state[0]]

  def _children(self, state):
    return jnp.asarray(self.nodes.child)[state[0]]

  def __repr__(self):
    return f"games.table_game({self.name})"


def _renumbers(tree: PublicTree) -> bool:
  """Says whether infostates change that somebody else's move leads to."""
  others = np.asarray(tree.kind)[np.asarray(tree.parent)][:, None] != np.arange(2)
  others[0] = False
  changed = np.asarray(tree.infostate_parent) != np.arange(tree.num_infostates)
  if tree.possible is not None:
    changed = changed & tree.possible
  return bool((changed.any(axis=-1) & others).any())


def _product(table: jax.Array, reach: jax.Array) -> jax.Array:
  # XLA fuses this; products of matrices this small are calls into a library on a CPU.
  return (table * reach[None]).sum(axis=1)
