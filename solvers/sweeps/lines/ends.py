"""Folds and showdowns on many boards at once, between hands of two lists.

A fold is worth the other's reach over the hands that share no card with one's own, a showdown the
reach that one beats less the reach that one loses to. *Dense*, a showdown is a product with a
table; *sorted*, sums over the other's hands in order of strength, less those over the hands
that hold one's first card, and one's second. A fold is a product with a table too, or two with
smaller ones: all of the other's reach less that of hands that hold each card. Folds are alike on
all boards.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.poker.lines.lines import Final, Group
from solvers.sweeps import showdowns
from solvers.sweeps.showdowns import SortedShowdowns, sort_between

_MAX_DENSE = 2**17  # entries of a table of the players' hands
_BY_CARD = 2.5  # sums by card where a table has so many times their entries
_product = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Folds(NamedTuple):
  """What a fold is worth to each player: the other's reach that shares no card with a hand.

  Attributes:
    table: `[J of the other, J]` for each player, `fold_table`; None where sums by card are faster.
    down: `[J of the other, C + 1]` how many hands of each class hold a card, and how many there
      are.
    up: `[C + 1, J]` -1 where the hand of a class holds the card, then 1.
    twin: `[J]` the other's class of the same hand, which both its cards take out; None where both
      have the same classes.
  """

  table: tuple[jax.Array, jax.Array] | None
  down: tuple[jax.Array, jax.Array] | None
  up: tuple[jax.Array, jax.Array] | None
  twin: tuple[jax.Array, jax.Array] | None


class Dense(NamedTuple):
  """Showdowns as products with tables.

  Attributes:
    folds: what folds are worth.
    showdowns: `[B, J of the other, J]` for each player, how many hands of the other's class share
      no card and lose to a hand, less those that beat it; None before all cards lie. Where both
      have the same classes it is one array: one of 272 hands fits a core's cache, two do not.
  """

  folds: Folds
  showdowns: tuple[jax.Array, jax.Array] | None


class Sorted(NamedTuple):
  """Showdowns as sums over the other's hands in order of strength.

  Attributes:
    folds: what folds are worth.
    showdowns: for each player, what it wins from the other's hands; None before all cards lie.
  """

  folds: Folds
  showdowns: tuple[SortedShowdowns, SortedShowdowns] | None


Ends = Dense | Sorted


def is_dense(group: Group) -> bool:
  """Says which form of showdowns is faster."""
  return group.width(0) * group.width(1) <= _MAX_DENSE


def make_ends(group: Group, dtype: Any, dense: bool | None = None) -> Ends:
  """Prepares the ends on a group of boards; `dense=None` chooses the form."""
  dense = is_dense(group) if dense is None else dense
  folds, final = make_folds(group, dtype), group.final
  if not dense:
    sides = None if final is None else (sort(group, final, 0), sort(group, final, 1))
    return Sorted(folds, sides)
  if final is None:
    return Dense(folds, None)
  pairs = fold_table(group, 0, dtype), fold_table(group, 1, dtype)
  strength = jnp.asarray(final.strength[0]), jnp.asarray(final.strength[1])
  return Dense(folds, showdown_tables(group, pairs, strength))


def make_folds(group: Group, dtype: Any, table: bool | None = None) -> Folds:
  """Prepares the folds of a group of boards; `table=None` chooses the form."""
  widths = group.width(0), group.width(1)
  cards = group.holding[0].shape[1]
  if table is None:
    table = widths[0] * widths[1] <= _BY_CARD * cards * sum(widths)
  if table:
    return Folds((fold_table(group, 0, dtype), fold_table(group, 1, dtype)), None, None, None)

  def down(player: int) -> jax.Array:
    own = group.holding[player], group.size[player]
    return jnp.column_stack([jnp.asarray(x, dtype) for x in own])

  def up(player: int) -> jax.Array:
    return jnp.pad(-_held(group, player, dtype), ((0, 0), (0, 1)), constant_values=1).T

  twin = None if group.same else (jnp.asarray(group.twin[0]), jnp.asarray(group.twin[1]))
  return Folds(None, (down(1), down(0)), (up(0), up(1)), twin)


def _held(group: Group, player: int, dtype) -> jax.Array:
  """Returns 1 where the hand of a class holds a card: `[J, C]`."""
  cards = jnp.asarray(group.cards[player])[:, :, None]
  every = jnp.arange(group.holding[player].shape[1], dtype=cards.dtype)[None, None]
  return (cards == every).any(axis=1).astype(dtype)


def fold_table(group: Group, player: int, dtype: Any) -> jax.Array:
  """Returns how many hands of the other's classes share no card: `[J of the other, J]`."""
  other = 1 - player
  holding = jnp.asarray(group.holding[other], dtype)
  shared = _product("jc,hc->jh", holding, _held(group, player, dtype))
  twin = jnp.asarray(group.twin[player])
  own = jnp.arange(group.width(other), dtype=twin.dtype)[:, None] == twin[None]
  return jnp.asarray(group.size[other], dtype)[:, None] - shared + own.astype(dtype)


