"""Tables of every node of a public tree, by which searches on a device read a game's rules."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, Game
from games.origin import check_tree_of
from games.public_tree import PADDING, Array, PublicTree


class NodeInfo(NamedTuple):
  """The rules' answers at every node, some of which a tree keeps for its leaves alone.

  A move has a number below `M`, by the infostate from which it is made: that of its public action
  where all moves are seen, else its place among the infostate's moves by action and infostate.

  Attributes:
    features: `[P, N, F]` the public state of every node as each player sees it.
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
  kind = np.asarray(tree.kind)
  nodes = 1 + np.flatnonzero(kind[1:] != PADDING)
  origins = None
  if tree.infostate_parent is not None:
    origins = np.asarray(tree.infostate_parent)[nodes]
    if tree.possible is not None:
      origins = np.where(np.asarray(tree.possible)[nodes], origins, -1)
  moves = np.asarray(tree.parent)[nodes], np.asarray(tree.action)[nodes], nodes
  return info_of(game, np.asarray(tree.state), kind, moves, origins, tree.dtype)


def info_of(
  game: Game,
  states: np.ndarray,
  kind: np.ndarray,
  moves: tuple[np.ndarray, np.ndarray, np.ndarray],
  origins: np.ndarray | None,
  dtype: Any,
) -> NodeInfo:
  """Returns the `NodeInfo` of public states.

  Args:
    game: the rules.
    states, kind: `[N, S]` and `[N]`.
    moves: `[E]` each: the state that a move is made from, the action, and the state after it.
    origins: `[E, P, H]` infostates before the move, -1 where impossible; None if they never change.
    dtype: of the features.
  """
  there = kind != PADDING
  seen = [np.asarray(game.features(states[there], player), dtype) for player in (0, 1)]
  features = np.zeros((2, len(kind), seen[0].shape[1]), dtype)
  pair_index = np.zeros(len(kind), np.int32)
  features[:, there], pair_index[there] = seen, game.pair_index(states[there])
  child = _child(len(kind), game.num_actions, *moves)
  moves_seen = (child[:, : game.num_player_actions] >= 0) & (kind < CHANCE)[:, None]
  by_action = np.where(moves_seen, np.arange(moves_seen.shape[1]), -1)[:, :, None].astype(np.int32)
  leads_to = np.zeros((len(kind), 0, game.num_infostates), np.int32)
  if origins is not None:
    by_action, leads_to = _hidden(kind, *moves[:2], origins)
  return NodeInfo(features, pair_index, child, by_action, leads_to)


def children_of(tree: PublicTree, num_actions: int | None = None) -> np.ndarray:
  """Returns the node after each action, -1 where there is none: `[N, A]`.

  `num_actions` is None for those that the tree has.
  """
  nodes = 1 + np.flatnonzero(np.asarray(tree.kind)[1:] != PADDING)
  parent, action = (np.asarray(x)[nodes] for x in (tree.parent, tree.action))
  number = 1 + action.max(initial=0) if num_actions is None else num_actions
  return _child(len(tree.kind), number, parent, action, nodes)


def _child(number: int, num_actions: int, parent: Any, action: Any, after: Any) -> np.ndarray:
  child = np.full((number, num_actions), -1, np.int32)
  child[parent, action] = after
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


def _hidden(
  kind: np.ndarray, parent: np.ndarray, action: np.ndarray, origins: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `by_action` and `leads_to` of a `NodeInfo` whose infostates change."""
  size, mover = origins.shape[-1], kind[parent]
  own = origins[np.arange(len(parent)), np.minimum(mover, 1)]
  move, held = np.nonzero((own >= 0) & (mover < CHANCE)[:, None])
  place = parent[move] * size + own[move, held]
  order = np.lexsort((held, action[move], place))
  place, counts = place[order], np.bincount(place, minlength=1)
  number = np.arange(len(place)) - (np.cumsum(counts) - counts)[place]
  found = np.full((2, len(kind), max(int(counts.max()), 2), size), -1, np.int32)
  found[:, place // size, number, place % size] = action[move][order], held[order]
  return found[0], found[1]
