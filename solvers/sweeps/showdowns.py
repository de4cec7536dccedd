"""Folds and showdowns between hands of two cards, for many nodes at once.

A fold is worth a constant times the opponent's reach over the hands that share no card with one's
own. A showdown is worth the reach that one beats less the reach that one loses to. Two forms:
*dense*, one matrix of signs for each final board, and *sorted*, sums over hands in order of
strength, from which those that hold one of one's own cards are taken out again. Dense costs `H * H`
a node and is a matrix product; sorted costs a few passes over `H`.
"""

import functools
import itertools
import math
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games import card_removal

_MAX_DENSE_ON_CPU = 2**20  # entries of all boards' matrices
_MAX_DENSE = 2**27
_MOST_NODES = 48  # of a board that are taken at once in sorted form


class SortedShowdowns(NamedTuple):
  """Places of the sums of reach over weaker and stronger hands, for each of `K` boards.

  Hands are sorted in `blocks` of `b` (`_blocks`), and those that hold a card, `M` for each of `C`
  cards, apart. Places are flat; those within a block come first, then blocks or cards, so that one
  matrix product sums all blocks.
  """

  order: jax.Array  # [K, b * blocks] the hands in order of strength
  bounds: jax.Array  # [K, 2, H] sums below, and up to, the hands that tie with each
  card_order: jax.Array  # [K, M * C] the hands that hold a card, in order of strength
  card_bounds: jax.Array  # [K, 4, H] as `bounds`, among the hands of each of its two cards


Showdowns = SortedShowdowns | jax.Array  # sorted, or dense [K, H, H]: signs of who wins


def num_live_cards(num_hands: int) -> int:
  """Returns how many cards make so many pairs.

  Raises:
    ValueError: no number of cards does.
  """
  cards = (1 + math.isqrt(1 + 8 * num_hands)) // 2
  if cards * (cards - 1) // 2 != num_hands:
    raise ValueError(f"hands={num_hands} must be all pairs of some number of cards")
  return cards


@functools.cache
def all_pairs(num_hands: int) -> np.ndarray:
  """Returns the two cards of each hand, cards numbered by their order: `[H, 2]`."""
  return np.array(list(itertools.combinations(range(num_live_cards(num_hands)), 2)), np.int32)


def compatible_mass(reach: jax.Array) -> jax.Array:
  """Returns for each hand the sum of `reach` over hands that share no card: `[..., H]`."""
  pairs = all_pairs(reach.shape[-1])
  held = jnp.asarray(card_removal.holds(pairs, int(pairs.max()) + 1), reach.dtype)
  # Accelerators would otherwise round the numbers that are about to cancel.
  with jax.default_matmul_precision("highest"):
    return card_removal.compatible_mass(reach, held)


def make_showdowns(strengths: jax.Array, dtype, *, dense: bool | None = None) -> Showdowns:
  """Prepares the showdowns of boards with `strengths` `[K, H]`; `dense=None` chooses the form."""
  entries = strengths.size * strengths.shape[-1]
  if dense is None:
    on_cpu = jax.default_backend() == "cpu"
    dense = entries <= (_MAX_DENSE_ON_CPU if on_cpu else _MAX_DENSE)
  return dense_showdowns(strengths, dtype) if dense else sorted_showdowns(strengths)


def dense_showdowns(strengths: jax.Array, dtype) -> jax.Array:
  """Returns `[K, H, H]`: what the last axis' hand wins from the other, 0 for pairs that block."""
  pairs = all_pairs(strengths.shape[-1])
  apart = ~(pairs[:, None, :, None] == pairs[None, :, None, :]).any(axis=(2, 3))
  return jnp.sign(strengths[:, None, :] - strengths[:, :, None]).astype(dtype) * apart


def sorted_showdowns(strengths: jax.Array) -> SortedShowdowns:
  """Sorts the hands of each board, all of them and those of each card: `strengths` `[K, H]`."""
  return jax.vmap(_sort_board)(strengths)


