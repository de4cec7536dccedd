"""Pairs of a tree's infostates at given root beliefs, and their values at terminal nodes.

These are by tables `[H, H]` for dice, Kuhn, Leduc and other games of few infostates, and without a
table of pairs for hands of two cards.
"""

import dataclasses
import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.game import CHANCE
from games.pairs import Pairs, of_tree
from games.public_tree import Array, PublicTree
from solvers.sweeps.levels import (
  Levels,
  chance_reach,
  join_levels,
  lift,
  split_levels,
  take_rows,
  to_children,
)
from solvers.sweeps.showdowns import Hands, make_showdowns, showdown_values

# Below this many entries a level's payoff tables are multiplied node by node in one fused
# loop; above it, one product for each run of nodes that share a table.
_SMALL_LEVEL = 8192
# With at most so many infostates a product with a payoff table is spelled out, infostate by
# infostate, and XLA makes one loop of it. On a CPU its own products and sums of matrices this small
# are calls into a library and cost ten times as much. With 16, Liar's Dice 2x4f takes more than
# 9 GB to compile.
_FEW_INFOSTATES = 12
# Multiplications in one such loop. XLA hands a longer one to several threads, which takes more time
# to arrange than the loop itself.
_LOOP_SIZE = 8192


Ends = tuple[Any, ...]  # what stays fixed about payoffs of terminal nodes
Values = tuple[jax.Array | None, ...]  # for each level `[T, H]`, None without terminal nodes


def _tables(tree: PublicTree) -> Ends:
  """Returns for each player and level `[H, T, H]` payoffs, None where `payoff_runs` are used."""
  # At [j, t, h] to the player holding h when the other holds j.
  tables: list[jax.Array | None] = []
  payoffs, h = jnp.asarray(tree.payoffs), tree.num_infostates
  for level, start in zip(tree.structure.levels, tree.structure.terminal_offsets):
    rows = slice(start, start + level.num_terminals)
    gathered = level.payoff_runs is None or level.num_terminals * h * h <= _SMALL_LEVEL
    tables.append(payoffs[tree.payoff_index[rows]] if gathered else None)  # [T, H, H]
  first = tuple(None if x is None else jnp.moveaxis(x, 2, 0) for x in tables)
  return first, tuple(None if x is None else -jnp.moveaxis(x, 1, 0) for x in tables)


def _table_values(tree: PublicTree, ends: Ends, reach: Sequence[jax.Array], player: int) -> Values:
  """Returns `player`'s values against `reach` `[T, H]` of each level's terminal nodes."""
  levels = tree.structure.levels
  # payoffs[table][j, h]: to the player holding h when the other holds j
  payoffs = tree.payoffs.swapaxes(1, 2) if player == 0 else -tree.payoffs
  few = tree.num_infostates <= _FEW_INFOSTATES
  values: list[jax.Array | None] = [None] * len(levels)
  large = []
  for i, level in enumerate(levels):
    tables = ends[player][i]
    if not level.num_terminals:
      continue
    if tables is not None:
      values[i] = _product(tables, reach[i])
    elif few:
      values[i] = _products_of_runs(payoffs, reach[i], level.payoff_runs or ())
    else:
      large.append(i)
  for i, product in zip(large, _products_of_tables(tree, payoffs, reach, large) if large else ()):
    values[i] = product
  return tuple(values)


def _product(tables: jax.Array, reach: jax.Array) -> jax.Array:
  """Multiplies reach `[T, H]` by each node's own table `[H, T, H]`, or a common one `[H, 1, H]`."""
  if len(tables) > _FEW_INFOSTATES:
    return (tables * reach.T[:, :, None]).sum(axis=0)
  terms = (table * reach[:, j : j + 1] for j, table in enumerate(tables))
  return functools.reduce(operator.add, terms)


# Accelerators would otherwise round the reach to a few digits first.
_matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)


