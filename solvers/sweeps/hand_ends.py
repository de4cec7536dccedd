"""Terminal values of hands of two cards, without a table of pairs."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.card_removal import compatible_mass
from games.public_tree import Level, PublicTree
from solvers.sweeps.showdowns import Hands, Showdowns, make_showdowns, showdown_values

Mass = Callable[[jax.Array], jax.Array]  # what of reach [n, H] shares no card with each hand


class HandEnds(NamedTuple):
  """Folds and showdowns of hands that block each other.

  Attributes:
    showdowns: for each level, of its boards; None without.
  """

  showdowns: tuple[Showdowns | None, ...]

  @classmethod
  def make(cls, tree: PublicTree, dtype: Any, lanes: int = 1) -> "HandEnds":
    """Computes what stays fixed while `tree` is solved; see `make_pairs`."""
    strengths, settings = jnp.asarray(tree.strengths), {"hands": hands_of(tree), "lanes": lanes}
    showdowns: list[Showdowns | None] = []
    made: dict[tuple[int, ...], Showdowns] = {}
    for level, start in zip(tree.structure.levels, tree.structure.terminal_offsets):
      rows = terminal_rows(level)
      if rows is None:
        index = tree.payoff_index[start : start + level.num_terminals]
        showdowns.append(_showdowns_by_row(strengths, index, dtype, settings))
      elif not len(rows.boards):
        showdowns.append(None)
      else:
        key = tuple(rows.boards.tolist())
        if key not in made:
          made[key] = make_showdowns(strengths[rows.boards], dtype, **settings)
        showdowns.append(made[key])
    return cls(tuple(showdowns))

  def values(
    self, tree: PublicTree, pairs: Any, reach: Sequence[jax.Array], player: int
  ) -> tuple[jax.Array | None, ...]:
    """Returns `player`'s values against `reach` `[T, H]` of each level's terminal nodes."""
    values: list[jax.Array | None] = []
    boards, mass = len(pairs.strengths), functools.partial(compatible_mass, held=pairs.held)
    for i, level in enumerate(tree.structure.levels):
      start = tree.structure.terminal_offsets[i]
      index = tree.payoff_index[start : start + level.num_terminals]
      ends = level, self.showdowns[i], reach[i], index, player, boards, mass
      values.append(_level_values(*ends) if level.num_terminals else None)
    return tuple(values)


class Rows(NamedTuple):
  """A level's terminal rows by kind, counted from the first of them; static.

  Attributes:
    folds: `[F]` rows.
    showdowns: `[K, n]` rows of each board, -1 to fill up.
    boards: `[K]` whose strengths hold.
  """

  folds: np.ndarray
  showdowns: np.ndarray
  boards: np.ndarray


def terminal_rows(level: Level) -> Rows | None:
  """Returns which rows are folds and which showdowns, or None if that is not static."""
  if level.payoff_runs is None:
    return None
  tables = np.repeat([r[0] for r in level.payoff_runs], [r[2] - r[1] for r in level.payoff_runs])
  boards = np.unique(tables[tables > 0])
  rows = [np.flatnonzero(tables == board) for board in boards]
  grid = np.full((len(rows), max(map(len, rows), default=0)), -1)
  for filled, places in zip(grid, rows):
    filled[: len(places)] = places
  return Rows(np.flatnonzero(tables == 0), grid, boards.astype(int) - 1)


def _showdowns_by_row(strengths, index, dtype, settings: Any) -> Showdowns | None:
  """Makes the showdowns of rows whose kind is not static: one for all, or one for each row."""
  if not len(index) or not len(strengths):
    return None
  if len(strengths) == 1:
    return make_showdowns(strengths, dtype, **settings)
  # A matrix for each row of each of many trees solved together would be too much to hold.
  boards = strengths[jnp.maximum(index - 1, 0)]
  return make_showdowns(boards, dtype, by_row=True, **settings)


def hands_of(tree: PublicTree) -> Hands:
  """Returns the hands of a tree."""
  assert tree.hands is not None
  if not tree.hands_per_card:
    return Hands.all_pairs(tree.num_infostates)
  return Hands(jnp.asarray(tree.hands), tree.num_cards, tree.hands_per_card, False)


def _level_values(
  level: Level, showdowns, reach: jax.Array, index, player: int, num_boards: int, mass: Mass
) -> jax.Array:
  rows = terminal_rows(level)
  sign = 1 if player == 0 else -1  # a fold's stake is player 0's, a showdown's is the winner's
  if rows is None:
    fold = sign * mass(reach)
    if showdowns is None:
      return fold
    if num_boards == 1:
      apart = showdown_values(showdowns, reach[None])[0]
    else:
      apart = showdown_values(showdowns, reach[:, None])[:, 0]
    return jnp.where(jnp.asarray(index)[:, None] > 0, apart, fold)
  folds, grid, _ = rows
  parts = []
  if len(folds):
    parts.append(sign * mass(_take(reach, folds)))
  if grid.size:
    flat = _take(reach, grid.reshape(-1)).reshape(*grid.shape, -1)
    flat = showdown_values(showdowns, flat).reshape(grid.size, -1)
    parts.append(flat)
  joined = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
  # Where each row has gone.
  source = np.concatenate([folds, grid.reshape(-1)])
  places = np.flatnonzero(source >= 0)
  order = np.empty(level.num_terminals, int)
  order[source[places]] = places
  return _take(joined, order)


def _take(rows: jax.Array, places: np.ndarray) -> jax.Array:
  """Takes rows by static places; -1 takes a row of zeros."""
  if len(places) and (np.diff(places) == 1).all() and places[0] >= 0:
    return rows[places[0] : places[0] + len(places)]
  taken = rows.at[np.maximum(places, 0)].get(mode="promise_in_bounds")
  return taken if (places >= 0).all() else jnp.where((places >= 0)[:, None], taken, 0)
