"""Counterfactual values of terminal nodes."""

import jax
import jax.numpy as jnp

from games.public_tree import PublicTree
from solvers.levels import Levels
from solvers.setting import Setting


def terminal_values(
  tree: PublicTree, setting: Setting, opponent_reach: Levels, player: int
) -> tuple[jax.Array | None, ...]:
  """Returns `player`'s counterfactual values at the terminal nodes of each level, `[T, H]`.

  `opponent_reach` is the opponent's own; levels without terminal nodes hold None.
  """
  levels = tree.structure.levels
  reach: list[jax.Array] = []
  for i, level in enumerate(levels):
    rows = slice(level.size - level.num_terminals, level.size)
    nature = setting.nature[1 - player][i]
    own = opponent_reach[i][rows] * (nature[rows] if len(nature) > 1 else nature)
    reach.append(own * setting.terminal_scale[i])
  values: list[jax.Array | None] = [None] * len(levels)
  by_table: dict[int, list[tuple[int, int, int]]] = {}
  for i, level in enumerate(levels):
    tables = setting.terminal_tables[i]
    if not level.num_terminals:
      continue
    if tables is not None:
      values[i] = _small_product(tables, reach[i], player)
      continue
    assert level.payoff_runs is not None
    for table, start, stop in level.payoff_runs:
      by_table.setdefault(table, []).append((i, start, stop))
  # One product a table for the whole tree: a product for each run is slower, and compiling
  # hundreds of them took a gigabyte.
  pieces: dict[tuple[int, int], jax.Array] = {}
  for table, runs in by_table.items():
    matrix = tree.payoffs[table].T if player == 0 else -tree.payoffs[table]
    stacked = [reach[i][start:stop] for i, start, stop in runs]
    product = (stacked[0] if len(runs) == 1 else jnp.concatenate(stacked)) @ matrix
    end = 0
    for i, start, stop in runs:
      pieces[i, start] = product[end : end + stop - start]
      end += stop - start
  for i in sorted({i for i, _ in pieces}):
    parts = [pieces[i, start] for _, start, _ in levels[i].payoff_runs or ()]
    values[i] = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
  return tuple(values)


def _small_product(tables: jax.Array, reach: jax.Array, player: int) -> jax.Array:
  """Multiplies each node's reach `[T, H]` by its own table `[T, H, H]`."""
  # Spelled as multiply and sum so that XLA fuses it: batched products of matrices this small
  # are slower than the loop.
  if player == 0:
    return (tables * reach[:, None, :]).sum(axis=2)
  return -(tables * reach[:, :, None]).sum(axis=1)
