"""Tables of every node of a public tree, by which searches on a device read a game's rules."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, Game
from games.origin import check_tree_of
from games.public_tree import LEAF, PADDING, Array, PublicTree


class NodeInfo(NamedTuple):
  """What the rules say of every node, of which the tree itself keeps some for its leaves alone.

  A move has a number below `M`, by the infostate from which it is made: that of its public action
  where all moves are seen, else its place among the infostate's moves by action and infostate.

  Attributes:
    features: `[P, N, F]` the public state of every node as each player sees it; zero where the game
      is over.
    pair_index: `[N]` which of the pair weights holds there.
    child: `[N, A]` the node after each action, -1 where there is none.
    by_action: `[N, M, H]` the public action of each of the mover's moves, -1 where there is none;
      `[N, M, 1]` where all moves are seen.
    leads_to: `[N, M, H]` the infostate after each move; `[N, 0, H]` where all moves are seen.
  """

  features: Array
  pair_index: Array
  child: Array
  by_action: Array
  leads_to: Array


def node_info(game: Game, tree: PublicTree) -> NodeInfo:
  """Returns the `NodeInfo` of `tree`, which is not stacked, by the rules of `game`, its own."""
  check_tree_of(game, tree)
  state, kind = np.asarray(tree.state), np.asarray(tree.kind)
  asks = (kind <= CHANCE) | (kind == LEAF)
  width = np.asarray(tree.root_features).shape[-1]
  features = np.zeros((2, len(kind), width), tree.dtype)
  pair_index = np.zeros(len(kind), np.int32)
  for player in (0, 1):
    features[player, asks] = game.features(state[asks], player)
  pair_index[asks] = game.pair_index(state[asks])
  child = children_of(tree, game.num_actions)
  by_action, leads_to = _moves(tree, child, game.num_player_actions)
  return NodeInfo(features, pair_index, child, by_action, leads_to)


def children_of(tree: PublicTree, num_actions: int) -> np.ndarray:
  """Returns the node after each action, -1 where there is none: `[N, A]`."""
  parent, action = np.asarray(tree.parent), np.asarray(tree.action)
  child = np.full((len(parent), num_actions), -1, np.int32)
  nodes = 1 + np.flatnonzero(np.asarray(tree.kind)[1:] != PADDING)
  child[parent[nodes], action[nodes]] = nodes
  return child


def infostates_after(tree: PublicTree, child: jax.Array, hands: jax.Array) -> jax.Array:
  """Returns the infostates `[P]` at node `child` of players who held `hands`, if they did not move.

  Where several come of one, the first.
  """
  if tree.infostate_parent is None:
    return hands
  reached = jnp.asarray(tree.infostate_parent)[child] == hands[:, None]
  if tree.possible is not None:
    reached &= jnp.asarray(tree.possible)[child]
  return jnp.argmax(reached, axis=-1).astype(hands.dtype)


def _moves(tree: Any, child: np.ndarray, num_player_actions: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns `by_action` and `leads_to` of a `NodeInfo`."""
  kind, size = np.asarray(tree.kind), tree.num_infostates
  if tree.infostate_parent is None:
    seen = (child[:, :num_player_actions] >= 0) & (kind < CHANCE)[:, None]
    by_action = np.where(seen, np.arange(seen.shape[1]), -1).astype(np.int32)
    return by_action[:, :, None], np.zeros((len(kind), 0, size), np.int32)
  parent, nodes = np.asarray(tree.parent), np.arange(len(kind))
  mover = kind[parent]
  player = np.minimum(mover, 1)
  there = np.ones((len(kind), size), bool)
  if tree.possible is not None:
    there = np.asarray(tree.possible)[nodes, player]
  there = there & ((mover < CHANCE) & (nodes > 0) & (kind != PADDING))[:, None]
  node, held = np.nonzero(there)
  origin = np.asarray(tree.infostate_parent)[node, player[node], held]
  action = np.asarray(tree.action)[node]
  place = parent[node] * size + origin
  order = np.lexsort((held, action, place))
  place, counts = place[order], np.bincount(place, minlength=1)
  number = np.arange(len(place)) - (np.cumsum(counts) - counts)[place]
  found = np.full((2, len(kind), max(int(counts.max()), 2), size), -1, np.int32)
  found[:, place // size, number, place % size] = action[order], held[order]
  return found[0], found[1]
