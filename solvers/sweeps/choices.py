"""Sums over the moves of each choice, on the host: what checks of policies are made of."""

import numpy as np

from games.game import CHANCE
from games.public_tree import PADDING, PublicTree


def choices(tree: PublicTree):
  """Returns players' moves: nodes moved to `[E]`, nodes moved from `[E]`, infostates `[E, H]` there
  and whether the move is real, `[E, H]`."""
  parent, kind = np.asarray(tree.parent), np.asarray(tree.kind)
  mover = np.where(parent >= 0, kind[np.maximum(parent, 0)], PADDING)
  edges = np.flatnonzero(mover < CHANCE)
  shape = (len(edges), tree.num_infostates)
  real = np.ones(shape, bool)
  infostates = np.broadcast_to(np.arange(shape[1]), shape)
  if tree.infostate_parent is not None:
    infostates = np.asarray(tree.infostate_parent)[edges, mover[edges]]
    if tree.possible is not None:
      real = np.asarray(tree.possible)[edges, mover[edges]]
  return edges, parent[edges], infostates, real


def sum_choices(tree: PublicTree, rows: np.ndarray) -> np.ndarray:
  """Sums rows over the moves of each choice.

  Args:
    tree: one tree; its arrays are concrete.
    rows: `[N, H]` floats, a row for each node moved to.

  Returns:
    `[N, H]` sums at the nodes moved from, in their own infostates; of no meaning where no player
    moves. Moves that the rules make impossible are left out where infostates change.
  """
  if tree.infostate_parent is not None:
    edges, nodes, infostates, real = choices(tree)
    places = nodes[:, None] * rows.shape[1] + infostates
    sums = np.bincount(places.ravel(), (rows[edges] * real).ravel(), minlength=rows.size)
    return sums.astype(rows.dtype).reshape(rows.shape)
  if tree.padded:  # nodes that are not there are nobody's children
    rows = rows * (np.asarray(tree.parent) >= 0)[:, None]
  sums = np.zeros_like(rows)
  offsets = tree.structure.offsets
  for above, start, level in zip(offsets, offsets[1:], tree.structure.levels[1:]):
    for first, last in level.runs:
      sums[above + first : above + last] += rows[start : start + last - first]
      start += last - first
  return sums
