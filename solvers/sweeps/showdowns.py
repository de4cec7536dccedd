"""Folds and showdowns between hands of two cards, for many nodes at once."""
# A fold is worth a constant times the opponent's reach over the hands that share no card with
# one's own. A showdown is worth the reach that one beats less the reach that one loses to. Two
# forms: *dense*, one matrix of signs for each final board, and *sorted*, sums over hands in order
# of strength, from which those that hold one of one's own cards are taken out again. Dense costs
# `H * H` a node and is a matrix product; sorted costs a few passes over `H`.

import functools
import math
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.pairs import all_pairs, holds, num_live_cards
from solvers import tuning

_FEW_HANDS = 128
_REGISTER = 8  # nodes of a board in sorted form are filled up to a multiple of it


class SortedShowdowns(NamedTuple):
  """Places of the sums of reach over weaker and stronger hands, for each of `K` boards."""

  # Hands are sorted in `blocks` of `b`, and those that hold a card, `M` for each of `C`
  # cards, apart. Places in the sums are flat; those within a block come first, then blocks or
  # cards, so that one matrix product sums all blocks. Hand `H`, which nobody holds, fills up.
  order: jax.Array  # [K, b, blocks] the hands in order of strength
  bounds: jax.Array  # [K, 2, H] sums below, and up to, the hands that tie with each
  card_order: jax.Array  # [K, M, C] the hands that hold a card, in order of strength
  card_bounds: jax.Array  # [K, 4, H] as `bounds`, among the hands of each of its two cards
  weight: jax.Array | None = None  # [K, b, blocks] what `order` counts for; None for one


# Sorted; or dense, `[K, H, H]`: 1, 0 or -1 as the last axis' hand wins from the other, 0 where they
# block each other.
Showdowns = SortedShowdowns | jax.Array


class Hands(NamedTuple):
  """The hands that players may hold: all pairs of some cards, or a list of them."""

  cards: Any  # `[H, 2]` of each hand, the lower first; numpy, or JAX's of a list
  num_cards: int  # `C`, cards are numbered below; static
  most: int  # `M`, at most so many hands hold a card; static

  @classmethod
  def all_pairs(cls, num_hands: int) -> "Hands":
    """Returns all pairs of some number of cards."""
    cards = num_live_cards(num_hands)
    return cls(all_pairs(num_hands), cards, cards - 1)


def make_showdowns(
  strengths: jax.Array,
  dtype,
  *,
  hands: Hands | None = None,
  dense: bool | None = None,
  lanes: int = 1,
  by_row: bool = False,
) -> Showdowns:
  """Prepares the showdowns of boards with `strengths` `[K, H]`; `dense=None` chooses the form.

  `lanes` trees do so side by side, each with boards of its own; `by_row` says that each row of a
  tree has its own.
  """
  num_hands = strengths.shape[-1]
  hands = Hands.all_pairs(num_hands) if hands is None else hands
  if dense is None:
    pieces, few = tuning.pieces(), num_hands <= _FEW_HANDS and not by_row
    entries = strengths.size * num_hands * (lanes if pieces.of_all_lanes else 1)
    dense = entries <= (pieces.dense_of_few if few else pieces.dense)
  if dense:
    apart = ~(hands.cards[:, None, :, None] == hands.cards[None, :, None, :]).any(axis=(2, 3))
    wins = jnp.sign(strengths[:, None, :] - strengths[:, :, None]).astype(dtype)
    return jnp.where(apart[None], wins, 0.0)
  of_card = jnp.asarray(hands_of_card(holds(hands.cards, hands.num_cards, int), hands.most))
  return jax.vmap(lambda x: sort_between(x, of_card, x, hands.cards, None))(strengths)


def hands_of_card(holding: Any, most: int) -> Any:
  """Returns the hands that hold each card, `[C, most]`; `H` fills up.

  `holding` `[H, C]` is how often each does, and it is listed as often.
  """
  return (holding.cumsum(axis=0, dtype=int)[None] <= np.arange(most)[:, None, None]).sum(axis=1).T


