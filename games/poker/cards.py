"""Cards: decks of any ranks and suits, boards, and pairs of hole cards."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable

import numpy as np

from games.arguments import check_integer, checked, short

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

  def parse(self, text: str, *, field: str = "cards") -> tuple[int, ...]:
    """Reads cards such as `3s7hTdKs` or `3♠ 7♥ T♦ K♠`.

    Raises:
      ValueError: a card is not in the deck or is named twice; `field` names it.
    """
    if not isinstance(text, str):
      raise ValueError(f"{field}={short(text)} must be a string of cards: {self.names(range(2))!r}")
    plain = text.translate(_SYMBOLS).replace("10", "T").replace(" ", "").replace(",", "")
    known = {self.name(card): card for card in range(self.num_cards)}
    cards = []
    for start in range(0, len(plain), 2):
      name = plain[start : start + 2]
      name = name[:1].upper() + name[1:].lower()
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
