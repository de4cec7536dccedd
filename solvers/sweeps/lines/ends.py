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
import numpy as np
from jax import lax

from games.poker.lines.lines import Group

_MAX_DENSE = 2**17  # entries of a table of the players' hands
_BLOCK = 32  # hands that are summed up together
_MOST_NODES = 48  # rows of a board that are taken at once in sorted form
_product = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)


class Dense(NamedTuple):
  """What each class of a player's hands wins from each of the other's.

  Attributes:
    fold: `[J of the other, J]` for each player, how many hands of the other's class share no card.
    showdown: `[B, J, J of the other]` for each player, of these those that a hand beats less those
      that it loses to; None before all cards lie.
  """

  fold: tuple[jax.Array, jax.Array]
  showdown: tuple[jax.Array, jax.Array] | None


class Sorted(NamedTuple):
  """Places of the sums over the other's hands.

  Attributes:
    group: the hands.
    order: `[B, J]` for each player, its columns in order of strength; None before all cards lie.
    bounds: `[B, 2, J]` for each player, how many of the other's columns are weaker, and weaker or
      as strong.
    signs: `[B, C, M, M of the other]` for each player, who wins among the hands that hold a card.
  """

  group: Group
  order: tuple[jax.Array, jax.Array] | None
  bounds: tuple[jax.Array, jax.Array] | None
  signs: tuple[jax.Array, jax.Array] | None


Ends = Dense | Sorted


def make_ends(group: Group, dtype: Any, dense: bool | None = None) -> Ends:
  """Prepares the ends on a group of boards; `dense=None` chooses the form."""
  if dense is None:
    dense = group.width(0) * group.width(1) <= _MAX_DENSE
  return _make_dense(group, dtype) if dense else _make_sorted(group, dtype)


def _held(group: Group, player: int, dtype) -> jax.Array:
  """Returns 1 where the hand of a class holds a card: `[J, C]`."""
  cards = jnp.asarray(group.cards[player])[:, :, None]
  return (cards == jnp.arange(group.holding[player].shape[1])).any(axis=1).astype(dtype)


def _make_dense(group: Group, dtype) -> Dense:
  folds, showdowns = [], []
  for p in (0, 1):
    q = 1 - p
    shared = _product("jc,hc->jh", jnp.asarray(group.holding[q], dtype), _held(group, p, dtype))
    own = jnp.arange(group.width(q))[:, None] == jnp.asarray(group.twin[p])
    folds.append(jnp.asarray(group.size[q], dtype)[:, None] - shared + own)
    if group.final is not None:
      ours, theirs = (jnp.asarray(group.final.strength[x]) for x in (p, q))
      showdowns.append(folds[-1].T * jnp.sign(ours[:, :, None] - theirs[:, None]))
  return Dense((folds[0], folds[1]), (showdowns[0], showdowns[1]) if showdowns else None)


def _make_sorted(group: Group, dtype) -> Sorted:
  if group.final is None:
    return Sorted(group, None, None, None)
  order, bounds, signs = [], [], []
  for p in (0, 1):
    ours, theirs = (jnp.asarray(group.final.strength[x]) for x in (p, 1 - p))
    order.append(jnp.argsort(ours, axis=1))
    sides: Any = ("left", "right")
    weakest = jnp.sort(theirs, axis=1)
    count = [jax.vmap(functools.partial(jnp.searchsorted, side=s))(weakest, ours) for s in sides]
    bounds.append(jnp.stack(count, axis=1))
    mine = _of_members(group.final.member[p], ours)[..., :, None]
    other = _of_members(group.final.member[1 - p], theirs)[..., None, :]
    signs.append((jnp.sign(mine - other) * ((mine >= 0) & (other >= 0))).astype(dtype))
  return Sorted(group, (order[0], order[1]), (bounds[0], bounds[1]), (signs[0], signs[1]))


