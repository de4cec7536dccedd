"""Boards of each round of betting, one of each class of renamed suits, and the hands on them.

Suits may change places by permutations that leave the board and both ranges as they are.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from games.poker.cards import HAND_SIZE, Deck, shares_card
from games.poker.dealing import place_among
from games.poker.holdem import Holdem

NONE = -1


class Boards(NamedTuple):
  """The boards of a round of betting that stand for all."""

  cards: np.ndarray  # [B, k] what was dealt since the start
  # for each board the permutations [S] that leave it as it is, by number
  keep: tuple[np.ndarray, ...]
  # [B, num_cards] the board of the next round after a card, or one that stands for it
  child: np.ndarray
  # [B, num_cards] the permutation that takes that board to the one that stands for it
  by: np.ndarray

  @property
  def groups(self) -> tuple[tuple[int, int], ...]:
    """The boards `(start, stop)` that the same permutations leave alone."""
    keys = [own.tolist() for own in self.keep]
    cuts = [0, *(i for i in range(1, len(keys)) if keys[i] != keys[i - 1]), len(keys)]
    return tuple(itertools.pairwise(cuts))


def enumerate_boards(game: Holdem, alike: "Alike") -> list[Boards]:
  """Returns the boards of each round of betting, by the permutations that leave them alone."""
  # Of the cards that permutations take to each other, those that leave the board before as it is,
  # the lowest is dealt. Boards that the same permutations leave alone follow each other, most
  # first.
  number, permutations = game.deck.num_cards, alike.permutations
  cards, keep = np.zeros((1, 0), int), [np.arange(len(permutations))]
  rounds = []
  for _ in game.deals:
    made = []  # board, card, permutations that stay
    child, by = np.full((2, len(cards), number), NONE)
    for b, (dealt, own) in enumerate(zip(cards, keep)):
      images = permutations[own]  # [S, cards]
      lowest, which = images.min(axis=0), own[images.argmin(axis=0)]
      shown = np.isin(np.arange(number), [*game.board, *dealt])
      for card in np.flatnonzero((lowest == np.arange(number)) & ~shown):
        made.append((b, card, own[images[:, card] == card]))
      child[b], by[b] = np.where(shown, NONE, lowest), np.where(shown, NONE, which)
    made.sort(key=lambda x: (-len(x[2]), x[2].tolist()))
    numbers = np.full((len(cards), number), NONE)
    for i, (b, card, _) in enumerate(made):
      numbers[b, card] = i
    child = np.where(child == NONE, NONE, np.take_along_axis(numbers, np.maximum(child, 0), axis=1))
    rounds.append(Boards(cards, tuple(keep), child, by))
    cards = np.array([[*cards[b], card] for b, card, _ in made])
    keep = [own for _, _, own in made]
  nothing = np.full((len(cards), number), NONE)
  rounds.append(Boards(cards, tuple(keep), nothing, nothing))
  if alike.hands is not None:  # the same hands are alike on all boards
    rounds = [own._replace(keep=(keep[0][:0],) * len(own.cards)) for own in rounds]
  return rounds


def moved_hands(game: Holdem, permutations: np.ndarray) -> np.ndarray:
  """Returns the hand that each hand becomes, by number: `[G, H]`; -1 for one that is not there."""
  hands = np.sort(permutations[:, game.hole_cards], axis=2)
  places = place_among(game.hole_cards, hands.reshape(-1, 2)).reshape(hands.shape[:2])
  places = np.minimum(places, len(game.hole_cards) - 1)
  return np.where((game.hole_cards[places] == hands).all(axis=2), places, NONE)


class Classes(NamedTuple):
  """One player's hands on the boards of a round, one for all that suits take to each other."""

  # A column is a board and a class of hands on it. Those of a board follow each other, and boards
  # of a group have the same list of classes, cards dealt or not.

  lists: tuple[np.ndarray, ...]  # for each group, the lowest hand of each class, [J]
  hand: np.ndarray  # [W] a hand of each column; -1 where all of its class hold a card of the board
  column: np.ndarray  # [B, H] the column of each hand on each board; -1 if it cannot be held
  starts: np.ndarray  # [B] the first column of each board


def hand_classes(game: Holdem, held: np.ndarray, boards: Boards, alike: "Alike") -> Classes:
  """Returns the classes of the hands `held` `[H]` on each board."""
  lists, hand, starts = [], [], []
  column = np.full((len(boards.cards), len(held)), NONE)
  width = 0
  for first, last in boards.groups:
    lowest = alike.moved[boards.keep[first]].min(axis=0) if alike.hands is None else alike.hands
    hands = np.unique(lowest[held])
    lists.append(hands)
    place = np.searchsorted(hands, lowest)
    for b in range(first, last):
      live = np.flatnonzero(held & ~shares_card(game.hole_cards, boards.cards[b : b + 1])[:, 0])
      column[b, live] = width + place[live]
      named = np.full(len(hands), NONE)
      named[place[live[::-1]]] = live[::-1]  # the lowest that the board leaves
      hand.append(named)
      starts.append(width)
      width += len(hands)
  return Classes(tuple(lists), np.concatenate(hand), column, np.array(starts))


