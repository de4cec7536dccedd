"""Boards and hands as a network for hold'em sees them: the same for all boards that are alike."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.poker import Deck
from games.poker.hands import strengths, suit_masks


class HandOrder(NamedTuple):
  """A board with its suits renamed, and hands in the order of their strength on it.

  Suits are renamed so that boards which differ by the names of suits are one board. Hands go from
  the weakest to the strongest, those that the board blocks first; equal ones go by their renamed
  cards. So a place in that order means much the same on every board, and what a network learns of
  the best hands on one board holds on all.

  Attributes:
    shown: `[R, cards]` which renamed cards are on the board, 1 or 0.
    live: `[R, H]` 1 for hands that the board leaves, else 0; in the game's order.
    strength: `[R, H]` of hands on the board, -1 for those that it blocks; in the game's order.
    order: `[R, H]` the hand at each place.
    place: `[R, H]` each hand's place.
  """

  shown: jax.Array
  live: jax.Array
  strength: jax.Array
  order: jax.Array
  place: jax.Array


def order_hands(deck: Deck, hands: np.ndarray, shown: jax.Array) -> HandOrder:
  """Returns how hands `[H, 2]` rank on boards; `shown` `[R, cards]` says which cards lie there."""
  rows, num_suits = len(shown), len(deck.suits)
  bits = np.zeros((deck.num_cards, num_suits), np.int32)
  bits[np.arange(deck.num_cards), deck.suit_of] = 1 << deck.rank_of
  shown_bits = jnp.where(shown[:, :, None] > 0, bits[None], 0)
  board = shown_bits.sum(axis=1, dtype=jnp.int32)  # ranks shown of each suit
  # Suits with the highest cards first; those with equal ones, or none, stay as they are.
  suits = jnp.argsort(-board, axis=1)
  renamed = jnp.argsort(suits, axis=1)
  by_suit = shown.reshape(rows, len(deck.ranks), num_suits)
  by_suit = jnp.take_along_axis(by_suit, suits[:, None], axis=2)
  live = (1.0 - shown[:, hands[:, 0]]) * (1.0 - shown[:, hands[:, 1]])
  strength = strengths(board[:, None] | suit_masks(deck, hands)[None])
  strength = jnp.where(live > 0, strength, -1)
  number, by_cards = _by_cards(deck, hands)
  powers = jnp.asarray(num_suits ** np.arange(num_suits), renamed.dtype)[None]
  of_cards = jnp.asarray(number)[(renamed * powers).sum(axis=1)]
  # Numbers alone are sorted several times as fast on a CPU as numbers with their places, so a
  # hand's place by its cards is a part of the number.
  ranks = jnp.asarray(np.argsort(by_cards, axis=1), strength.dtype)
  keys = strength * len(hands) + ranks[of_cards]
  place_of_cards = jnp.sort(keys, axis=1) % len(hands)
  order = jnp.take_along_axis(jnp.asarray(by_cards)[of_cards], place_of_cards, axis=1)
  hand = jnp.broadcast_to(jnp.arange(len(hands), dtype=order.dtype), order.shape)
  place = jnp.zeros_like(order).at[jnp.arange(rows)[:, None], order].set(hand)
  return HandOrder(by_suit.reshape(rows, -1), live, strength, order, place)


def _by_cards(deck: Deck, hands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns hands in the order of their cards under each way to rename the suits.

  Returns:
    `[S ** S]` the way whose suits, as digits from the lowest on, make that number; and for each
    way the hands `[ways, H]`.
  """
  ways = np.array(list(itertools.permutations(range(len(deck.suits)))))
  number = np.zeros(len(deck.suits) ** len(deck.suits), np.int32)
  number[ways @ len(deck.suits) ** np.arange(len(deck.suits))] = np.arange(len(ways))
  cards = deck.rank_of[hands] * len(deck.suits) + ways[:, deck.suit_of[hands]]
  lowest, highest = cards.min(axis=-1), cards.max(axis=-1)
  return number, np.lexsort((lowest, highest), axis=-1).astype(np.int32)
