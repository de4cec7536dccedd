"""Suits that may change places: permutations that leave the board and both ranges as they are."""

import itertools

import numpy as np

from games.poker.holdem import Holdem

_TOLERANCE = 1e-9  # of a belief


def suit_permutations(game: Holdem, beliefs: np.ndarray) -> np.ndarray:
  """Returns all permutations of suits under which nothing of a spot changes.

  Such a permutation takes the board to itself, cards in any order, and every hand to one that the
  same player is as likely to hold. They form a group, and the game looks the same after each.

  Args:
    game: hold'em.
    beliefs: `[P, H]` at the start.

  Returns:
    `[G, num_cards]` the card that each card becomes, the identity first. The identity alone where
    `with_bet` added a bet.
  """
  deck = game.deck
  number = len(deck.suits)
  table = np.zeros((2, deck.num_cards, deck.num_cards))
  low, high = game.hole_cards.T
  table[:, low, high] = table[:, high, low] = beliefs
  board = np.isin(np.arange(deck.num_cards), game.board)
  rank, suit = np.divmod(np.arange(deck.num_cards), number)
  found = []
  for order in itertools.permutations(range(number)):
    cards = rank * number + np.array(order)[suit]
    moved = table[:, cards[:, None], cards]
    if (board[cards] == board).all() and np.allclose(moved, table, rtol=_TOLERANCE, atol=0):
      found.append(cards)
  return np.array(found[:1] if game.parameters()["added_bets"] else found)


def say_permutations(game: Holdem, permutations: np.ndarray) -> str:
  """Returns one sentence about which suits may change places."""
  if len(permutations) == 1:
    return "no suits are alike: the board or a range tells all of them apart"
  deck = game.deck
  suits = deck.suit_of[permutations[:, : len(deck.suits)]]
  alike = {"".join(deck.suits[i] for i in np.unique(column)) for column in suits.T}
  groups = sorted((group for group in alike if len(group) > 1), key=deck.suits.index)
  most = 1
  for group in groups:
    most *= int(np.prod(np.arange(1, len(group) + 1)))
  how = "" if len(permutations) == most else " together"
  named = " and ".join(" with ".join(group) for group in groups)
  return f"suits {named} change places{how}, so hands and cards that these take to each other are one"
