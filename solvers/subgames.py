"""Every depth-limited subgame that search can meet in a game, as one stacked table."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from games import PADDING, Game, PublicTree, build_public_tree, stack_trees
from games.public_tree import Array

_MAX_SUBGAMES = 4096


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=("trees", "successor", "num_live"),
  meta_fields=(),
)
@dataclasses.dataclass(frozen=True)
class SubgameTable:
  """The subgames of a game that start at its root or at a leaf of another of them.

  Public states that are equal share an entry: in Liar's Dice there is one for each last bid and
  player to act, however the bidding got there.

  Attributes:
    trees: stacked depth-limited trees, leading axis `[R]`; entry 0 starts the game.
    successor: `[R, L]` the entry that starts at each leaf, -1 for padding.
    num_live: `[R]` how many leaves of the common shape each entry has.
  """

  trees: PublicTree  # [R, ...]
  successor: Array  # [R, L]
  num_live: Array  # [R]

  @property
  def num_subgames(self) -> int:
    return self.num_live.shape[0]


class Subgames(NamedTuple):
  """The subgames of a game before they are stacked, by entry.

  Attributes:
    trees: the trees, each in its own shape.
    successors: for each tree `[L]`, the entry that starts at each of its leaves.
    states: for each tree its root's public state `[S]`.
  """

  trees: list[PublicTree]
  successors: list[np.ndarray]
  states: list[np.ndarray]


def find_subgames(
  game: Game, *, depth: int, progress: Callable[[int], None] | None = None
) -> Subgames:
  """Finds all subgames of `game` that reach `depth` public actions down.

  Args:
    game: the rules. Its public states must say all that matters below them: two histories with
      equal states have the same future and the same possible infostates.
    depth: public actions, chance included, from a subgame's root to its leaves.
    progress: called with the number of subgames found so far.

  Returns:
    The subgames; entry 0 starts the game.

  Raises:
    ValueError: `depth` is not a positive integer, or there are more than 4,096 subgames.
  """
  roots: list[tuple[int, ...]] = [()]
  states = [game.initial_state()]
  index = {states[0].tobytes(): 0}
  trees: list[PublicTree] = []
  successors: list[np.ndarray] = []
  while len(trees) < len(roots):
    root = roots[len(trees)]
    tree = build_public_tree(game, root=root, depth=depth)
    successor = np.zeros(tree.num_leaves, np.int32)
    for i, leaf in enumerate(np.asarray(tree.leaf_nodes)):
      state = np.asarray(tree.state)[leaf]
      key = state.tobytes()
      if key not in index:
        index[key] = len(roots)
        roots.append(root + tree.history(int(leaf)))
        states.append(state)
        if len(roots) > _MAX_SUBGAMES:
          raise ValueError(
            f"depth={depth} gives {game!r} more than {_MAX_SUBGAMES} different subgames; a "
            "table may hold at most that many"
          )
      successor[i] = index[key]
    trees.append(tree)
    successors.append(successor)
    if progress is not None:
      progress(len(trees))
  return Subgames(trees, successors, states)


def stack_subgames(subgames: Subgames, entries: Sequence[int] | None = None) -> SubgameTable:
  """Stacks the given entries of `subgames` (all by default) into a table.

  Successors keep the numbering of `subgames`.
  """
  entries = range(len(subgames.trees)) if entries is None else entries
  stacked = stack_trees([subgames.trees[i] for i in entries])
  live = np.asarray(stacked.leaf_actor) != PADDING
  successor = np.full(live.shape, -1, np.int32)
  for row, mask, i in zip(successor, live, entries):
    # Stacking keeps the order of a tree's leaves: both are sorted by action, then parent.
    row[mask] = subgames.successors[i]
  return SubgameTable(stacked, successor, live.sum(axis=1).astype(np.int32))


def build_subgame_table(game: Game, *, depth: int) -> SubgameTable:
  """Returns one table of all subgames of `game`; see `find_subgames`."""
  return stack_subgames(find_subgames(game, depth=depth))


def bucket_subgames(subgames: Subgames, num_buckets: int) -> list[list[int]]:
  """Groups entries of similar size, so that stacking a group wastes little.

  Returns:
    At most `num_buckets` lists of entries; those without leaves are kept apart.
  """
  sizes = np.array([tree.num_nodes for tree in subgames.trees])
  leaves = np.array([tree.num_leaves for tree in subgames.trees])
  buckets = [np.flatnonzero(leaves == 0).tolist()] if (leaves == 0).any() else []
  rest = np.flatnonzero(leaves)
  if rest.size:
    log_sizes = np.log2(sizes[rest])
    span = max(log_sizes.max() - log_sizes.min(), 1e-9)
    count = max(num_buckets - len(buckets), 1)
    which = np.minimum(((log_sizes - log_sizes.min()) / span * count).astype(int), count - 1)
    buckets += [rest[which == i].tolist() for i in range(count) if (which == i).any()]
  return buckets
