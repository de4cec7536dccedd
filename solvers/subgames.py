"""Every depth-limited subgame that search can meet in a game, as one stacked table."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from games import CHANCE, PADDING, Game, PublicTree, build_public_tree, stack_trees
from games.public_tree import Array

_MAX_SUBGAMES = 4096


class InnerStates(NamedTuple):
  """What examples of the `I` inner nodes of each subgame, its root left out, need to know.

  Attributes:
    features: `[R, I, P, F]` the public state from each player's seat; zero for padding.
    pair_index: `[R, I]` which of the pair weights holds there.
  """

  features: Array  # [R, I, P, F]
  pair_index: Array  # [R, I]


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=("trees", "successor", "num_live", "node_features", "inner"),
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
    node_features: `[R, N, F]` the public state of every decision as the player who moves sees it,
      zero at other nodes; None unless `add_node_features` made them.
    inner: the public states between root and leaves; None unless `inner_nodes.add_inner_states`
      made it.
  """

  trees: PublicTree  # [R, ...]
  successor: Array  # [R, L]
  num_live: Array  # [R]
  node_features: Array | None = None  # [R, N, F]
  inner: InnerStates | None = None

  @property
  def num_subgames(self) -> int:
    return self.num_live.shape[0]

  @property
  def decides(self) -> bool:
    """Whether a player moves anywhere (concrete tables only); else there is nothing to search."""
    return bool((np.asarray(self.trees.kind) < CHANCE).any())


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=("tables", "table_of", "row_of", "starts"),
  meta_fields=(),
)
@dataclasses.dataclass(frozen=True)
class SubgameTables:
  """The subgames of a game in one or more tables, those of one table of similar shape.

  Attributes:
    tables: the tables; the first row of the first starts the game.
    table_of, row_of: `[R]` in which table each entry is, and where.
    starts: `[V]` the entries that start a game, one for each variant; all in the first table.
  """

  tables: tuple[SubgameTable, ...]
  table_of: Array  # [R]
  row_of: Array  # [R]
  starts: Array  # [V]

  @property
  def num_subgames(self) -> int:
    return self.table_of.shape[0]

  @property
  def num_variants(self) -> int:
    return self.starts.shape[0]

  @property
  def depth_limited(self) -> bool:
    """Whether any subgame may have leaves."""
    return any(table.trees.depth_limited for table in self.tables)


class Subgames(NamedTuple):
  """The subgames of a game before they are stacked, by entry.

  Attributes:
    trees: the trees, each in its own shape.
    successors: for each tree `[L]`, the entry that starts at each of its leaves.
    states: for each tree its root's public state `[S]`.
    starts: the entries that start a game, more than one if these are of several variants.
  """

  trees: list[PublicTree]
  successors: list[np.ndarray]
  states: list[np.ndarray]
  starts: tuple[int, ...] = (0,)


def find_subgames(
  game: Game, *, depth: int | str, progress: Callable[[int], None] | None = None
) -> Subgames:
  """Finds all subgames of `game` that reach `depth` public actions down.

  Args:
    game: the rules. Its public states must say all that matters below them: two histories with
      equal states have the same future and the same possible infostates.
    depth: public actions, chance included, from a subgame's root to its leaves; `"stage"` to cut
      where a stage of the game ends (`Game.stages`).
    progress: called with the number of subgames found so far.

  Returns:
    The subgames; entry 0 starts the game.

  Raises:
    ValueError: `depth` is not a positive integer or `"stage"`, or there are more than 4,096
      subgames.
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


def build_subgame_table(game: Game, *, depth: int | str) -> SubgameTable:
  """Returns one table of all subgames of `game`; see `find_subgames`."""
  return stack_subgames(find_subgames(game, depth=depth))


def stack_groups(subgames: Subgames, groups: Sequence[Sequence[int]]) -> SubgameTables:
  """Stacks each of `groups`, lists of entries that together are all, into a table of its own.

  Raises:
    ValueError: entry 0 is not the first of the first group, or another start is not in it.
  """
  if groups[0][0] != 0:
    raise ValueError(f"groups start with entry {groups[0][0]}; entry 0, the start, must be first")
  apart = set(subgames.starts) - set(groups[0])
  if apart:
    raise ValueError(f"entries {sorted(apart)} start a game; they must be in the first of groups")
  table_of = np.zeros(len(subgames.trees), np.int32)
  row_of = np.zeros(len(subgames.trees), np.int32)
  for number, entries in enumerate(groups):
    table_of[entries] = number
    row_of[entries] = np.arange(len(entries))
  tables = tuple(stack_subgames(subgames, x) for x in groups)
  return SubgameTables(tables, table_of, row_of, np.array(subgames.starts, np.int32))


def group_stages(game: Game, subgames: Subgames) -> list[list[int]]:
  """Groups entries by the stage of the game that they start, earlier stages first."""
  stages = game.stages(np.stack(subgames.states))
  return [np.flatnonzero(stages == stage).tolist() for stage in np.unique(stages)]


def add_node_features(game: Game, table: SubgameTable) -> SubgameTable:
  """Returns `table` with `node_features`, for a network that answers at every decision."""
  kind, state = np.asarray(table.trees.kind), np.asarray(table.trees.state)
  width = np.asarray(table.trees.root_features).shape[-1]
  features = np.zeros((*kind.shape, width), table.trees.dtype)
  for player in (0, 1):
    moves = kind == player
    if moves.any():
      features[moves] = game.features(state[moves], player)
  return dataclasses.replace(table, node_features=features)


def bucket_subgames(subgames: Subgames, num_buckets: int) -> list[list[int]]:
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
