"""Strengths of poker hands: the best five of up to seven cards, for numpy and for JAX.

A hand is held as one mask of ranks for each suit, so that straights, flushes and groups of equal
ranks are bit operations on whole arrays, and kickers compare as masks do.
"""

from typing import Any

import numpy as np

from games.poker.cards import RANKS, Deck

HIGH_CARD, PAIR, TWO_PAIR, THREE, STRAIGHT, FLUSH, FULL_HOUSE, FOUR, STRAIGHT_FLUSH = range(9)
CATEGORIES = (
  "high card", "pair", "two pair", "three of a kind", "straight", "flush", "full house",
  "four of a kind", "straight flush",
)  # fmt: skip
_NUM_RANKS = len(RANKS)
_BITS = 1 << _NUM_RANKS
HAND_SIZE = 5
MAX_CARDS = 7


def _keep_highest() -> np.ndarray:
  """Returns the k highest ranks of each mask of ranks: `[6, 8192]`."""
  tables = [np.zeros(_BITS, np.int32)]
  masks = np.arange(_BITS, dtype=np.int32)
  for _ in range(HAND_SIZE):
    rest = masks & ~tables[-1]
    highest = np.where(rest > 0, 1 << np.floor(np.log2(np.maximum(rest, 1))).astype(np.int32), 0)
    tables.append(tables[-1] | highest.astype(np.int32))
  return np.stack(tables)


def _straights() -> np.ndarray:
  """Returns for each mask of ranks the bit of its best straight's highest card, or 0: `[8192]`."""
  masks = np.arange(_BITS)
  best = np.zeros(_BITS, np.int32)
  wheel = (1 << (_NUM_RANKS - 1)) | 0b1111  # the ace plays low in 5-4-3-2-A
  for shape, high in [(wheel, 3), *((0b11111 << low, low + 4) for low in range(_NUM_RANKS - 4))]:
    best[(masks & shape) == shape] = 1 << high
  return best


_HIGHEST = _keep_highest()
_STRAIGHT = _straights()
_COUNT = np.array([mask.bit_count() for mask in range(_BITS)], np.int32)


def strengths(suit_masks: Any) -> Any:
  """Computes hand strengths; higher wins, equal splits.

  Straights run over consecutive ranks, the ace also below the deuce. The categories rank as in
  hold'em, whatever the deck. With fewer than five cards there are no straights and flushes, and
  kickers are the cards there are.

  Args:
    suit_masks: `[..., suits]` integers, bit r set if the hand holds rank r of the suit (0 for a
      deuce, 12 for an ace), at most seven cards; numpy or JAX.

  Returns:
    `[...]` int32: the category (see `CATEGORIES`) in bits 26 to 29, then two masks of ranks.
  """
  xp: Any = suit_masks.__array_namespace__()
  highest, straight, count = (xp.asarray(t) for t in (_HIGHEST, _STRAIGHT, _COUNT))
  one = two = three = four = xp.zeros(suit_masks.shape[:-1], np.int32)
  flush = straight_flush = one
  for s in range(suit_masks.shape[-1]):
    ranks = suit_masks[..., s].astype(np.int32)
    four, three, two, one = (
      four | three & ranks,
      three | two & ranks,
      two | one & ranks,
      one | ranks,
    )
    flush = xp.where(count[ranks] >= HAND_SIZE, highest[HAND_SIZE][ranks], flush)
    straight_flush = xp.maximum(straight_flush, straight[ranks])

  def rank(category, first, second):
    return (category << 2 * _NUM_RANKS) | (first << _NUM_RANKS) | second

  best_four, best_three, pairs = highest[1][four], highest[1][three], highest[2][two]
  full_of = highest[1][two & ~best_three]
  few = count[pairs]
  result = rank(HIGH_CARD, 0 * one, highest[HAND_SIZE][one])
  for condition, value in (
    (few == 1, rank(PAIR, pairs, highest[3][one & ~pairs])),
    (few == 2, rank(TWO_PAIR, pairs, highest[1][one & ~pairs])),
    (three > 0, rank(THREE, best_three, highest[2][one & ~best_three])),
    (straight[one] > 0, rank(STRAIGHT, straight[one], 0)),
    (flush > 0, rank(FLUSH, flush, 0)),
    ((three > 0) & (full_of > 0), rank(FULL_HOUSE, best_three, full_of)),
    (four > 0, rank(FOUR, best_four, highest[1][one & ~best_four])),
    (straight_flush > 0, rank(STRAIGHT_FLUSH, straight_flush, 0)),
  ):
    result = xp.where(condition, value, result)
  return result


def suit_masks(deck: Deck, cards: Any) -> Any:
  """Returns the masks that `strengths` takes, of hands: `[..., k]` cards to `[..., suits]`.

  A card that is there twice counts once.

  Raises:
    ValueError: there are more than seven cards.
  """
  if cards.shape[-1] > MAX_CARDS:
    raise ValueError(f"cards={cards.shape[-1]} a hand are too many; at most {MAX_CARDS}")
  xp: Any = cards.__array_namespace__()
  bit = xp.asarray(1 << deck.rank_of)[cards]
  suit = xp.asarray(deck.suit_of)[cards]
  of_suit = xp.where(suit[..., None] == xp.arange(len(deck.suits)), bit[..., None], 0)
  masks = of_suit[..., 0, :]
  for k in range(1, cards.shape[-1]):  # not a sum: a card that comes twice counts once
    masks = masks | of_suit[..., k, :]
  return masks.astype(np.int32)


def evaluate(deck: Deck, cards: Any) -> Any:
  """Returns the strengths of hands of up to seven different cards: `[..., k]` to `[...]`."""
  return strengths(suit_masks(deck, cards))


def strengths_on(deck: Deck, hands: Any, board: Any) -> Any:
  """Returns how strong `hands` `[H, 2]` are on a `board` `[k]`: `[H]`, -1 for those it blocks."""
  xp: Any = board.__array_namespace__()
  blocked = (hands[:, :, None] == board).any(axis=(1, 2))
  masks = suit_masks(deck, hands)  # the same on all boards
  if len(board):
    masks = masks | suit_masks(deck, board[None])
  return xp.where(blocked, -1, strengths(masks))


def category_name(strength: int) -> str:
  """Returns what kind of hand a strength is, such as `two pair`."""
  return CATEGORIES[int(strength) >> 2 * _NUM_RANKS]
