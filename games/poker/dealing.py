"""Which cards may lie on the board, at the start and later."""

import math
from collections.abc import Sequence

from games.poker.cards import NUM_HOLE_CARDS, Deck
from games.poker.hands import MAX_CARDS

_MAX_BOARDS = 100_000


def check_cards(deck: Deck, board: Sequence[int], deals: Sequence[int]) -> None:
  """Checks that `board` and cards dealt in numbers `deals` can come from `deck`.

  Raises:
    ValueError: a card is not in the deck or there twice, there are too few or too many, or too
      many boards that could come of it.
  """
  number = deck.num_cards
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
  live = number - len(board)
  if math.comb(live, sum(deals)) > _MAX_BOARDS:
    raise ValueError(
      f"deals={deals} from {live} cards make more than {_MAX_BOARDS} boards; start from a "
      "later round or use a smaller deck"
    )
