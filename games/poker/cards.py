"""Cards: decks of any ranks and suits, pairs of hole cards, how strong hands are, and their names.

A strength is of the best five of up to seven cards, for numpy and for JAX. A hand is held as one
mask of ranks for each suit, so that straights, flushes and groups of equal ranks are bit operations
on whole arrays, and kickers compare as masks do.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from games.arrays import Rows, check_integer, checked, integers, one_hot, short, xp

RANKS = "23456789TJQKA"
SUITS = "shdc"
NUM_HOLE_CARDS = 2
_SYMBOLS = str.maketrans("♠♥♦♣", "shdc")


@dataclasses.dataclass(frozen=True)
class Deck:
  """A deck: every chosen rank in every chosen suit.

  Cards are numbered rank by rank, lowest first, suits within a rank in the order given: in the
  whole deck 0 is 2s, 1 is 2h and 51 is Ac.

  Attributes:
    ranks: two or more of `23456789TJQKA`, in that order.
    suits: one or more of `shdc`.

  Raises:
    ValueError: a rank or suit is unknown, repeated, or out of order.
  """

  ranks: str = RANKS
  suits: str = SUITS

  def __post_init__(self):
    for name, value, known, least in (
      ("ranks", self.ranks, RANKS, 2),
      ("suits", self.suits, SUITS, 1),
    ):
      places = [known.find(x) for x in value] if isinstance(value, str) else [-1]
      ordered = name == "suits" or places == sorted(places)
      if min(places, default=-1) < 0 or len(set(places)) < max(len(places), least) or not ordered:
        order = ", lowest first" if name == "ranks" else ""
        raise ValueError(
          f"{name}={short(value)} must be {least} or more different letters of {known!r}{order}"
        )

  @property
  def num_cards(self) -> int:
    return len(self.ranks) * len(self.suits)

  @functools.cached_property
  def rank_of(self) -> np.ndarray:
    """`[num_cards]` rank of each card, 0 for a deuce to 12 for an ace, in every deck."""
    ranks = [RANKS.index(r) for r in self.ranks]
    return np.repeat(ranks, len(self.suits))

  @functools.cached_property
  def suit_of(self) -> np.ndarray:
    """`[num_cards]` suit of each card, by its place in `suits`."""
    return np.tile(np.arange(len(self.suits)), len(self.ranks))

  @functools.cached_property
  def renamings(self) -> np.ndarray:
    """`[suits!, num_cards]` the card that each becomes if suits are renamed, the identity first."""
    orders = np.array(list(itertools.permutations(range(len(self.suits)))))
    return np.arange(self.num_cards) - self.suit_of + orders[:, self.suit_of]

  def name(self, card: int) -> str:
    """Returns a card's name, such as `Ks`.

    Raises:
      ValueError: the deck has no card of that number.
    """
    check_integer("card", card, least=0, most=self.num_cards - 1)
    return RANKS[self.rank_of[card]] + self.suits[self.suit_of[card]]

  @checked
  def names(self, cards: Iterable[int]) -> str:
    """Returns the names of several cards, such as `3s7hTdKs`."""
    return "".join(self.name(card) for card in cards)

  @checked
  def parse(self, text: str, *, field: str = "cards") -> tuple[int, ...]:
    """Reads cards such as `3s7hTdKs` or `3♠ 7♥ T♦ K♠`.

    Raises:
      ValueError: a card is not in the deck or is named twice; `field` names it.
    """
    plain = text.translate(_SYMBOLS).replace("10", "T").replace(" ", "").replace(",", "")
    known = {self.name(card): card for card in range(self.num_cards)}
    cards = []
    for start in range(0, len(plain), 2):
      name = plain[start].upper() + plain[start + 1 : start + 2].lower()
      if name not in known:
        raise ValueError(
          f"{field}={short(text)} names {name!r}, which is not in the deck of ranks "
          f"{self.ranks!r} and suits {self.suits!r}"
        )
      if known[name] in cards:
        raise ValueError(f"{field}={short(text)} names {name!r} twice; a deck holds each card once")
      cards.append(known[name])
    return tuple(cards)

  @checked
  def hole_cards(self, dead: Iterable[int] | str = ()) -> np.ndarray:
    """Returns all pairs of cards without those of `dead`: `[H, 2]`, lower card first, in order.

    In the whole deck these are 1,326 pairs: 2s2h, 2s2d, 2s2c, 2s3s, ..., AdAc.

    Raises:
      ValueError: the deck lacks a card of `dead`, numbers or names such as `AhKd`.
    """
    dead = set(self.parse(dead if isinstance(dead, str) else self.names(dead), field="dead"))
    live = [card for card in range(self.num_cards) if card not in dead]
    return np.array(list(itertools.combinations(live, NUM_HOLE_CARDS)), np.int32).reshape(-1, 2)

  @checked
  def hand_name(self, hand: Iterable[int]) -> str:
    """Returns the name of a pair of hole cards, higher card first, such as `AsKd`."""
    return self.names(sorted(hand, reverse=True))


def shares_card(hands: np.ndarray, others: np.ndarray) -> np.ndarray:
  """Says which pairs of hands share a card: `[n, 2]` and `[m, k]` to `[n, m]`."""
  return (hands[:, None, :, None] == others[None, :, None, :]).any(axis=(2, 3))


HIGH_CARD, PAIR, TWO_PAIR, THREE, STRAIGHT, FLUSH, FULL_HOUSE, FOUR, STRAIGHT_FLUSH = range(9)
_CATEGORIES = (
  "high card", "a pair", "two pair", "three of a kind", "a straight", "a flush", "a full house",
  "four of a kind", "a straight flush",
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
_TOP = np.array([max(mask.bit_length() - 1, 0) for mask in range(_BITS)], np.int32)
# A strength is a group's place among those of all categories, then the kickers' among all kickers.
_PLACE = np.where(_COUNT > HAND_SIZE, 0, np.cumsum(_COUNT <= HAND_SIZE) - 1).astype(np.int32)
_KICKERS = _PLACE[_HIGHEST]  # [6, 8192]: of the k highest ranks
_NUM_KICKERS = int(_PLACE.max()) + 1
_NUM_TWO_PAIRS = int((_COUNT == 2).sum())
_NUM_GROUPS = (1, _NUM_RANKS, _NUM_TWO_PAIRS, *[_NUM_RANKS] * 2, 1, *[_NUM_RANKS] * 3)
_GROUPS_BELOW = np.cumsum((0, *_NUM_GROUPS))


def _strength(category: int, group: Any, kickers: Any = 0) -> Any:
  return (int(_GROUPS_BELOW[category]) + group) * _NUM_KICKERS + kickers


def _of_masks() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns the strengths of ranks, of a suit's ranks, and of the pairs of two ranks: `[8192]`."""
  high, straight = _STRAIGHT > 0, _TOP[_STRAIGHT]
  ranks = np.where(high, _strength(STRAIGHT, straight), _strength(HIGH_CARD, 0, _KICKERS[5]))
  flush = np.where(_COUNT >= HAND_SIZE, _strength(FLUSH, 0, _KICKERS[5]), 0)
  flush = np.where(high, _strength(STRAIGHT_FLUSH, straight), flush)
  two_pairs = _strength(TWO_PAIR, np.cumsum(_COUNT == 2) - 1)
  pairs = np.where(_COUNT == 2, two_pairs, np.where(_COUNT == 1, _strength(PAIR, _TOP), 0))
  return ranks.astype(np.int32), flush.astype(np.int32), pairs.astype(np.int32)