def _of_members(member: Any, strength: jax.Array) -> jax.Array:
  """Returns how strong the hands that hold each card are: `[B, C, M]`, -1 for what fills up."""
  filled = jnp.pad(strength, ((0, 0), (0, 1)), constant_values=-1)
  return jax.vmap(lambda row, places: row[places])(filled, jnp.asarray(member))


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
  t, boards, width = reach.shape
  pieces = 1 if isinstance(ends, Dense) else -(-t // _MOST_NODES)
  results = []
  for part in jnp.split(reach, [t * i // pieces for i in range(1, pieces)]):
    n = len(part)
    # Lines last: a hand's numbers at all lines are moved and added up together.
    columns = settle(part.reshape(n, boards * width).T).reshape(boards, width, n)
    if isinstance(ends, Dense):
      assert ends.showdown is not None
      values = _product("bhj,bjt->bht", ends.showdown[player], columns)
    elif boards == 1:
      values = _on_board(jax.tree.map(lambda x: x[0], _of_boards(ends, player)), columns[0])[None]
    else:  # board by board it stays within a core's cache
      values = lax.map(lambda x: _on_board(*x), (_of_boards(ends, player), columns))
    results.append(settle(values.reshape(-1, n)).T.reshape(n, boards, -1))
  return results[0] if len(results) == 1 else jnp.concatenate(results)


def settle(rows: jax.Array) -> jax.Array:
  """Returns `rows` `[x, n]`, computed once and in this order; see `solvers.sweeps.showdowns`."""
  return _product("xn,nm->xm", rows, jnp.eye(rows.shape[1], dtype=rows.dtype))


def _rows(array: jax.Array, places: jax.Array) -> jax.Array:
  return array.at[places].get(mode="promise_in_bounds")


class _Board(NamedTuple):
  """What a showdown on a board needs of `Sorted` and its group, for one player."""

  order: jax.Array  # [J of the other]
  size: jax.Array | None  # [J of the other] in that order
  member: jax.Array  # [C, M of the other]
  bounds: jax.Array  # [2, J]
  signs: jax.Array  # [C, M, M of the other]
  place: jax.Array  # [2, J]


def _of_boards(ends: Sorted, player: int) -> _Board:
  group, other = ends.group, 1 - player
  assert group.final is not None
  assert ends.order is not None
  assert ends.bounds is not None
  assert ends.signs is not None
  order = ends.order[other]
  size = None if group.plain else jnp.asarray(group.size[other])[order]
  member, place = jnp.asarray(group.final.member[other]), jnp.asarray(group.final.place[player])
  return _Board(order, size, member, ends.bounds[player], ends.signs[player], place)


def _on_board(board: _Board, reach: jax.Array) -> jax.Array:
  """Returns `showdown_values` of one board: `[J of the other, T]` to `[J, T]`."""
  rows = _rows(reach, board.order)
  below = _sums_below(rows if board.size is None else rows * board.size[:, None])
  filled = jnp.pad(reach, ((0, 1), (0, 0)))
  of_card = _rows(filled, board.member.reshape(-1)).reshape(*board.member.shape, -1)
  of_card = _product("cim,cmt->cit", board.signs, of_card).reshape(-1, reach.shape[1])
  together = _rows(below, board.bounds[0]) + _rows(below, board.bounds[1])
  return together - (_rows(of_card, board.place[0]) + _rows(of_card, board.place[1]))


def _sums_below(rows: jax.Array) -> jax.Array:
  """Sums the rows above each row of `[J, T]`, less half of all: `[J + 1 or more, T]`.

  Two of them at the ends of a tie add up to what is weaker less what is stronger.
  """
  number, n = rows.shape
  blocks = number // _BLOCK + 1
  padded = jnp.pad(rows, ((0, blocks * _BLOCK - number), (0, 0))).reshape(blocks, _BLOCK, n)
  lower = np.tril(np.ones((_BLOCK, _BLOCK)), -1)
  within = _product("il,klt->kit", jnp.asarray(lower, rows.dtype), padded)
  earlier = np.tril(np.ones((blocks, blocks)), -1) - 0.5
  before = _product("kl,lt->kt", jnp.asarray(earlier, rows.dtype), padded.sum(axis=1))
  return (within + before[:, None]).reshape(-1, n)
