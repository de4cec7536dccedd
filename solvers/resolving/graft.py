"""Places of subtrees in a whole tree, policies put there, and frequencies that players keep to."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from games import PublicTree
from games.arrays import integers
from games.origin import check_same_game
from games.public_tree import CHANCE, Array, check_is_tree
from solvers import validation
from solvers.sweeps.problem import Lock


class Places(np.ndarray):
  """Places of a part's nodes among those of a whole tree, `[n]`, with the mark of its game."""

  origin: Any = None


class Placer:
  """Places of the nodes of subgame trees among those of the whole game's tree.

  Nodes are the same if the same actions lead to them, or, `by_state`, the same public states: games
  that differ in what their actions are numbered, as hold'em with one bet more, share those.
  """

  @validation.checked
  def __init__(self, whole: PublicTree, *, by_state: bool = False):
    check_is_tree(whole, "whole", one=True)
    self._whole, self._by_state = whole, by_state
    self._child = {move: node for node, move in enumerate(self._moves(whole))}

  def _moves(self, tree: PublicTree) -> list[tuple[int, Any]]:
    """Returns each node's parent and what tells it from its siblings."""
    names = np.asarray(tree.action).tolist()
    if self._by_state:
      names = [row.tobytes() for row in np.asarray(tree.state)]
    return list(zip(np.asarray(tree.parent).tolist(), names))

  @validation.checked
  def follow(self, history: Sequence[int]) -> int:
    """Returns the node of the whole tree that actions from its root lead to.

    Raises:
      ValueError: one is not there.
    """
    node = 0
    for action in history:
      if (node, action) not in self._child:
        raise ValueError(
          f"history={validation.short(history)} leaves the tree: node {node} lacks {action}"
        )
      node = self._child[node, action]
    return node

  def places(self, part: PublicTree, root: int = 0) -> np.ndarray:
    """Returns the nodes of the whole tree at those of `part`, whose root is node `root`: `[n]`.

    -1 for padding.

    Raises:
      ValueError: a move of `part` is not there in the whole tree, or `part` is of another game.
    """
    check_is_tree(part, "part")
    # Games that share states may differ in their parameters.
    check_same_game("part", part.origin, self._whole, first=int(self._by_state))
    (root,) = validation.check_places("root", [root], self._whole.num_nodes)
    places = np.full(part.num_nodes, -1).view(Places)
    places.origin = self._whole.origin
    places[0] = root
    for node, (parent, name) in enumerate(self._moves(part)):
      if parent < 0:  # the root, or padding
        continue
      place = self._child.get((int(places[parent]), name))
      if place is None:
        raise ValueError(
          f"action {part.action[node]} after node {places[parent]} is not in the whole tree: the "
          "part is of another game, or cut otherwise"
        )
      places[node] = place
    return places


@validation.checked
def graft(
  whole: PublicTree,
  policy: Array,
  parts: Sequence[tuple[np.ndarray, Array]],
  *,
  player: validation.Player | None = None,
) -> np.ndarray:
  """Returns `policy` `[N, H]` with the policies of parts of the tree in place of its own.

  Args:
    whole: the tree of `policy`.
    policy: what stays elsewhere.
    parts: for each the places of its nodes, from `Placer`, and its policy `[n, H]`.
    player: whose moves to replace; None for both players'.

  Raises:
    TypeError: an argument is of another kind.
    ValueError: an array has the wrong shape, or places are of another tree.
  """
  check_is_tree(whole, "whole")
  validation.check_shape("policy", policy, (whole.num_nodes, whole.num_infostates), "(N, H)")
  kind, parent = np.asarray(whole.kind), np.asarray(whole.parent)
  mover = np.where(parent >= 0, kind[np.maximum(parent, 0)], CHANCE)
  replaced = mover < CHANCE if player is None else mover == player
  result = np.array(policy)
  for places, rows in parts:
    check_same_game("parts", getattr(places, "origin", None), whole)
    places = integers("parts", places, -1, whole.num_nodes - 1, ndim=1)
    validation.check_shape("parts", rows, (len(places), whole.num_infostates), "(n, H)")
    own = np.flatnonzero((places >= 0) & replaced[np.maximum(places, 0)])
    own = own[own > 0]  # the root's row is the move to it, which belongs to what is above
    result[places[own]] = np.asarray(rows)[own]
  return result


