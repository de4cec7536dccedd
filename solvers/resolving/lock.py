"""Holds a player to frequencies at one decision: what `solve` is given as `locked`."""

from collections.abc import Mapping, Sequence

import numpy as np

from games import PublicTree
from games.kinds import CHANCE
from solvers import validation
from solvers.resolving.graft import Placer
from solvers.sweeps.constraints import Lock


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
  history = validation.check_history(history)
  node = Placer(tree).follow(history)
  if int(tree.kind[node]) >= CHANCE or tree.infostate_parent is not None:
    raise ValueError(f"history={history} leads to where no player makes a public move")
  children = np.flatnonzero(np.asarray(tree.parent) == node)
  least, free, is_open = _bounds(np.asarray(tree.action)[children].tolist(), frequencies)
  hands = np.arange(tree.num_infostates) if infostates is None else infostates
  hands = validation.check_places("infostates", hands, tree.num_infostates)
  shape = (tree.num_nodes, tree.num_infostates)
  if not isinstance(also, Lock | None):
    raise TypeError(f"also={type(also).__name__} must be what solvers.lock returned before")
  found = Lock(np.zeros(shape), np.ones(shape), np.ones(shape)) if also is None else also
  rows = [np.array(np.ones(shape) if x is None else x) for x in found]
  for whole, row in zip(rows, (least, free, is_open)):
    whole[np.ix_(children, hands)] = row[:, None]
  return Lock(*rows)


def _bounds(actions: list[int], frequencies: Mapping[int, float | tuple[float, float]]):
  """Returns the least frequency of each move, what is free, and which moves that may go to."""
  if not isinstance(frequencies, Mapping):
    raise TypeError(
      f"frequencies={validation.short(frequencies)} must be a mapping from actions to frequencies"
    )
  least, most = np.zeros(len(actions)), np.ones(len(actions))
  for action, wanted in frequencies.items():
    if action not in actions:
      raise ValueError(f"frequencies name action {action}; those that exist there are {actions}")
    place = actions.index(action)
    try:
      least[place], most[place] = np.broadcast_to(np.asarray(wanted, float), 2)
    except (TypeError, ValueError, OverflowError):
      raise ValueError(
        f"frequencies={dict(frequencies)} must hold numbers, or two, the least and the most"
      ) from None
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
