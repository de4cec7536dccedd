"""Folds and showdowns on many boards at once, between hands of two lists.

A fold is worth the other's reach over the hands that share no card with one's own, a showdown the
reach that one beats less the reach that one loses to. *Dense*, each is a product with one table for
each board; *sorted*, sums over the other's hands in order of strength, less those over the hands
that hold one's first card, and one's second.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.poker.lines.lines import Group

_MAX_DENSE = 2**17  # entries of a board's table
_BLOCK = 32  # hands that are summed up together
_MOST_NODES = 48  # rows of a board that are taken at once in sorted form


class Dense(NamedTuple):
  """What each column's hand wins from each of the other's, a table for each board.

  Attributes:
    fold, showdown: `[B, J of the other, J]` for each player, the number of hands of the other's
      class that share no card, and of those that it beats less those that it loses to; None
      without showdowns.
  """

  fold: tuple[jax.Array, jax.Array]
  showdown: tuple[jax.Array, jax.Array] | None


class Sorted(NamedTuple):
  """Places of the sums over the other's hands.

  Attributes:
    group: the columns.
    bounds: `[B, 2, J]` for each player, how many of the other's columns are weaker, and weaker or
      as strong; None without showdowns.
    signs: `[B, C, M, M of the other]` for each player, who wins among the hands that hold a card.
  """

  group: Group
  bounds: tuple[jax.Array, jax.Array] | None
  signs: tuple[jax.Array, jax.Array] | None


Ends = Dense | Sorted
_product = functools.partial(jnp.einsum, precision=lax.Precision.HIGHEST)


def make_ends(group: Group, dtype: Any, dense: bool | None = None) -> Ends:
  """Prepares the ends on a group of boards; `dense=None` chooses the form."""
  if dense is None:
    dense = group.width(0) * group.width(1) <= _MAX_DENSE
  return _make_dense(group, dtype) if dense else _make_sorted(group, dtype)


def _make_dense(group: Group, dtype) -> Dense:
  folds, showdowns = [], []
  for p in (0, 1):
    cards = jnp.asarray(group.cards[p])
    held = (cards[..., None] == jnp.arange(group.member[p].shape[1])).any(axis=2)
    holding = _holding(group, 1 - p, dtype)
    shared = _product("bjc,bhc->bjh", holding, held.astype(dtype))
    own = jnp.arange(group.width(1 - p))[:, None] == jnp.asarray(group.twin[p])[:, None]
    size = jnp.asarray(group.size[1 - p], dtype)[..., None]
    folds.append((size - shared + own) * (jnp.asarray(group.size[p])[:, None] > 0))
    if group.strength is not None:
      ours, theirs = (jnp.asarray(group.strength[q]) for q in (p, 1 - p))
      showdowns.append(folds[-1] * jnp.sign(ours[:, None] - theirs[..., None]))
  return Dense((folds[0], folds[1]), (showdowns[0], showdowns[1]) if showdowns else None)


def _holding(group: Group, player: int, dtype) -> jax.Array:
  """Returns how many hands of each column's class hold a card: `[B, J, C]`."""
  member = jnp.asarray(group.member[player])
  boards, cards, _ = member.shape
  filled = jnp.zeros((boards, group.width(player) + 1, cards), dtype)
  board, card = jnp.arange(boards)[:, None, None], jnp.arange(cards)[None, :, None]
  return filled.at[board, member, card].add(1.0)[:, :-1]


def _make_sorted(group: Group, dtype) -> Sorted:
  if group.strength is None:
    return Sorted(group, None, None)
  bounds, signs = [], []
  for p in (0, 1):
    ours, theirs = jnp.asarray(group.strength[p]), jnp.asarray(group.strength[1 - p])
    last = jnp.where(theirs < 0, jnp.iinfo(theirs.dtype).max, theirs)  # what fills up comes last
    sides: Any = ("left", "right")
    count = [jax.vmap(functools.partial(jnp.searchsorted, side=s))(last, ours) for s in sides]
    bounds.append(jnp.stack(count, axis=1))
    mine, other = _of_members(group, p, ours), _of_members(group, 1 - p, theirs)
    there = (mine >= 0)[..., :, None] & (other >= 0)[..., None, :]
    signs.append((jnp.sign(mine[..., :, None] - other[..., None, :]) * there).astype(dtype))
  return Sorted(group, (bounds[0], bounds[1]), (signs[0], signs[1]))


def _of_members(group: Group, player: int, strength: jax.Array) -> jax.Array:
  """Returns how strong the hands that hold each card are: `[B, C, M]`, -1 for what fills up."""
  filled = jnp.pad(strength, ((0, 0), (0, 1)), constant_values=-1)
  return jax.vmap(lambda row, member: row[member])(filled, jnp.asarray(group.member[player]))