def _sort_board(strengths: jax.Array) -> SortedShowdowns:
  (h,) = strengths.shape
  pairs = all_pairs(h)
  cards = num_live_cards(h)
  of_card = np.array([np.flatnonzero((pairs == c).any(axis=1)) for c in range(cards)])  # [C, M]
  # Where a hand stands among those of its first and of its second card: [2, H].
  place = np.stack([(of_card[pairs[:, j]] < np.arange(h)[:, None]).sum(axis=1) for j in (0, 1)])
  order, *bounds = _sort(strengths)
  length, blocks = _blocks(h)
  places = []
  for bound in bounds:
    block = jnp.minimum(bound // length, blocks - 1)
    places.append((bound - block * length) * blocks + block)
  card_order, *card_bounds = _sort(strengths[of_card])  # [C, M]
  hand = jnp.take_along_axis(jnp.asarray(of_card), card_order, axis=-1)
  card_places = [bound[pairs.T, place] * cards + pairs.T for bound in card_bounds]
  return SortedShowdowns(
    order=order.reshape(blocks, length).T.reshape(-1),
    bounds=jnp.stack(places),
    card_order=hand.T.reshape(-1),
    card_bounds=jnp.concatenate(card_places),
  )


def _sort(values: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Returns along the last axis the order, and how many are less, and less or equal."""
  order = jnp.argsort(values, axis=-1)
  ordered = jnp.take_along_axis(values, order, axis=-1)

  def count(row, own, side):
    return jnp.searchsorted(row, own, side=side)

  if values.ndim == 1:
    return order, count(ordered, values, "left"), count(ordered, values, "right")
  low, high = (
    jax.vmap(functools.partial(count, side=side))(ordered, values) for side in ("left", "right")
  )
  return order, low, high


def _blocks(num_hands: int) -> tuple[int, int]:
  """Splits all pairs of n cards into blocks: how long, and how many."""
  length = num_live_cards(num_hands)
  length -= 1 - length % 2  # n (n - 1) / 2 is a multiple of n - 1 or of n, whichever is odd
  return length, num_hands // length


def showdown_values(showdowns: Showdowns, reach: jax.Array) -> jax.Array:
  """Returns what each hand wins less what it loses against the opponent's `reach`.

  Args:
    showdowns: of `K` boards.
    reach: `[K, n, H]` at n nodes of each board; zero for hands that the board blocks.

  Returns:
    `[K, n, H]`, for unit stakes. Of no meaning for hands that the board blocks.
  """
  if not isinstance(showdowns, SortedShowdowns):
    return _product("knj,kjh->knh", reach, showdowns)
  # Board by board, and not too many nodes at once, it stays within a core's cache.
  if reach.shape[1] == 1:
    return jax.vmap(_board_values)(showdowns, reach)
  if len(reach) == 1:
    return _board_values(jax.tree.map(lambda x: x[0], showdowns), reach[0])[None]
  return lax.map(lambda board: _board_values(*board), (showdowns, reach))


def _board_values(showdowns: SortedShowdowns, reach: jax.Array) -> jax.Array:
  """Returns `showdown_values` of one board, `[n, H]`."""
  n, h = reach.shape
  pieces = -(-n // _MOST_NODES)
  if pieces > 1:
    cuts = [n * i // pieces for i in range(1, pieces)]
    return jnp.concatenate([_board_values(showdowns, x) for x in jnp.split(reach, cuts)])
  cards = num_live_cards(h)
  length, blocks = _blocks(h)
  # Nodes last: a hand's numbers at all nodes are moved and added up together.
  columns = _settle(reach.T)
  below = _sums_below(_rows(columns, showdowns.order).reshape(length, -1), centred=False)
  before = _sums_below(below[-1].reshape(blocks, -1), centred=True)[:-1]
  below = (below.reshape(length + 1, blocks, -1) + before).reshape(-1, n)
  of_card = _rows(columns, showdowns.card_order).reshape(cards - 1, -1)
  below_of_card = _sums_below(of_card, centred=True).reshape(-1, n)
  values = _sum_of_rows(below, showdowns.bounds)
  values = values - _sum_of_rows(below_of_card, showdowns.card_bounds)
  return _settle(values).T


def _settle(rows: jax.Array) -> jax.Array:
  """Returns `rows` `[x, n]`, computed once and in this order.

  Multiplying by one does it. XLA would move a transpose into each gather next to it, or a gather
  into a transpose, and read memory in the wrong order; an optimization barrier does not hold it.
  """
  return _product("xn,nm->xm", rows, jnp.eye(rows.shape[1], dtype=rows.dtype))


def _product(axes: str, x: jax.Array, y: jax.Array) -> jax.Array:
  return jnp.einsum(axes, x, y, precision=lax.Precision.HIGHEST)


def _rows(array: jax.Array, places: jax.Array) -> jax.Array:
  return array.at[places].get(mode="promise_in_bounds")


def _sum_of_rows(array: jax.Array, places: jax.Array) -> jax.Array:
  return functools.reduce(operator.add, (_rows(array, own) for own in places))


def _sums_below(rows: jax.Array, *, centred: bool) -> jax.Array:
  """Sums the rows above each row of `[m, x]`, and all: `[m + 1, x]`; centred, less half of all.

  Two centred sums at the ends of a tie add up to what is weaker less what is stronger.
  """
  # A triangular product: several times cheaper on a CPU than XLA's cumulative sum.
  triangle = np.tril(np.ones((len(rows) + 1, len(rows))), -1) - (0.5 if centred else 0.0)
  return _product("ij,jx->ix", jnp.asarray(triangle, rows.dtype), rows)
