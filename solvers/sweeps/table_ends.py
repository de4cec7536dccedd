"""Terminal values by tables `[H, H]`: dice, Kuhn, Leduc and other games of few infostates."""

import functools
import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.public_tree import PublicTree

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


class TableEnds(NamedTuple):
  """Payoffs of terminal nodes by tables.

  Attributes:
    tables: for each player, for each level `[H, T, H]`: at `[j, t, h]` the payoff to the player
      holding h when the other holds j. None where `payoff_runs` are used.
  """

  tables: tuple[tuple[jax.Array | None, ...], tuple[jax.Array | None, ...]]

  @classmethod
  def make(cls, tree: PublicTree, dtype: Any, lanes: int = 1) -> "TableEnds":
    """Computes what stays fixed while `tree` is solved."""
    del dtype, lanes
    tables: tuple[list[jax.Array | None], ...] = ([], [])
    payoffs, h = jnp.asarray(tree.payoffs), tree.num_infostates
    for level, start in zip(tree.structure.levels, tree.structure.terminal_offsets):
      rows = slice(start, start + level.num_terminals)
      gathered = level.payoff_runs is None or level.num_terminals * h * h <= _SMALL_LEVEL
      table = payoffs[tree.payoff_index[rows]] if gathered else None  # [T, H, H]
      tables[0].append(None if table is None else jnp.moveaxis(table, 2, 0))
      tables[1].append(None if table is None else -jnp.moveaxis(table, 1, 0))
    return cls((tuple(tables[0]), tuple(tables[1])))

  def values(
    self, tree: PublicTree, pairs: Any, reach: Sequence[jax.Array], player: int
  ) -> tuple[jax.Array | None, ...]:
    """Returns `player`'s values against `reach` `[T, H]` of each level's terminal nodes."""
    del pairs
    levels = tree.structure.levels
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
