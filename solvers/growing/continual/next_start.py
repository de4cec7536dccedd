"""Where a search of continual re-solving starts: what the last one left (section B.1)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.public_tree import Array, PublicTree, TreeStructure
from solvers.growing.gt_cfr import Grown
from solvers.growing.resolving import Promises


class Left(NamedTuple):
  """What a search leaves to the next one.

  Attributes:
    root: `[]` where it started; -1 if there was none.
    known: `[P, N]` at which nodes something is known of a player's values.
    values: `[P, N, H]` mean expected payoffs at its inner nodes.
    reach: `[P, N, H]` players' ranges.
  """

  root: Array
  known: Array
  values: Array
  reach: Array

  @classmethod
  def of(cls, root: Array, grown: Grown) -> "Left":
    """Returns what a search from `root` left."""
    return cls(jnp.asarray(root, jnp.int32), grown.known, grown.values, grown.reach)

  @classmethod
  def nothing(cls, tree: PublicTree) -> "Left":
    """Returns what there is before the first search of a game."""
    rows = np.zeros((2, tree.num_nodes, tree.num_infostates), tree.dtype)
    return cls(np.array(-1, np.int32), np.zeros((2, tree.num_nodes), bool), rows, rows)


class Start(NamedTuple):
  """What a search starts from: its root, `[P, H]` beliefs there, and what is promised there."""

  root: Array
  beliefs: Array
  promises: Promises


def next_start(tree: PublicTree, left: Left, current: jax.Array, searcher: jax.Array) -> Start:
  """Returns what a search for `current` starts from after another above it, or after none.

  It starts at the last state on the way at which that search knows what the opponent may be
  promised: of a state that has just joined its tree it knows nothing. The searcher's range
  and the opponent's values there are what it found; the opponent's own row of the beliefs is
  uniform, since the gadget weighs its infostates. All arguments but `tree` may be traced.

  Args:
    tree: the game's.
    left: by the search before.
    current: the decision that the new search is for, below that search's root.
    searcher: who moves there.
  """
  tree = jax.tree.map(jnp.asarray, tree)
  path = jnp.asarray(ancestors(tree.structure))[current]
  # A node's number is larger than those above it.
  known = jnp.asarray(left.known)[1 - searcher, path]
  root = jnp.maximum(jnp.where(known, path, 0).max(), left.root)
  possible = jnp.ones((2, tree.num_infostates), tree.dtype)
  if tree.possible is not None:
    possible = tree.possible[root].astype(tree.dtype)
  is_first = left.root < 0
  reach, worth = jnp.asarray(left.reach)[:, root], left.values[1 - searcher, root]
  brought = beliefs_and_promises(is_first, tree.prior, possible, reach, worth, searcher)
  return Start(jnp.where(is_first, 0, root), *brought)


def beliefs_and_promises(
  is_first: Array,
  prior: Array,
  possible: Array,
  reach: Array,
  worth: Array,
  searcher: jax.Array,
) -> tuple[jax.Array, Promises]:
  """Returns the beliefs `[P, H]` and the promises from which a search starts at its root.

  Args:
    is_first: whether there was no search before; then there is but the prior.
    prior: `[P, H]` where the game begins.
    possible: `[P, H]` 1 for infostates that the rules allow at the root, else 0.
    reach: `[P, H]` the ranges that the search before left there.
    worth: `[H]` what it found that the opponent expects there.
    searcher: who moves where the new search is for.
  """
  uniform = possible / jnp.maximum(possible.sum(axis=1, keepdims=True), 1.0)
  totals = reach.sum(axis=1, keepdims=True)
  ranges = jnp.where(totals > 0, reach / jnp.where(totals > 0, totals, 1.0), uniform)
  searcher = jnp.asarray(searcher, jnp.int32)
  is_opponent = jnp.arange(2, dtype=jnp.int32)[:, None] == 1 - searcher
  promises = Promises.to_opponent(searcher, worth, ranges[1 - searcher])
  found = jnp.where(is_opponent, uniform, ranges), promises
  first = prior, Promises.none(prior.shape[1], reach.dtype)
  return jax.tree.map(lambda x, y: jnp.where(is_first, x, y), first, found)


def ancestors(structure: TreeStructure) -> np.ndarray:
  """Returns each node's path from the root, itself last, filled up with itself: `[N, D + 1]`."""
  paths = [np.zeros((1, structure.depth + 1), np.int32)]
  for depth, (start, level) in enumerate(zip(structure.offsets[1:], structure.levels[1:]), 1):
    own = paths[-1][level.parents]
    own[:, depth:] = start + np.arange(level.size)[:, None]
    paths.append(own)
  return np.concatenate(paths)