def _products_of_runs(payoffs, reach: jax.Array, runs) -> jax.Array:
  """Multiplies a level's reach `[T, H]`, a loop for each run of nodes that share a table."""
  longest = max(1, _LOOP_SIZE // reach.shape[-1] ** 2)
  pieces = [
    _product(payoffs[table][:, None], reach[low : min(low + longest, stop)])
    for table, start, stop in runs
    for low in range(start, stop, longest)
  ]
  return jnp.concatenate(pieces)


def _products_of_tables(tree: PublicTree, payoffs, reach, large: list[int]) -> list[jax.Array]:
  """Multiplies the reach of the levels `large`, one matrix product for each table.

  Rows are put in order of their tables first: a product for each run is slower, and compiling
  hundreds of them took a gigabyte.
  """
  levels = tree.structure.levels
  runs = [run for i in large for run in levels[i].payoff_runs or ()]
  tables = np.repeat([table for table, _, _ in runs], [stop - start for _, start, stop in runs])
  order = np.argsort(tables, kind="stable")
  rows = jnp.concatenate([reach[i] for i in large])[order]
  used, starts = np.unique(tables[order], return_index=True)
  bounds = itertools.pairwise([*starts.tolist(), len(tables)])
  products = [_matmul(rows[a:b], payoffs[table]) for table, (a, b) in zip(used.tolist(), bounds)]
  joined = jnp.concatenate(products)
  ends = np.cumsum([levels[i].num_terminals for i in large])[:-1]
  return [joined[places] for places in np.split(np.argsort(order), ends)]


class Shown(NamedTuple):
  """Terminal rows that are showdowns, or may be; static."""

  rows: np.ndarray  # `[K, n]` of each board, -1 to fill up
  boards: np.ndarray | None  # `[K]` whose strengths hold; None where each row has its own


def _payoff_tables(tree: PublicTree) -> np.ndarray:
  """Returns the payoff table of each terminal row, -1 where it is not static: `[T]`."""
  levels = tree.structure.levels
  runs = [run for x in levels for run in x.payoff_runs or ((-1, 0, x.num_terminals),)]
  return np.repeat([table for table, *_ in runs], [stop - start for _, start, stop in runs])


def _shown(tree: PublicTree) -> list[Shown]:
  tables, number = _payoff_tables(tree), len(jnp.asarray(tree.strengths))
  if number == 1:  # it is that of every row that may be a showdown
    tables = np.abs(tables)
  boards, own = np.unique(tables[tables > 0]), np.flatnonzero(tables < 0)
  places = [np.flatnonzero(tables == board) for board in boards]
  grid = np.full((len(places), max(map(len, places), default=0)), -1)
  for filled, rows in zip(grid, places):
    filled[: len(rows)] = rows
  found = [Shown(grid, boards - 1), Shown(own[:, None], None)]
  return [x for x in found if number and x.rows.size]


def _showdowns(tree: PublicTree, dtype: Any, lanes: int) -> Ends:
  """Returns the showdowns of `_shown`; see `make_pairs`."""
  found = []
  for rows, boards in _shown(tree):
    alone = boards is None
    index = jnp.maximum(tree.payoff_index[rows[:, 0]] - 1, 0) if alone else boards
    strengths = jnp.asarray(tree.strengths)[index]
    # A matrix for each row of each of many trees solved together would be too much to hold.
    found.append(make_showdowns(strengths, dtype, hands=hands_of(tree), lanes=lanes, by_row=alone))
  return tuple(found)


def hands_of(tree: PublicTree) -> Hands:
  """Returns the hands of a tree."""
  assert tree.hands is not None
  if not tree.hands_per_card:
    return Hands.all_pairs(tree.num_infostates)
  return Hands(jnp.asarray(tree.hands), tree.num_cards, tree.hands_per_card)


def _hand_values(
  tree: PublicTree, pairs: Any, ends: Ends, reach: Sequence[jax.Array], player: int
) -> Values:
  """Returns `player`'s values against `reach` `[T, H]` of each level's terminal nodes."""
  levels, every = tree.structure.levels, jnp.concatenate(list(reach))
  tables = _payoff_tables(tree)
  sources = [np.flatnonzero(tables <= 0)]
  sign = 1 if player == 0 else -1  # a fold's stake is player 0's, a showdown's is the winner's
  parts = [sign * pairs.mass(None, take_rows(every, sources[0]), player)]
  for showdowns, (rows, _) in zip(ends, _shown(tree)):
    sources.append(rows.reshape(-1))
    shown = showdown_values(showdowns, take_rows(every, sources[-1]).reshape(*rows.shape, -1))
    parts.append(shown.reshape(rows.size, -1))
  joined, source = jnp.concatenate(parts), np.concatenate(sources)
  place = np.empty(len(tables) + 1, int)  # where each row has gone, at last; what fills up is last
  place[source] = np.arange(len(source))
  values = take_rows(joined, place[:-1])
  if (tables < 0).any():
    folds = take_rows(joined, np.searchsorted(sources[0], np.arange(len(tables))))
    values = jnp.where(jnp.asarray(tree.payoff_index)[:, None] > 0, values, folds)
  parts = jnp.split(values, tree.structure.terminal_offsets[1:-1])
  return tuple(x if level.num_terminals else None for x, level in zip(parts, levels))


Masks = tuple[jax.Array | None, ...]  # for each level `[n or 1, H]`, None for all ones


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TreePairs:
  """Pair compatibility and terminal payoffs of one tree at given root beliefs.

  Counterfactual reach at a node is own reach times `nature`.

  Attributes:
    pairs: of the tree.
    nature: for each player, for each level `[n or 1, H]`: root belief times public chance, zero
      for infostates that are not possible. Hands that cards block are left out of own reach
      instead.
    possible: for each player and level, 1 where an infostate is possible; of hands `[n, H]` 0 for
      those that the cards just dealt block (at the root those that are impossible).
    root_mass: `[P, H]` the opponent's mass at the root that is compatible with an infostate.
    leaf_index: `[L]` which weights hold at the leaves.
    scale: for each level `[T, 1]`, of the payoffs of terminal nodes.
    ends: their payoffs.
    blocked: whether own reach leaves out what is not possible; static.
  """

  pairs: Pairs
  nature: tuple[Levels, Levels]
  possible: tuple[Masks, Masks]
  root_mass: jax.Array
  leaf_index: jax.Array
  scale: Levels
  ends: Ends
  blocked: bool = dataclasses.field(metadata={"static": True})

  def mask_reach(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns own reach `[n, H]` of level `index` without infostates that chance ruled out."""
    return self.mask_values(index, player, rows) if self.blocked else rows

  def mask_values(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns values `[n, H]` of level `index`, zero for impossible infostates."""
    possible = self.possible[player][index]
    return rows if possible is None else rows * possible

  def compatible_mass(self, reach: jax.Array, player: int, row: Any = slice(None)) -> jax.Array:
    """Returns the mass of the opponent's `reach` that `player` meets at all leaves or at `row`."""
    return self.pairs.mass(jnp.atleast_1d(self.leaf_index[row]), reach, player)

  def terminal_values(self, tree: PublicTree, opponent_reach: Levels, player: int) -> Values:
    """Returns `player`'s counterfactual values at each level's terminal nodes, `[T, H]`.

    `opponent_reach` is the opponent's own; levels without terminal nodes hold None.
    """
    reach = []
    for i, level in enumerate(tree.structure.levels):
      rows = slice(level.size - level.num_terminals, level.size)
      nature = self.nature[1 - player][i]
      own = opponent_reach[i][rows] * (nature[rows] if len(nature) > 1 else nature)
      reach.append(own * self.scale[i])
    if tree.hands is None:
      return _table_values(tree, self.ends, reach, player)
    return _hand_values(tree, self.pairs, self.ends, reach, player)


def make_pairs(
  tree: PublicTree, beliefs: jax.Array, root: jax.Array | None = None, lanes: int = 1
) -> TreePairs:
  """Computes what stays fixed about pairs while `tree` is solved from `beliefs` `[P, H]`.

  They are those of the node `root`, which may be traced, and nothing else is reached; None for the
  first. `lanes` is the number of trees of this shape that are solved side by side, by `jax.vmap`.
  """
  dtype, structure = beliefs.dtype, tree.structure
  ends = _tables(tree) if tree.hands is None else _showdowns(tree, dtype, lanes)
  possible = _possible(tree, dtype) if tree.hands is None else _live_hands(tree, dtype)
  chance = None if tree.chance_probability is None else chance_reach(tree, dtype)
  if chance is not None and root is not None:
    before = join_levels(chance)[root, 0]
    chance = tuple(x / before for x in chance)
  scale = jnp.asarray(tree.payoff_scale)[:, None]
  starts = zip(structure.levels, structure.terminal_offsets)
  pairs = of_tree(tree, dtype)
  return TreePairs(
    pairs=pairs,
    nature=(
      _nature(tree, beliefs[0], 0, chance, possible[0], root),
      _nature(tree, beliefs[1], 1, chance, possible[1], root),
    ),
    possible=possible,
    root_mass=pairs.root_mass(tree.root_pair_index, beliefs),
    leaf_index=jnp.asarray(tree.leaf_pair_index),
    scale=tuple(scale[start : start + level.num_terminals] for level, start in starts),
    ends=ends,
    blocked=tree.hands is not None,
  )


def _possible(tree: PublicTree, dtype: Any) -> tuple[Masks, Masks]:
  """Returns `TreePairs.possible` of infostates in tables."""
  if tree.possible is None:
    nothing = (None,) * len(tree.structure.levels)
    return nothing, nothing
  by_level = split_levels(tree, tree.possible.astype(dtype))
  return tuple(x[:, 0] for x in by_level), tuple(x[:, 1] for x in by_level)


def _live_hands(tree: PublicTree, dtype: Any) -> tuple[Masks, Masks]:
  """Returns `TreePairs.possible` of hands."""
  hands = jnp.asarray(tree.hands)[None, :, None, :]
  live: list[jax.Array | None] = []
  for level, cards in zip(tree.structure.levels, split_levels(tree, jnp.asarray(tree.dealt))):
    dealt = CHANCE in level.movers
    apart = ~(cards[:, None, :, None] == hands).any(axis=(2, 3)) if dealt else None
    live.append(None if apart is None else apart.astype(dtype))
  if tree.possible is None:
    return tuple(live), tuple(live)
  possible = jnp.asarray(tree.possible)[0].astype(dtype)
  return (possible[0, None], *live[1:]), (possible[1, None], *live[1:])


def _nature(
  tree: PublicTree, belief: jax.Array, player: int, chance: Any, possible: Masks, root: Any
) -> Levels:
  """Returns the root belief times public chance since, zero where impossible, by level."""
  nature, own = list[jax.Array](), belief[None]
  for i, (start, stop) in enumerate(itertools.pairwise(tree.structure.offsets)):
    if i and (root is not None or tree.infostate_parent is not None):
      own = lift(tree, i, player, to_children(tree.structure.levels[i], own))
    if root is not None:
      at_root = jnp.arange(start, stop, dtype=jnp.int32)[:, None] == root
      own = jnp.where(at_root, belief[None], own if i else 0.0)
    rows = own if chance is None else own * chance[i]
    there = possible[i] if tree.hands is None else None
    nature.append(rows if there is None else rows * there)
  return tuple(nature)


def root_mass(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns the opponent's mass compatible with each root infostate: `[P, H]`."""
  beliefs = jnp.asarray(beliefs)
  return of_tree(tree, beliefs.dtype).root_mass(tree.root_pair_index, beliefs)


def root_marginals(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns each player's marginal of the joint prior at the root: `[P, H]`; nothing is checked."""
  joint = jnp.asarray(beliefs) * root_mass(tree, beliefs)
  return joint / joint.sum(axis=1, keepdims=True)