def showdown_tables(group: Group, pairs: Any, strength: Any) -> tuple[jax.Array, jax.Array]:
  """Returns `Dense.showdowns` from `fold_table` and strengths `[B, J]`, both of each player."""
  ours, theirs = strength
  first = pairs[0][None] * _signs(ours, theirs).astype(pairs[0].dtype)
  if group.same:
    return first, first
  return first, pairs[1][None] * _signs(theirs, ours).astype(pairs[1].dtype)


def _signs(ours: jax.Array, theirs: jax.Array) -> jax.Array:
  """Returns whether hands win, from strengths `[B, J]`: `[B, J of the other, J]`."""
  return jnp.sign(ours[:, None] - theirs[:, :, None])


def sort(group: Group, final: Final, player: int) -> SortedShowdowns:
  """Returns `player`'s values against the other's hands, board by board."""
  other = 1 - player
  size = None if group.plain else jnp.asarray(group.size[other])
  cards = jnp.asarray(group.cards[player])

  def sort_board(board):
    ours, theirs, member = board
    return sort_between(theirs, member, ours, cards, size)

  boards = final.strength[player], final.strength[other], final.member[other]
  return lax.map(sort_board, jax.tree.map(jnp.asarray, boards))


def fold_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns the other's reach that shares no card with each hand of `player`.

  Args:
    ends: of `B` boards.
    reach: `[T, B, J of the other]` of one hand of each class, zero where the board blocks it.

  Returns:
    `[T, B, J]`. Of no meaning for hands that the board blocks.
  """
  rows, folds = reach.reshape(-1, reach.shape[-1]), ends.folds
  if folds.table is not None:
    values = _product("tj,jh->th", rows, folds.table[player])
  else:
    assert folds.down is not None
    assert folds.up is not None
    sums = _product("tj,jc->tc", rows, folds.down[player])
    values = _product("tc,ch->th", sums, folds.up[player])
    values = values + (rows if folds.twin is None else _twins(folds.twin[player], rows))
  return values.reshape(*reach.shape[:2], -1)


def _twins(twin: jax.Array, rows: jax.Array) -> jax.Array:
  """Returns the other's reach of `player`'s own hands: `[T, J of the other]` to `[T, J]`."""
  filled = jnp.pad(rows, ((0, 0), (0, 1)))
  return filled.at[:, twin].get(mode="promise_in_bounds")


def showdown_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns the showdown values of `player`'s hands, wins less losses: as `fold_values`."""
  rows = jnp.swapaxes(reach, 0, 1)
  if isinstance(ends, Dense):
    assert ends.showdowns is not None
    values = _product("btj,bjh->bth", rows, ends.showdowns[player])
  else:
    assert ends.showdowns is not None
    values = showdowns.showdown_values(ends.showdowns[player], rows)
  return jnp.swapaxes(values, 0, 1)
