"""Suits that may change places: permutations that leave the board and both ranges as they are."""

import itertools
import math

import numpy as np

from games.poker.holdem import Holdem
from games.poker.suit_symmetry import card_groups

_TOLERANCE = 1e-9  # of a belief
_RIVER = 5


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


def alike_on_river(game: Holdem, beliefs: np.ndarray) -> np.ndarray | None:
  """Returns the first hand of those that are alike on a river, `[H]`, or None.

  None where a range tells them apart.

  Cards of one rank in suits that make no flush are alike. Merging hands of such cards loses nothing
  where both players are as likely to hold each of them (`games.poker.MergedSuits`).

  Args:
    game: hold'em with five cards on the board.
    beliefs: `[P, H]`.
  """
  if len(game.board) != _RIVER or game.parameters()["added_bets"]:
    return None
  number, every = game.deck.num_cards, game.deck.hole_cards(game.board)
  group = card_groups(game)
  table = np.zeros((2, number, number))
  table[:, game.hole_cards[:, 0], game.hole_cards[:, 1]] = beliefs
  _, of_every = np.unique(np.sort(group[every], axis=1), axis=0, return_inverse=True)
  of_every, held = of_every.reshape(-1), table[:, every[:, 0], every[:, 1]]
  sizes = np.bincount(of_every)
  means = np.stack([np.bincount(of_every, row) / sizes for row in held])[:, of_every]
  if not np.allclose(held, means, rtol=_TOLERANCE, atol=0):
    return None
  pairs = np.sort(group[game.hole_cards], axis=1)
  _, first, of = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
  return first[of.reshape(-1)]


def say_permutations(game: Holdem, permutations: np.ndarray) -> str:
  """Returns one sentence that says which suits may change places."""
  deck = game.deck
  suits = deck.suit_of[permutations[:, : len(deck.suits)]]  # of the lowest rank's cards
  alike = {tuple(np.unique(column).tolist()) for column in suits.T}
  groups = sorted(group for group in alike if len(group) > 1)
  if not groups:
    return "No suits are alike: the board or a range tells them apart."
  free = math.prod(math.factorial(len(group)) for group in groups)
  named = ["".join(deck.suits[suit] for suit in group) for group in groups]
  said = ", and ".join(", ".join(name[:-1]) + " and " + name[-1] for name in named)
  how = "may change places" if free == len(permutations) else "may change places together"
  return f"Suits {said} {how}: of hands and cards that they take to each other there is one."
