"""Pairs of infostates that are hands of two cards, without a table of pairs."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE
from games.public_tree import Level, PublicTree
from solvers.sweeps.levels import Levels, chance_reach
from solvers.sweeps.showdowns import (
  Hands,
  Showdowns,
  compatible_mass,
  make_showdowns,
  showdown_values,
)

Mass = Callable[[jax.Array], jax.Array]  # what of reach [n, H] shares no card with each hand
# How many units in the last place a sum over hands may be off that ought to be zero.
_CANCELLED = 16.0


class HoleCardPairs(NamedTuple):
  """Hands that block each other, folds and showdowns; see `Pairs`.

  Attributes:
    nature: for each player, for each level `[n, H]`: the root belief times the probabilities of
      public chance. Hands that cards block are left out of own reach instead.
    beliefs: `[P, H]` at the root.
    stakes: for each level `[T, 1]`, what a terminal node is worth to player 0 if it wins, times
      the probability of the cards that chance dealt.
    live: for each player and level `[n, H]`, 0 for hands that the cards just dealt block (at the
      root those that are impossible), else 1; None where nothing is dealt.
    showdowns: for each level, of its boards; None without.
    root_mass: `[P, H]`.
    held: `[H, C]` 1 where the hand holds the card; None for all pairs of some cards.
  """

  nature: tuple[Levels, Levels]
  beliefs: jax.Array
  stakes: Levels
  live: tuple[tuple[jax.Array | None, ...], tuple[jax.Array | None, ...]]
  showdowns: tuple[Showdowns | None, ...]
  root_mass: jax.Array
  held: jax.Array | None

  @classmethod
  def make(cls, tree: PublicTree, beliefs: jax.Array, lanes: int = 1) -> "HoleCardPairs":
    """Computes what stays fixed while `tree` is solved from `beliefs` `[P, H]`."""
    assert tree.strengths is not None
    chance = chance_reach(tree, beliefs.dtype)
    strengths, scale = jnp.asarray(tree.strengths), jnp.asarray(tree.payoff_scale)
    stakes: list[jax.Array] = []
    showdowns: list[Showdowns | None] = []
    made: dict[tuple[int, ...], Showdowns] = {}
    settings: Any = {"hands": hands_of(tree), "lanes": lanes}
    levels = zip(tree.structure.levels, tree.structure.terminal_offsets, chance)
    for level, start, reached in levels:
      own = slice(start, start + level.num_terminals)
      stakes.append(scale[own, None] * reached[level.size - level.num_terminals :])
      rows = terminal_rows(level)
      if rows is None:
        index = tree.payoff_index[own]
        showdowns.append(_showdowns_by_row(strengths, index, beliefs.dtype, settings))
      elif not len(rows.boards):
        showdowns.append(None)
      else:
        key = tuple(rows.boards.tolist())
        if key not in made:
          made[key] = make_showdowns(strengths[rows.boards], beliefs.dtype, **settings)
        showdowns.append(made[key])
    return cls(
      nature=(
        tuple(beliefs[None, 0] * x for x in chance),
        tuple(beliefs[None, 1] * x for x in chance),
      ),
      beliefs=beliefs,
      stakes=tuple(stakes),
      live=live_hands(tree, beliefs.dtype),
      showdowns=tuple(showdowns),
      root_mass=cls.mass_at_root(tree, beliefs),
      held=_held(tree, beliefs.dtype),
    )

  @staticmethod
  def mass_at_root(tree: PublicTree, beliefs: jax.Array) -> jax.Array:
    other = beliefs[::-1]
    mass = compatible_mass(other, _held(tree, beliefs.dtype))
    # What sums that cancel leave of nothing is rounding, and values are divided by it.
    rounding = _CANCELLED * jnp.finfo(mass.dtype).eps * other.sum(axis=-1, keepdims=True)
    return jnp.where(mass > rounding, mass, 0.0)

  def mask_reach(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    live = self.live[player][index]
    return rows if live is None else rows * live

  def mask_values(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    return self.mask_reach(index, player, rows)

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    del index, player
    return None

  def compatible_mass(self, reach: jax.Array, player: int) -> jax.Array:
    del player
    return compatible_mass(reach, self.held)

  def at_leaf(self, row: jax.Array) -> "HoleCardPairs":
    del row
    return self

  def terminal_values(
    self, tree: PublicTree, opponent_reach: Levels, player: int
  ) -> tuple[jax.Array | None, ...]:
    """Returns `player`'s counterfactual values at each level's terminal nodes, `[T, H]`."""
    values: list[jax.Array | None] = []
    for i, level in enumerate(tree.structure.levels):
      if not level.num_terminals:
        values.append(None)
        continue
      reach = opponent_reach[i][level.size - level.num_terminals :]
      reach = reach * self.beliefs[1 - player][None] * self.stakes[i]
      start = tree.structure.terminal_offsets[i]
      index = tree.payoff_index[start : start + level.num_terminals]
      boards = 0 if tree.strengths is None else len(tree.strengths)
      mass = functools.partial(compatible_mass, held=self.held)
      values.append(_level_values(level, self.showdowns[i], reach, index, player, boards, mass))
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


def _showdowns_by_row(strengths, index, dtype, settings) -> Showdowns | None:
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


def _held(tree: PublicTree, dtype) -> jax.Array | None:
  """Returns `HoleCardPairs.held`."""
  return hands_of(tree).held(dtype) if tree.hands_per_card else None


def live_hands(tree: PublicTree, dtype):
  """Returns `HoleCardPairs.live`."""
  assert tree.hands is not None
  assert tree.dealt is not None
  hands, dealt = jnp.asarray(tree.hands), jnp.asarray(tree.dealt)
  live: list[jax.Array | None] = []
  offsets = tree.structure.offsets
  for level, start, stop in zip(tree.structure.levels, offsets, offsets[1:]):
    if CHANCE not in level.movers:
      live.append(None)
      continue
    cards = dealt[start:stop, None, :, None]
    blocked = (cards == hands[None, :, None, :]).any(axis=(2, 3))
    live.append((~blocked).astype(dtype))
  if tree.possible is None:
    return tuple(live), tuple(live)
  possible = jnp.asarray(tree.possible)[0].astype(dtype)
  return (possible[0, None], *live[1:]), (possible[1, None], *live[1:])


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
