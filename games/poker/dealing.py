"""Which cards lie on the board at the start, and which may be dealt later."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import numpy as np

from games.arrays import Rows, lookup
from games.poker.cards import NUM_HOLE_CARDS, Deck
from games.poker.hands import MAX_CARDS

NO_CARD = -1
_MAX_BOARDS = 100_000


@dataclasses.dataclass(frozen=True)
class Dealing:
  """Cards dealt face up: some at the start, then sets of them, each after a round of betting.

  A deal is numbered among all sets of as many cards of the deck. `rounds` `[n]` below says how many
  deals were before.

  Attributes:
    deck: the cards there are.
    board: cards that lie at the start.
    deals: how many cards each deal has.

  Raises:
    ValueError: a card is not in the deck or there twice, or there are too few or too many.
  """

  deck: Deck
  board: tuple[int, ...]
  deals: tuple[int, ...]

  def __post_init__(self):
    deck, board, deals, number = self.deck, self.board, self.deals, self.deck.num_cards
    if len(set(board)) < len(board):
      raise ValueError(f"board={deck.names(board)!r} holds a card twice; cards must differ")
    if any(not 0 <= card < number for card in board):
      raise ValueError(f"board={board} holds a card outside the deck's 0 to {number - 1}")
    if any(k < 1 for k in deals):
      raise ValueError(f"deals={deals} must be positive numbers of cards")
    shown = len(board) + sum(deals)
    if NUM_HOLE_CARDS + shown > MAX_CARDS:
      raise ValueError(
        f"board of {len(board)} cards with deals={deals} gives {shown} cards on the "
        f"board; at most {MAX_CARDS - NUM_HOLE_CARDS} are compared"
      )
    if number < shown + 2 * NUM_HOLE_CARDS:
      raise ValueError(
        f"a deck of {number} cards is too small for {shown} on the board and two hands; "
        f"{shown + 2 * NUM_HOLE_CARDS} are needed"
      )

  @property
  def num_deals(self) -> int:
    """The largest number of sets that a deal is one of."""
    return max((len(sets) for sets in self.sets), default=0)

  @functools.cached_property
  def sets(self) -> list[np.ndarray]:
    """For each deal all sets of cards `[number of sets, cards]`, those on the board too."""
    cards = range(self.deck.num_cards)
    return [np.array(list(itertools.combinations(cards, k))) for k in self.deals]

  @functools.cached_property
  def final(self) -> np.ndarray:
    """`[K, cards]` all cards that can have been dealt in the end, in order.

    Raises:
      ValueError: they are too many to be listed.
    """
    live = [card for card in range(self.deck.num_cards) if card not in self.board]
    total = sum(self.deals)
    if math.comb(len(live), total) > _MAX_BOARDS:
      raise ValueError(
        f"deals={self.deals} from {len(live)} cards make more than {_MAX_BOARDS} boards, too many "
        "for a tree of the whole game; start from a later round or use a smaller deck"
      )
    sets = list(itertools.combinations(live, total))
    return np.array(sets, int).reshape(len(sets), total)

  def shown(self, cards: Rows) -> Rows:
    """Returns which cards are among those on the board, `cards` `[n, k]`: `[n, deck's cards]`."""
    xp: Any = cards.__array_namespace__()
    return (cards[:, :, None] == xp.arange(self.deck.num_cards)).any(axis=1)

  def left(self, rounds: Rows, cards: Rows) -> Rows:
    """Returns which deals `cards` `[n, k]` on the board leave: `[n, num_deals]`."""
    xp: Any = rounds.__array_namespace__()
    shown = self.shown(cards)
    left = xp.zeros((len(shown), self.num_deals), bool)
    for index, sets in enumerate(self.sets):
      free = (rounds == index)[:, None]
      for cards in sets.T:
        free = free & ~shown[:, cards]
      left = left | xp.pad(free, ((0, 0), (0, self.num_deals - len(sets))))
    return left

  def cards(self, rounds: Rows, numbers: Rows) -> Rows:
    """Returns the cards of deals `numbers` `[n]`, -1 where one is of fewer: `[n, k]`."""
    xp: Any = rounds.__array_namespace__()
    most_deals, most_sets, _ = self._padded.shape
    last = xp.minimum(rounds, most_deals - 1)
    return lookup(self._padded, last, xp.clip(numbers, 0, most_sets - 1))

  @functools.cached_property
  def _padded(self) -> np.ndarray:
    """`sets` in one array, -1 where there is no card."""
    shape = max(len(self.deals), 1), max(self.num_deals, 1), max(self.deals, default=1)
    table = np.full(shape, NO_CARD)
    for rows, sets in zip(table, self.sets):
      rows[: len(sets), : sets.shape[1]] = sets
    return table

  def probability(self, rounds: Rows) -> Rows:
    """Returns the probability of a deal that neither player's hand blocks: `[n]`."""
    left = self.deck.num_cards - len(self.board) - 2 * NUM_HOLE_CARDS
    before = np.cumsum([0, *self.deals]).tolist()
    sets = [math.comb(left - gone, k) for gone, k in zip(before, [*self.deals, 0])]
    return lookup(1 / np.array(sets), rounds)

  def final_index(self, dealt: Rows) -> Rows:
    """Returns which of `final` the cards `dealt` `[n, k]` are, in any order: `[n]`."""
    xp: Any = dealt.__array_namespace__()
    base = self.deck.num_cards ** np.arange(self.final.shape[1])[::-1]
    number = (xp.sort(dealt, axis=1) * xp.asarray(base)).sum(axis=1)
    return xp.searchsorted(xp.asarray(self.final @ base), number)
