"""Names of hole cards on a board: made hands and draws."""

from collections.abc import Sequence

import numpy as np

from games.arrays import checked
from games.poker.cards import (
  HAND_SIZE,
  RANKS,
  Deck,
  category,
  makes_straight,
  strengths_on,
  suit_masks,
)

NO_DRAW = "no draw"
_PAIRS = ("top pair", "second pair", "low pair")


@checked
def made_hands(deck: Deck, hole_cards: np.ndarray, board: Sequence[int]) -> list[str]:
  """Returns the made hand of each of `hole_cards` `[H, 2]` on a board, such as `top pair`.

  A pair is named by its place among the board's cards; one that lies on the board counts as none.
  """
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
  """Returns the draws of each of `hole_cards` `[H, 2]` on a board, such as `flush draw`.

  A flush draw has four cards of a suit, an open-ended straight draw two ranks that make a straight
  (a double gutshot too), a gutshot one. The board's own draws are nobody's.
  """
  if not len(board) < HAND_SIZE:
    return [NO_DRAW] * len(hole_cards)
  own = suit_masks(deck, hole_cards)
  shown = suit_masks(deck, np.asarray(board))
  flush = ((np.bitwise_count(own | shown) == HAND_SIZE - 1) & (own > 0)).any(axis=1)
  of_board = np.bitwise_or.reduce(shown)
  ranks = np.bitwise_or.reduce(own, axis=1) | of_board
  more = 1 << np.unique(deck.rank_of)
  straight = makes_straight(ranks[:, None] | more) & ~makes_straight(of_board | more)
  outs = np.where(makes_straight(ranks), 0, straight.sum(axis=1))
  names = np.array(["", "gutshot", "open-ended"])[np.minimum(outs, 2)]
  both = [[x for x in ("flush draw" * y, z) if x] for y, z in zip(flush.tolist(), names.tolist())]
  return [" and ".join(parts) or NO_DRAW for parts in both]