def sort_between(
  strengths: jax.Array,
  of_card: jax.Array,
  own_strengths: jax.Array,
  own_cards: Any,
  size: jax.Array | None,
) -> SortedShowdowns:
  """Sorts one board's hands where the players have lists of their own, perhaps of classes."""
  # Of the other: `strengths` `[J]`, -1 for hands that the board blocks, `of_card` `[C, M]` the
  # hands that hold each card, filled up by J, and `size` `[J]` hands of each class, None for one.
  # One's own: `own_strengths` `[H]`, `own_cards` `[H, 2]`.
  number, (cards, most) = len(strengths), of_card.shape
  # In blocks about as long as there are cards; of all pairs of some cards they are full.
  length = math.isqrt(2 * number)
  length += number % length > 0
  blocks = -(-number // length)
  ordered = jnp.sort(strengths)
  weaker: Any = jnp.searchsorted(ordered, strengths)
  of_card = of_card.astype(weaker.dtype)
  # Numbers alone are sorted several times as fast on a CPU as numbers with their places.
  order = jnp.sort(weaker * number + jnp.arange(number, dtype=weaker.dtype)) % number
  # What fills up is stronger than every hand, and cards are apart.
  step = number + 1
  member = jnp.sort(jnp.append(weaker, number)[of_card] * step + of_card, axis=1)
  ranks = (member // step + step * jnp.arange(cards, dtype=member.dtype)[:, None]).reshape(-1)
  sides: Any = ("left", "right")
  below = jnp.stack([jnp.searchsorted(ordered, own_strengths, side=x) for x in sides])
  block = jnp.minimum(below // length, blocks - 1)
  bounds = (below - block * length) * blocks + block
  card = own_cards.T[None].astype(below.dtype)
  held = jnp.searchsorted(ranks, card * step + below[:, None]) - card * most  # [2, 2, H]
  card_bounds = (held * cards + card).reshape(4, -1)
  order = jnp.pad(order, (0, length * blocks - number), constant_values=number)
  order = order.reshape(blocks, length).T
  weight = None if size is None else jnp.pad(size, (0, 1))[order]
  return SortedShowdowns(order, bounds, (member % step).T, card_bounds, weight)


def showdown_values(showdowns: Showdowns, reach: jax.Array) -> jax.Array:
  """Returns hands' wins less losses against the opponent's `reach`, for unit stakes: `[K, n, H]`.

  `reach` `[K, n, H]`, at n nodes of each of K boards, is zero for hands that the board blocks,
  whose values have no meaning.
  """
  if not isinstance(showdowns, SortedShowdowns):
    return product("knj,kjh->knh", reach, showdowns)
  # Board by board, and not too many nodes at once, it stays within a core's cache.
  if reach.shape[1] == 1 or tuning.pieces().nodes is None:
    return jax.vmap(_board_values)(showdowns, reach)
  if len(reach) == 1:
    return _board_values(jax.tree.map(lambda x: x[0], showdowns), reach[0])[None]
  return lax.map(lambda board: _board_values(*board), (showdowns, reach))


def _board_values(showdowns: SortedShowdowns, reach: jax.Array) -> jax.Array:
  """Returns `showdown_values` of one board, `[n, H]`."""
  (n, h), most_nodes = reach.shape, tuning.pieces().nodes
  if most_nodes is not None and n > most_nodes:
    parts = jnp.split(reach, list(range(most_nodes, n, most_nodes)))
    return jnp.concatenate([_board_values(showdowns, x) for x in parts])
  if most_nodes is not None and n > _REGISTER // 2 and n % _REGISTER:
    filled = jnp.pad(reach, ((0, -n % _REGISTER), (0, 0)))
    return _board_values(showdowns, filled)[:n]
  length, blocks = showdowns.order.shape
  most, cards = showdowns.card_order.shape
  # Nodes last: a hand's numbers at all nodes are moved and added up together.
  columns = settle(reach.T)
  if length * blocks > h or most * cards > 2 * h or showdowns.weight is not None:
    columns = jnp.pad(columns, ((0, 1), (0, 0)))  # the hand that fills up
  below = _rows(columns, showdowns.order.reshape(-1))
  if showdowns.weight is not None:
    below = below * showdowns.weight.reshape(-1, 1).astype(below.dtype)
  below = below.reshape(length, -1)
  below = _sums_below(below, centred=False)
  before = _sums_below(below[-1].reshape(blocks, -1), centred=True)[:-1]
  below = (below.reshape(length + 1, blocks, -1) + before[None]).reshape(-1, n)
  of_card = _rows(columns, showdowns.card_order.reshape(-1)).reshape(most, -1)
  below_of_card = _sums_below(of_card, centred=True).reshape(-1, n)
  values = _sum_of_rows(below, showdowns.bounds)
  values = values - _sum_of_rows(below_of_card, showdowns.card_bounds)
  return settle(values).T


def settle(rows: jax.Array) -> jax.Array:
  """Returns `rows` `[x, n]`, computed once and in this order."""
  # Multiplying by one does it. XLA would move a transpose into each gather next to it, or a gather
  # into a transpose, and read memory in the wrong order; an optimization barrier does not hold it.
  # On an accelerator the product would take longer than what it saves.
  if not tuning.on_cpu():
    return rows
  return product("xn,nm->xm", rows, jnp.eye(rows.shape[1], dtype=rows.dtype))


def product(axes: str, x: jax.Array, y: jax.Array) -> jax.Array:
  """Returns an `einsum` whose terms no accelerator rounds."""
  return jnp.einsum(axes, x, y, precision=lax.Precision.HIGHEST)


def _rows(array: jax.Array, places: jax.Array) -> jax.Array:
  return array.at[places].get(mode="promise_in_bounds")


def _sum_of_rows(array: jax.Array, places: jax.Array) -> jax.Array:
  return functools.reduce(operator.add, (_rows(array, own) for own in places))


def _sums_below(rows: jax.Array, *, centred: bool) -> jax.Array:
  """Sums the rows above each row of `[m, x]`, and all: `[m + 1, x]`; centred, less half of all."""
  # Two centred sums at the ends of a tie add up to what is weaker less what is stronger.
  # A triangular product: several times cheaper on a CPU than XLA's cumulative sum.
  triangle = np.tril(np.ones((len(rows) + 1, len(rows))), -1) - (0.5 if centred else 0.0)
  return product("ij,jx->ix", jnp.asarray(triangle, rows.dtype), rows)
