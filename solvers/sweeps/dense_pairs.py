"""Pairs of infostates by tables `[H, H]`: dice, Kuhn, Leduc and other games of few infostates."""

import functools
import itertools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.public_tree import PublicTree
from solvers.sweeps.levels import Levels, lift, split_levels, to_children

# Below this many entries a level's payoff tables are multiplied node by node in one fused
# loop; above it, one product for each run of nodes that share a table.
_SMALL_LEVEL = 8192
# With at most so many infostates a product with a payoff table is spelled out, infostate by
# infostate, and XLA makes one loop of it. On a CPU its own products and sums of matrices this small
# are calls into a library and cost ten times as much. With 16, Liar's Dice 2x4f takes more than
# 9 GB to compile.
_FEW_INFOSTATES = 12
# With more runs of nodes that share a table than this, rows are put in order of their tables first.
_MANY_RUNS = 256
# Multiplications in one such loop. XLA hands a longer one to several threads, which takes more time
# to arrange than the loop itself.
_LOOP_SIZE = 8192


class DensePairs(NamedTuple):
  """Tables of pair weights and payoffs; see `Pairs`.

  Attributes:
    nature: for each player, for each level `[n or 1, H]`: the root belief that led to the
      infostate times the probabilities of public chance and whether the infostate is possible.
    possible: for each player and level, 1 where the infostate is possible, or None.
    tables: for each player, for each level `[H, T, H]`: at `[j, t, h]` the payoff to the player
      holding h when the other holds j. None where `payoff_runs` are used.
    scale: for each level `[T, 1]`.
    leaf_weights: `[L or 1, H, H]` pair weights at the leaves, or None if all are one.
    root_mass: `[P, H]`.
  """

  nature: tuple[Levels, Levels]
  possible: tuple[Levels, Levels] | None
  tables: tuple[tuple[jax.Array | None, ...], tuple[jax.Array | None, ...]]
  scale: Levels
  leaf_weights: jax.Array | None
  root_mass: jax.Array

  @classmethod
  def make(cls, tree: PublicTree, beliefs: jax.Array) -> "DensePairs":
    """Computes what stays fixed while `tree` is solved from `beliefs` `[P, H]`."""
    possible = None
    if tree.possible is not None:
      by_level = split_levels(tree, tree.possible.astype(beliefs.dtype))
      possible = (tuple(x[:, 0] for x in by_level), tuple(x[:, 1] for x in by_level))
    tables: tuple[list[jax.Array | None], ...] = ([], [])
    scale: list[jax.Array] = []
    payoffs, payoff_scale = jnp.asarray(tree.payoffs), jnp.asarray(tree.payoff_scale)
    h = tree.num_infostates
    for level, start in zip(tree.structure.levels, tree.structure.terminal_offsets):
      rows = slice(start, start + level.num_terminals)
      gathered = level.payoff_runs is None or level.num_terminals * h * h <= _SMALL_LEVEL
      table = payoffs[tree.payoff_index[rows]] if gathered else None  # [T, H, H]
      tables[0].append(None if table is None else jnp.moveaxis(table, 2, 0))
      tables[1].append(None if table is None else -jnp.moveaxis(table, 1, 0))
      scale.append(payoff_scale[rows, None])
    leaf_weights = None
    if not tree.compatible:
      leaf_weights = jnp.asarray(tree.pair_weights)
      if len(leaf_weights) > 1:
        leaf_weights = leaf_weights[tree.leaf_pair_index]
    return cls(
      nature=(_nature(tree, beliefs, 0, possible), _nature(tree, beliefs, 1, possible)),
      possible=possible,
      tables=(tuple(tables[0]), tuple(tables[1])),
      scale=tuple(scale),
      leaf_weights=leaf_weights,
      root_mass=cls.mass_at_root(tree, beliefs),
    )

  @staticmethod
  def mass_at_root(tree: PublicTree, beliefs: jax.Array) -> jax.Array:
    weights = jnp.asarray(tree.pair_weights[tree.root_pair_index])
    exactly = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)
    return jnp.stack(
      [exactly("ij,j->i", weights, beliefs[1]), exactly("ij,i->j", weights, beliefs[0])]
    )

  def mask_reach(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    del index, player
    return rows

  def mask_values(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    return rows if self.possible is None else rows * self.possible[player][index]

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    return None if self.possible is None else self.possible[player][index]

  def compatible_mass(self, reach: jax.Array, player: int) -> jax.Array:
    if self.leaf_weights is None:
      return jnp.broadcast_to(reach.sum(axis=-1, keepdims=True), reach.shape)
    weights = self.leaf_weights if player == 0 else self.leaf_weights.swapaxes(-1, -2)
    if len(weights) == 1:
      return jnp.matmul(reach, weights[0].T, precision=lax.Precision.HIGHEST)
    return jnp.einsum("lij,lj->li", weights, reach, precision=lax.Precision.HIGHEST)

  def at_leaf(self, row: jax.Array) -> "DensePairs":
    if self.leaf_weights is None or len(self.leaf_weights) == 1:
      return self
    return self._replace(leaf_weights=self.leaf_weights[row][None])

  def terminal_values(
    self, tree: PublicTree, opponent_reach: Levels, player: int
  ) -> tuple[jax.Array | None, ...]:
    """Returns `player`'s counterfactual values at each level's terminal nodes, `[T, H]`.

    `opponent_reach` is the opponent's own; levels without terminal nodes hold None.
    """
    levels = tree.structure.levels
    reach: list[jax.Array] = []
    for i, level in enumerate(levels):
      rows = slice(level.size - level.num_terminals, level.size)
      nature = self.nature[1 - player][i]
      own = opponent_reach[i][rows] * (nature[rows] if len(nature) > 1 else nature)
      reach.append(own * self.scale[i])
    # payoffs[table][j, h]: to the player holding h when the other holds j
    payoffs = tree.payoffs.swapaxes(1, 2) if player == 0 else -tree.payoffs
    few = tree.num_infostates <= _FEW_INFOSTATES
    values: list[jax.Array | None] = [None] * len(levels)
    large = []
    for i, level in enumerate(levels):
      tables = self.tables[player][i]
      if not level.num_terminals:
        continue
      if tables is not None:
        values[i] = _product(tables, reach[i])
      elif few:
        values[i] = _products_of_runs(payoffs, reach[i], level.payoff_runs or ())
      else:
        large.append(i)
    if large:
      for i, product in zip(large, _products_of_tables(tree, payoffs, reach, large)):
        values[i] = product
    return tuple(values)


def _nature(tree: PublicTree, beliefs: jax.Array, player: int, possible) -> Levels:
  levels = tree.structure.levels
  unchanging = possible is None and tree.infostate_parent is None
  if unchanging and tree.chance_probability is None:
    return (beliefs[None, player],) * len(levels)
  reach = [beliefs[None, player]]
  probabilities = None
  if tree.chance_probability is not None:
    probabilities = split_levels(tree, tree.chance_probability)
  for i, level in enumerate(levels[1:], start=1):
    below = lift(tree, i, player, to_children(level, reach[-1]))
    if probabilities is not None:
      below = below * probabilities[i][:, None]
    if possible is not None:
      below = below * possible[player][i]
    reach.append(below)
  return tuple(reach)


def _product(tables: jax.Array, reach: jax.Array) -> jax.Array:
  """Multiplies reach `[T, H]` by each node's own table `[H, T, H]`, or a common one `[H, 1, H]`."""
  if len(tables) > _FEW_INFOSTATES:
    return (tables * reach.T[:, :, None]).sum(axis=0)
  terms = (table * reach[:, j : j + 1] for j, table in enumerate(tables))
  return functools.reduce(operator.add, terms)


def _matmul(reach: jax.Array, table: jax.Array) -> jax.Array:
  # Accelerators would otherwise round the reach to a few digits first.
  return jnp.matmul(reach, table, precision=lax.Precision.HIGHEST)


def _products_of_runs(payoffs, reach: jax.Array, runs) -> jax.Array:
  """Multiplies a level's reach `[T, H]`, a loop for each run of nodes that share a table."""
  longest = max(1, _LOOP_SIZE // reach.shape[-1] ** 2)
  pieces = []
  for table, start, stop in runs:
    for low in range(start, stop, longest):
      pieces.append(_product(payoffs[table][:, None], reach[low : min(low + longest, stop)]))
  return pieces[0] if len(pieces) == 1 else jnp.concatenate(pieces)


def _products_of_tables(tree: PublicTree, payoffs, reach, large: list[int]) -> list[jax.Array]:
  """Multiplies the reach of the levels `large`, one matrix product for each table.

  A product for each run is slower, and compiling hundreds of them took a gigabyte.
  """
  levels = tree.structure.levels
  if sum(len(levels[i].payoff_runs or ()) for i in large) > _MANY_RUNS:
    return _products_in_order(levels, payoffs, reach, large)
  by_table: dict[int, list[tuple[int, int, int]]] = {}
  for i in large:
    for table, start, stop in levels[i].payoff_runs or ():
      by_table.setdefault(table, []).append((i, start, stop))
  pieces: dict[tuple[int, int], jax.Array] = {}
  for table, runs in by_table.items():
    stacked = [reach[i][start:stop] for i, start, stop in runs]
    product = _matmul(stacked[0] if len(runs) == 1 else jnp.concatenate(stacked), payoffs[table])
    end = 0
    for i, start, stop in runs:
      pieces[i, start] = product[end : end + stop - start]
      end += stop - start
  values = []
  for i in large:
    parts = [pieces[i, start] for _, start, _ in levels[i].payoff_runs or ()]
    values.append(parts[0] if len(parts) == 1 else jnp.concatenate(parts))
  return values


def _products_in_order(levels, payoffs, reach, large: list[int]) -> list[jax.Array]:
  """As `_products_of_tables`, where runs are too many to cut out and join one by one."""
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