_OF_RANKS, _OF_SUIT, _OF_PAIRS = _of_masks()


@checked
def strengths(suit_masks: Rows) -> Any:
  """Returns hand strengths `[...]`, int32 below 2**19; higher wins, equal splits.

  Straights run over consecutive ranks, the ace also below the deuce. The categories rank as in
  hold'em, whatever the deck. With fewer than five cards there are no straights and flushes, and
  kickers are the cards there are.

  Args:
    suit_masks: `[..., suits]` integers, bit r set if the hand holds rank r of the suit (0 for a
      deuce, 12 for an ace), at most seven cards; numpy or JAX.
  """
  suit_masks = integers("suit_masks", suit_masks, 0, _BITS - 1)
  own: Any = suit_masks.__array_namespace__()
  one = two = three = four = best = own.zeros(suit_masks.shape[:-1], np.int32)
  of_suit, top, kickers = (own.asarray(t) for t in (_OF_SUIT, _TOP, _KICKERS))
  for s in range(suit_masks.shape[-1]):
    ranks = suit_masks[..., s].astype(np.int32)
    four, three, two, one = (
      four | three & ranks,
      three | two & ranks,
      two | one & ranks,
      one | ranks,
    )
    best = xp.maximum(best, of_suit[ranks])
  # Of all that a hand may be called, the strongest counts.
  best = xp.maximum(best, own.asarray(_OF_RANKS)[one])
  pairs = own.asarray(_HIGHEST[2])[two]
  beside = kickers[xp.where(pairs & pairs - 1, 1, 3), one & ~pairs]
  of_three, of_four = top[three], top[four]
  others, full_of = one & ~(1 << of_three), two & ~(1 << of_three)
  for there, strength in (
    (two > 0, own.asarray(_OF_PAIRS)[pairs] + beside),
    (three > 0, _strength(THREE, of_three, kickers[2][others])),
    ((three > 0) & (full_of > 0), _strength(FULL_HOUSE, of_three, kickers[1][full_of])),
    (four > 0, _strength(FOUR, of_four, kickers[1][one & ~(1 << of_four)])),
  ):
    best = xp.maximum(best, xp.where(there, strength, 0))
  return best


