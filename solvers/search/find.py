"""Enumeration of a game's depth-limited subgames, and their grouping by size."""

from typing import NamedTuple

import numpy as np

from games import CHANCE, TERMINAL, Game, PublicTree, build_public_tree
from games.arguments import checked
from games.walk import walk

_MAX_SUBGAMES = 4096


class FoundSubgames(NamedTuple):
  """The subgames of a game before they are stacked, by entry.

  Attributes:
    trees: the trees, each in its own shape.
    successors: for each tree `[L]`, the entry that starts at each of its leaves.
    states: for each tree its root's public state `[S]`.
  """

  trees: list[PublicTree]
  successors: list[np.ndarray]
  states: list[np.ndarray]


@checked
def find_subgames(game: Game, *, depth: int | str) -> FoundSubgames:
  """Enumerates the subgames of `game` that reach `depth` public actions down.

  Args:
    game: the rules. Its public states must say all that matters below them: two histories with
      equal states have the same future and the same possible infostates.
    depth: public actions, chance included, from a subgame's root to its leaves; `"stage"` to cut
      where a stage of the game ends (`Game.stages`).

  Returns:
    The subgames; entry 0 starts the game.

  Raises:
    ValueError: `depth` is not a positive integer or `"stage"`, or there are more than 4,096
      subgames.
  """
  if depth == "stage" and not stages_fit(game):
    raise _too_many(game, depth)
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
          raise _too_many(game, depth)
      successor[i] = index[key]
    trees.append(tree)
    successors.append(successor)
  return FoundSubgames(trees, successors, states)


@checked
def stages_fit(game: Game) -> bool:
  """Says whether a table may hold the subgames of a game's stages; counts them without trees."""
  roots, before = 1, game.stages(game.initial_state()[None])  # before: where each state came from
  for first, states, kind, parent, _, child, _ in walk(game, game.initial_state(), merge="game"):
    stage = game.stages(states)
    roots += int(((kind != TERMINAL) & (stage != before)).sum())
    if roots > _MAX_SUBGAMES:
      return False
    numbers, rows = np.unique(child, return_index=True)
    before = stage[parent[rows[numbers >= first + len(states)]]]
  return True


def _too_many(game: Game, depth: int | str) -> ValueError:
  return ValueError(
    f"depth={depth} gives {game!r} more than {_MAX_SUBGAMES} different subgames; a table may hold "
    "at most that many"
  )


def bucket_subgames(subgames: FoundSubgames, num_buckets: int) -> list[list[int]]:
  """Groups entries of similar size, so that stacking a group wastes little.

  Returns:
    Lists of entries: those where nobody decides, those without leaves, and the rest by size, at
    most `num_buckets` lists if that leaves the rest one.
  """
  sizes = np.array([tree.num_nodes for tree in subgames.trees])
  leaves = np.array([tree.num_leaves for tree in subgames.trees])
  decides = np.array([(np.asarray(tree.kind) < CHANCE).any() for tree in subgames.trees])
  apart = (np.flatnonzero(~decides), np.flatnonzero(decides & (leaves == 0)))
  buckets = [entries.tolist() for entries in apart if len(entries)]
  rest = np.flatnonzero(decides & (leaves > 0))
  if rest.size:
    log_sizes = np.log2(sizes[rest])
    span = max(log_sizes.max() - log_sizes.min(), 1e-9)
    count = max(num_buckets - len(buckets), 1)
    which = np.minimum(((log_sizes - log_sizes.min()) / span * count).astype(int), count - 1)
    buckets += [rest[which == i].tolist() for i in range(count) if (which == i).any()]
  return buckets
