"""Folds and showdowns on many boards at once, between hands of two lists.

A fold is worth the other's reach over the hands that share no card with one's own, a showdown the
reach that one beats less the reach that one loses to. *Dense*, each is a product with a
table; *sorted*, sums over the other's hands in order of strength, less those over the hands
that hold one's first card, and one's second. Folds are alike on all boards.
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
_product = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Dense(NamedTuple):
  """What each class of a player's hands wins from each of the other's.

  Attributes:
    fold: `[J of the other, J]` for each player, how many hands of the other's class share no card.
    showdown: `[B, J of the other, J]` for each player, of these those that a hand beats less those
      that it loses to; None before all cards lie.
  """

  fold: tuple[jax.Array, jax.Array]
  showdown: tuple[jax.Array, jax.Array] | None


class Sorted(NamedTuple):
  """Sums over the other's hands.

  Attributes:
    group: the hands.
    showdowns: for each player, what it wins from the other's hands; None before all cards lie.
  """

  group: Group
  showdowns: tuple[SortedShowdowns, SortedShowdowns] | None


Ends = Dense | Sorted


def is_dense(group: Group) -> bool:
  """Says which form is faster."""
  return group.width(0) * group.width(1) <= _MAX_DENSE


def make_ends(group: Group, dtype: Any, dense: bool | None = None) -> Ends:
  """Prepares the ends on a group of boards; `dense=None` chooses the form."""
  dense = is_dense(group) if dense is None else dense
  return _make_dense(group, dtype) if dense else _make_sorted(group)


def _held(group: Group, player: int, dtype) -> jax.Array:
  """Returns 1 where the hand of a class holds a card: `[J, C]`."""
  cards = jnp.asarray(group.cards[player])[:, :, None]
  return (cards == jnp.arange(group.holding[player].shape[1])).any(axis=1).astype(dtype)


def _make_dense(group: Group, dtype) -> Dense:
  folds = fold_table(group, 0, dtype), fold_table(group, 1, dtype)
  if group.final is None:
    return Dense(folds, None)
  ours, theirs = (jnp.asarray(x) for x in group.final.strength)
  return Dense(folds, (folds[0] * sign_table(ours, theirs), folds[1] * sign_table(theirs, ours)))


def fold_table(group: Group, player: int, dtype: Any) -> jax.Array:
  """Returns `Dense.fold` of a player: `[J of the other, J]`."""
  other = 1 - player
  holding = jnp.asarray(group.holding[other], dtype)
  shared = _product("jc,hc->jh", holding, _held(group, player, dtype))
  own = jnp.arange(group.width(other))[:, None] == jnp.asarray(group.twin[player])
  return jnp.asarray(group.size[other], dtype)[:, None] - shared + own


def sign_table(ours: jax.Array, theirs: jax.Array) -> jax.Array:
  """Returns whether hands win, from strengths `[B, J]`: `[B, J of the other, J]`."""
  return jnp.sign(ours[:, None] - theirs[:, :, None])


def _make_sorted(group: Group) -> Sorted:
  if group.final is None:
    return Sorted(group, None)
  return Sorted(group, (sort(group, group.final, 0), sort(group, group.final, 1)))


def sort(group: Group, final: Final, player: int) -> SortedShowdowns:
  """Returns what `player` wins from the other's hands, board by board."""
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
  rows = reach.reshape(-1, reach.shape[-1])
  if isinstance(ends, Dense):
    values = _product("tj,jh->th", rows, ends.fold[player])
  else:
    group, other = ends.group, 1 - player
    shared = _product("tj,jc->tc", rows, jnp.asarray(group.holding[other]))
    total = _product("tj,j->t", rows, jnp.asarray(group.size[other]))[:, None]
    values = total - _product("tc,hc->th", shared, _held(group, player, rows.dtype))
    values = values + (rows if group.same else _twins(group, rows, player))
  return values.reshape(*reach.shape[:2], -1)


def _twins(group: Group, rows: jax.Array, player: int) -> jax.Array:
  """Returns the other's reach of `player`'s own hands: `[T, J of the other]` to `[T, J]`."""
  filled = jnp.pad(rows, ((0, 0), (0, 1)))
  return filled.at[:, jnp.asarray(group.twin[player])].get(mode="promise_in_bounds")


def showdown_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns what each hand of `player` wins less what it loses: as `fold_values`."""
  rows = jnp.swapaxes(reach, 0, 1)
  if isinstance(ends, Dense):
    assert ends.showdown is not None
    values = _product("btj,bjh->bth", rows, ends.showdown[player])
  else:
    assert ends.showdowns is not None
    values = showdowns.showdown_values(ends.showdowns[player], rows)
  return jnp.swapaxes(values, 0, 1)