@checked
def suit_masks(deck: Deck, cards: Rows) -> Any:
  """Returns the masks that `strengths` takes, of cards: `[..., k]` to `[..., suits]`."""
  cards = integers("cards", cards, 0, deck.num_cards - 1)
  if not 1 <= cards.shape[-1] <= MAX_CARDS:
    raise ValueError(f"cards={cards.shape[-1]} a hand must be from 1 to {MAX_CARDS}")
  own: Any = cards.__array_namespace__()
  bit, suit = (own.asarray(x)[cards] for x in (1 << deck.rank_of, deck.suit_of))
  of_suit = xp.where(one_hot(suit, len(deck.suits)), bit[..., None], 0)
  masks = of_suit[..., 0, :]
  for k in range(1, cards.shape[-1]):  # not a sum: a card that comes twice counts once
    masks = masks | of_suit[..., k, :]
  return masks.astype(np.int32)


@checked
def evaluate(deck: Deck, cards: Rows) -> Any:
  """Returns the strengths of hands of up to seven different cards: `[..., k]` to `[...]`.

  Raises:
    ValueError: as `suit_masks`, or a hand holds a card twice.
  """
  if not isinstance(cards, jax.core.Tracer) and not np.diff(np.sort(np.asarray(cards))).all():
    raise ValueError(f"cards={short(cards)} hold a card twice; those of a hand must differ")
  return strengths(suit_masks(deck, cards))


def category(strength: int) -> str:
  """Returns the name of the category of a hand's strength, such as `two pair`."""
  place = np.searchsorted(_GROUPS_BELOW, strength // _NUM_KICKERS, side="right") - 1
  return _CATEGORIES[int(place)]


@checked
def strengths_on(deck: Deck, hands: Rows, board: Rows) -> Any:
  """Returns how strong `hands` `[H, 2]` are on a `board` `[k]`: `[H]`, -1 for those it blocks."""
  hands, board = (
    integers(name, cards, 0, deck.num_cards - 1, ndim=ndim)
    for name, cards, ndim in (("hands", hands, 2), ("board", board, 1))
  )
  blocked = (hands[:, :, None] == board.astype(hands.dtype)[None, None]).any(axis=(1, 2))
  masks = suit_masks(deck, hands)  # the same on all boards
  if len(board):
    masks = masks | suit_masks(deck, board[None])
  return xp.where(blocked, -1, strengths(masks))


NO_DRAW = "no draw"
_PAIRS = ("top pair", "second pair", "low pair")


@checked
def made_hands(deck: Deck, hole_cards: np.ndarray, board: Sequence[int]) -> list[str]:
  """Returns the made hand of each of `hole_cards` `[H, 2]` on a board, such as `top pair`."""
  # A pair is named by its place among the board's cards; one that lies on the board counts as none.
  found = []
  shown = np.unique(deck.rank_of[list(board)])[::-1]
  strengths = strengths_on(deck, hole_cards, np.asarray(board))
  for ranks, strength in zip(deck.rank_of[hole_cards].tolist(), strengths.tolist()):
    name = "" if strength < 0 else category(strength)
    above = int((shown > ranks[0]).sum())
    places = [int(np.flatnonzero(shown == rank)[0]) for rank in ranks if rank in shown]
    if name == "three of a kind" and (ranks[0] == ranks[1] or places):
      name = "a set" if ranks[0] == ranks[1] else "trips"
    elif name == "a pair" and ranks[0] == ranks[1]:
      name = "overpair" if not above else f"pocket pair below {above} card{'s' * (above > 1)}"
    elif name == "a pair" and places:
      name = _PAIRS[min(places[0], 2)]
    elif name in ("a pair", "high card", "three of a kind"):
      name = f"{RANKS[max(ranks)]} high"
    found.append(name)
  return found


@checked
def draws(deck: Deck, hole_cards: np.ndarray, board: Sequence[int]) -> list[str]:
  """Returns the draws of each of `hole_cards` `[H, 2]` on a board, such as `flush draw`."""
  # A flush draw has four cards of a suit, an open-ended straight draw two ranks that make a
  # straight (a double gutshot too), a gutshot one. The board's own draws are nobody's.
  if not len(board) < HAND_SIZE:
    return [NO_DRAW] * len(hole_cards)
  own = suit_masks(deck, hole_cards)
  shown = suit_masks(deck, np.asarray(board))
  flush = ((np.bitwise_count(own | shown) == HAND_SIZE - 1) & (own > 0)).any(axis=1)
  of_board = np.bitwise_or.reduce(shown)
  ranks = np.bitwise_or.reduce(own, axis=1) | of_board
  more = 1 << np.unique(deck.rank_of)
  makes = _STRAIGHT > 0
  straight = makes[ranks[:, None] | more] & ~makes[of_board | more]
  outs = np.where(makes[ranks], 0, straight.sum(axis=1))
  names = np.array(["", "gutshot", "open-ended"])[np.minimum(outs, 2)]
  both = [[x for x in ("flush draw" * y, z) if x] for y, z in zip(flush.tolist(), names.tolist())]
  return [" and ".join(parts) or NO_DRAW for parts in both]