@validation.checked
def lock(
  tree: PublicTree,
  history: Sequence[int],
  frequencies: Mapping[int, float | tuple[float, float]],
  *,
  infostates: Sequence[int] | None = None,
  also: Lock | None = None,
) -> Lock:
  """Holds the player who moves after `history` to frequencies of its moves.

  A greatest frequency is refused where several other moves would share the rest. What is then
  allowed is not a least policy plus a share of any policy, which is all that a regret rule can
  match: with one such bound it is the sum of two free choices, with more a polytope of corners.

  Args:
    tree: one tree, without hidden moves.
    history: public actions from the tree's root.
    frequencies: how often moves are made, by action: exactly, or at least and at most. Moves that
      are not named share what is left as the player likes.
    infostates: which hands this holds for; None for all.
    also: what players are held to elsewhere.

  Returns:
    What to give `solve`, `best_response` and `exploitability` as `locked`.

  Raises:
    ValueError: no player moves there, a move is not there, frequencies cannot be kept together, or
      a move has a greatest frequency that more than one other move would have to keep.
  """
  validation.check_unstacked(tree)
  node = Placer(tree).follow(history)
  if int(tree.kind[node]) >= CHANCE or tree.infostate_parent is not None:
    raise ValueError(f"history={history} leads to where no player makes a public move")
  children = np.flatnonzero(np.asarray(tree.parent) == node)
  least, free, is_open = _bounds(np.asarray(tree.action)[children].tolist(), frequencies)
  hands = np.arange(tree.num_infostates) if infostates is None else infostates
  hands = validation.check_places("infostates", hands, tree.num_infostates)
  shape = (tree.num_nodes, tree.num_infostates)
  found = Lock(np.zeros(shape), np.ones(shape), np.ones(shape)) if also is None else also
  rows = [np.array(np.ones(shape) if x is None else x) for x in found]
  for whole, row in zip(rows, (least, free, is_open)):
    whole[np.ix_(children, hands)] = row[:, None]
  return Lock(*rows)


def _bounds(actions: list[int], frequencies: Mapping[int, float | tuple[float, float]]):
  """Returns the least frequency of each move, what is free, and which moves that may go to."""
  least, most = np.zeros(len(actions)), np.ones(len(actions))
  for action, wanted in frequencies.items():
    if action not in actions:
      raise ValueError(f"frequencies name action {action}; those that exist there are {actions}")
    place = actions.index(action)
    least[place], most[place] = np.broadcast_to(wanted, 2)
  if not ((least >= 0) & (least <= most) & (most <= 1)).all():
    raise ValueError(f"frequencies={dict(frequencies)} must be from 0 to 1, the least first")
  is_open = most > least
  if is_open.sum() == 2:  # the most of one is the least of the other
    others = 1 - least[~is_open].sum() - np.where(is_open, most[is_open].sum() - most, 0)
    least = np.where(is_open, np.maximum(least, others), least)
  free = 1 - float(least.sum())
  if free < -1e-9 or (free > 1e-9 and not is_open.any()):
    raise ValueError(f"frequencies={dict(frequencies)} cannot be kept together: they must sum to 1")
  free = max(free, 0.0)
  if (is_open & (most < least + free - 1e-9)).any():
    raise ValueError(
      f"frequencies={dict(frequencies)} bound a move from above that several others share the rest "
      "with; say how often each of those is made at least"
    )
  return least, np.full(len(actions), free), is_open.astype(float)