def fold_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns the other's reach that shares no card with each hand of `player`.

  Args:
    ends: of `B` boards.
    reach: `[T, B, J of the other]` of one hand of each class.

  Returns:
    `[T, B, J]`. Of no meaning in columns that fill up.
  """
  if isinstance(ends, Dense):
    return _product("tbj,bjh->tbh", reach, ends.fold[player])
  return _by_board(_board_folds, ends, reach, player)


def showdown_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns what each hand of `player` wins less what it loses: as `fold_values`."""
  if isinstance(ends, Dense):
    assert ends.showdown is not None
    return _product("tbj,bjh->tbh", reach, ends.showdown[player])
  return _by_board(_board_showdowns, ends, reach, player)


def _by_board(function, ends: Sorted, reach: jax.Array, player: int) -> jax.Array:
  """Applies a function to each board's reach, lines last: `[J of the other, T]` to `[J, T]`."""
  t, boards, width = reach.shape
  pieces = -(-t // _MOST_NODES)
  cuts = [t * i // pieces for i in range(1, pieces)]
  results = []
  for part in jnp.split(reach, cuts):
    n = len(part)
    columns = settle(part.reshape(n, boards * width).T).reshape(boards, width, n)
    if boards == 1:
      one = jax.tree.map(lambda x: x[0], ends)
      values = function(one, columns[0], player)[None]
    else:
      values = lax.map(lambda x: function(x[0], x[1], player), (ends, columns))
    results.append(settle(values.reshape(-1, n)).T.reshape(n, boards, -1))
  return results[0] if len(results) == 1 else jnp.concatenate(results)


def settle(rows: jax.Array) -> jax.Array:
  """Returns `rows` `[x, n]`, computed once and in this order; see `solvers.sweeps.showdowns`."""
  return _product("xn,nm->xm", rows, jnp.eye(rows.shape[1], dtype=rows.dtype))


def _rows(array: jax.Array, places: jax.Array) -> jax.Array:
  return array.at[places].get(mode="promise_in_bounds")


def _weighed(group: Group, reach: jax.Array, player: int) -> jax.Array:
  """Returns the reach `[J, T]` of all hands of each class."""
  return reach if group.plain[player] else reach * jnp.asarray(group.size[player])[:, None]


def _of_cards(group: Group, reach: jax.Array, player: int) -> jax.Array:
  """Returns the reach of the hands that hold each card, `[C, M, T]`, and a row of zeros."""
  member = jnp.asarray(group.member[player])
  filled = jnp.pad(reach, ((0, 1), (0, 0)))
  return _rows(filled, member.reshape(-1)).reshape(*member.shape, -1)


def _board_folds(ends: Sorted, reach: jax.Array, player: int) -> jax.Array:
  group, other = ends.group, 1 - player
  total = _weighed(group, reach, other).sum(axis=0)
  of_card = _of_cards(group, reach, other).sum(axis=1)  # [C, T]
  cards = jnp.maximum(jnp.asarray(group.cards[player]), 0)
  shared = _rows(of_card, cards[:, 0]) + _rows(of_card, cards[:, 1])
  filled = jnp.pad(reach, ((0, 1), (0, 0)))
  return total - shared + _rows(filled, jnp.asarray(group.twin[player]))


def _board_showdowns(ends: Sorted, reach: jax.Array, player: int) -> jax.Array:
  group, other = ends.group, 1 - player
  assert ends.bounds is not None
  assert ends.signs is not None
  below = _sums_below(_weighed(group, reach, other))
  low, high = ends.bounds[player]
  of_card = _product("cim,cmt->cit", ends.signs[player], _of_cards(group, reach, other))
  of_card = of_card.reshape(-1, reach.shape[1])
  first, second = jnp.asarray(group.place[player])
  together = _rows(below, low) + _rows(below, high)
  return together - (_rows(of_card, first) + _rows(of_card, second))


def _sums_below(rows: jax.Array) -> jax.Array:
  """Sums the rows above each row of `[J, T]`, less half of all: `[J + 1 or more, T]`.

  Two of them at the ends of a tie add up to what is weaker less what is stronger.
  """
  number, n = rows.shape
  blocks = number // _BLOCK + 1
  padded = jnp.pad(rows, ((0, blocks * _BLOCK - number), (0, 0))).reshape(blocks, _BLOCK, n)
  lower = np.tril(np.ones((_BLOCK, _BLOCK)), -1)
  within = _product("il,klt->kit", jnp.asarray(lower, rows.dtype), padded)
  before = np.tril(np.ones((blocks, blocks)), -1) - 0.5
  before = _product("kl,lt->kt", jnp.asarray(before, rows.dtype), padded.sum(axis=1))
  return (within + before[:, None]).reshape(-1, n)