def dealt_columns(boards: Boards, own: Classes, below: Classes, moved: np.ndarray) -> np.ndarray:
  """Returns the next round's columns that each column's hand comes to, a card each: `[W, M]`."""
  # Cards that suits take to each other make one board, so a column may be there often. Column `W of
  # below` stands for nothing.
  nothing = len(below.hand)
  width = np.diff([*own.starts, len(own.hand)])
  rows = []
  for b, (start, number) in enumerate(zip(own.starts, width)):
    hands = own.hand[start : start + number]
    cards = np.flatnonzero(boards.child[b] != NONE)
    images = moved[boards.by[b][cards]][:, hands]  # [cards, columns]
    found = below.column[boards.child[b][cards][:, None], images]
    found = np.where((hands == NONE) | (found == NONE), nothing, found)
    rows.append(np.sort(found, axis=0).T)
  most = max(int((row < nothing).sum(axis=1).max()) for row in rows)
  return np.concatenate([row[:, :most] for row in rows])


def parent_columns(children: np.ndarray, width: int) -> np.ndarray:
  """Returns the column that each of the next round's comes from, `[width]`; 0 if none.

  `children` are `dealt_columns` `[W, k]`.
  """
  parents = np.zeros(width + 1, int)  # the last stands for nothing
  parents[children] = np.arange(len(children))[:, None]
  return parents[:-1]


_TOLERANCE = 1e-9  # of a belief


def suit_permutations(game: Holdem, beliefs: np.ndarray) -> np.ndarray:
  """Returns the permutations of suits that leave the board and ranges alike: `[G, num_cards]`."""
  # The card that each card becomes, the identity first. They form a group.
  cards = game.deck.renamings
  moved = moved_hands(game, cards)
  likely = np.where(moved == NONE, 0.0, beliefs[:, moved])  # [P, renamings, H]
  same = np.isclose(likely, beliefs[:, None], rtol=_TOLERANCE, atol=0).all(axis=(0, 2))
  board = np.isin(np.arange(game.deck.num_cards), game.board)
  return cards[same & (board[cards] == board).all(axis=1)]


def dead_suits(deck: Deck, board: Sequence[int], to_come: int) -> np.ndarray:
  """Says in which suits no flush can be made any more: `[suits]`."""
  # A hand sees the cards of the board, those to come and two of its own.
  of_suit = np.bincount(deck.suit_of[np.array(board, int)], minlength=len(deck.suits))
  return np.minimum(of_suit + to_come + 2, len(deck.ranks)) < HAND_SIZE


def card_groups(game: Holdem) -> np.ndarray:
  """Returns the lowest card that each, off the board, can change places with: `[num_cards]`."""
  deck = game.deck
  dead = dead_suits(deck, game.board, sum(game.deals))[deck.suit_of]
  group = np.arange(deck.num_cards)
  free = dead & ~np.isin(group, game.board)
  for rank in np.unique(deck.rank_of):
    cards = np.flatnonzero((deck.rank_of == rank) & free)
    group[cards] = cards.min(initial=deck.num_cards)
  return group


class Alike(NamedTuple):
  """Hands and cards of a spot that may change places, and nothing else about it changes."""

  permutations: np.ndarray  # [G, num_cards] of suits or pairs of cards, the identity first
  moved: np.ndarray  # [G, H] the hand that each hand becomes
  # [H] the lowest that pairs of cards take each to; None where suits change places
  hands: np.ndarray | None


def find_alike(game: Holdem, beliefs: np.ndarray) -> Alike:
  """Returns the alike cards and hands of a spot: by suits, or by cards where that leaves fewer."""
  suits = suit_permutations(game, beliefs)
  moved = moved_hands(game, suits)
  group = card_groups(game)
  hands = alike_hands(game, beliefs, group)
  if hands is None or (game.deals and len(np.unique(moved.min(axis=0))) <= len(np.unique(hands))):
    return Alike(suits, moved, None)
  first, second = np.nonzero(np.triu(group[:, None] == group, 1))
  cards = np.tile(np.arange(len(group)), (1 + len(first), 1))
  rows = np.arange(1, len(cards))
  cards[rows, first], cards[rows, second] = second, first
  return Alike(cards, moved_hands(game, cards), hands)


def alike_hands(game: Holdem, beliefs: np.ndarray, group: np.ndarray) -> np.ndarray | None:
  """Returns the first hand of those that are alike, `[H]`; None where a range tells them apart."""
  # Cards of one rank in suits that make no flush are alike. Merging hands of such cards loses
  # nothing where both players are as likely to hold each of them.
  number, every = game.deck.num_cards, game.deck.hole_cards(game.board)
  table = np.zeros((len(beliefs), number, number))
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
  """Returns a sentence about the suits that may change places."""
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
