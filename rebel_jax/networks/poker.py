"""Networks for hold'em: cards on the board as embeddings, values in pots (ReBeL, appendix E)."""

import dataclasses
import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from games.pairs import per_pair_mass
from games.poker import Deck, Holdem
from games.poker.cards import strengths, suit_masks
from games.poker.holdem import PAID
from rebel_jax.networks.value import ValueNetwork, product, rearranged, with_roots
from solvers import LeafQuery
from solvers.sweeps import Showdowns, compatible_mass, make_showdowns, showdown_values


class HandOrder(NamedTuple):
  """A board with its suits renamed, and hands in the order of their strength on it."""

  # Boards that differ by the names of suits are one board, and a place in the order, from the
  # weakest on, means much the same on every board: what is learned of one board's best hands holds
  # on all.

  shown: jax.Array  # `[R, cards]` 1 for renamed cards that are on the board, else 0
  live: jax.Array  # `[R, H]` 1 for hands that the board leaves, else 0; in the game's order
  strength: jax.Array  # `[R, H]` on the board, -1 for hands that it blocks; in the game's order
  order: jax.Array  # `[R, H]` the hand at each place; equal ones go by their renamed cards
  place: jax.Array  # `[R, H]` each hand's place


def order_hands(deck: Deck, hands: np.ndarray, shown: jax.Array) -> HandOrder:
  """Returns the ranks of hands `[H, 2]` on boards of the cards `shown` `[R, cards]`."""
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
  place_of_cards = jnp.sort(strength * len(hands) + ranks[of_cards], axis=1) % len(hands)
  order = jnp.take_along_axis(jnp.asarray(by_cards)[of_cards], place_of_cards, axis=1)
  hand = jnp.broadcast_to(jnp.arange(len(hands), dtype=order.dtype), order.shape)
  place = jnp.zeros_like(order).at[jnp.arange(rows)[:, None], order].set(hand)
  return HandOrder(by_suit.reshape(rows, -1), live, strength, order, place)


def _by_cards(deck: Deck, hands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns numbers of ways to rename suits, `[S ** S]`, and each way's order of hands."""
  ways = deck.suit_of[deck.renamings[:, : len(deck.suits)]]  # of the lowest rank's cards
  number = np.zeros(len(deck.suits) ** len(deck.suits), np.int32)
  number[ways @ len(deck.suits) ** np.arange(len(deck.suits))] = np.arange(len(ways))
  cards = deck.renamings[:, hands]
  lowest, highest = cards.min(axis=-1), cards.max(axis=-1)
  return number, np.lexsort((lowest, highest), axis=-1).astype(np.int32)


def standing(showdowns: Showdowns, live: jax.Array, other: jax.Array) -> jax.Array:
  """Returns each hand's won less lost share of the opponent's range, and that range's mass."""
  # `[R, 2, H]` from beliefs `other` `[R, H]`. Which hands share no card with a hand differs from
  # hand to hand, and is hard to learn from beliefs alone (docs/results/poker.md).
  other = other * live
  mass = compatible_mass(other)
  won = showdown_values(showdowns, other[:, None])[:, 0]
  return jnp.stack([per_pair_mass(won, mass), mass], axis=1) * live[:, None]


@dataclasses.dataclass(frozen=True)
class ShownValues:
  """Leaves are worth what hands win if they are shown at once, on the cards that lie there."""

  table: "Table"

  def encode(self, params: Any, features: jax.Array) -> tuple[jax.Array, Showdowns]:
    """Returns which hands boards leave `[R, H]`, and showdowns on them, of features `[R, F]`."""
    del params
    deck = self.table.deck
    cards = features[:, -deck.num_cards :]
    hands = order_hands(deck, deck.hole_cards(self.table.board), cards)
    return hands.live, make_showdowns(hands.strength, features.dtype)

  def __call__(self, params: Any, query: LeafQuery) -> jax.Array:
    """Answers a query: `[R, H]` values in chips."""
    live, showdowns = query.encoded or self.encode(params, query.features)
    share = standing(showdowns, live, query.beliefs[:, 1 - query.traverser])[:, 0]
    paid = query.features[:, PAID].sum(axis=-1, keepdims=True) * self.table.stack
    return share * (paid + self.table.dead) / 2


_LEAST_POT = 1e-4  # of a stack: rows of padding have none
_HALF = math.log(math.expm1(0.5))  # of which the softplus is a half


class Table(NamedTuple):
  """Deck, board and stack of a game of hold'em, as a network needs them; static."""

  deck: Deck
  board: tuple[int, ...]  # cards that lie at the start and whose hands are therefore no infostates
  stack: int  # chips that can be lost
  dead: int = 0  # chips in the pot that are neither player's

  @classmethod
  def of(cls, game: Holdem) -> "Table":
    """Returns the table that `game` is played at."""
    board = () if game.every_hand else game.board
    return cls(game.deck, board, game.rules.stack, game.rules.dead)


class EncodedHands(NamedTuple):
  """A poker network's encoding of public features."""

  hidden: jax.Array  # `[R, width]` their share of the first layer
  order: jax.Array  # `[R, H]` of the hands on the board
  place: jax.Array  # `[R, H]`
  live: jax.Array  # `[R, H]` 1 for hands that the board leaves, else 0
  paid: jax.Array  # `[R, 2]` each player's chips in the pot, own ones first
  showdowns: Showdowns | None  # of the `R` boards; None if the network does not see them


class CardNetwork(ValueNetwork):
  """An MLP whose public input is numbers about the betting and embeddings of the cards shown."""

  # A card's embedding is the sum of its rank's, its suit's and its own, and a board's that of its
  # cards' (Brown et al. 2019, "Deep Counterfactual Regret Minimization", appendix C).

  table: Table = Table(Deck(), (), 0)
  embedding: int = 64  # numbers for each card
  # whether the network sees how hands stand on the cards (`standing`)
  showdown_inputs: bool = False

  def setup(self):
    """Makes the layers."""
    super().setup()
    deck = self.table.deck
    shapes = {"rank": len(deck.ranks), "suit": len(deck.suits), "card": deck.num_cards}
    self.embeddings = {
      name: self.param(f"{name}_embedding", nn.initializers.normal(0.5), (rows, self.embedding))
      for name, rows in shapes.items()
    }

  def encode_both(self, features: tuple[jax.Array, jax.Array]) -> tuple[EncodedHands, EncodedHands]:
    """Returns `encode` of both players' features: hands are ordered once, as both see the board."""
    board = self._board(features[0])
    return self.encode(features[0], board), self.encode(features[1], board)

  def _board(self, features: jax.Array) -> tuple[HandOrder, Showdowns | None]:
    deck = self.table.deck
    hands = order_hands(deck, deck.hole_cards(self.table.board), features[:, -deck.num_cards :])
    seen = make_showdowns(hands.strength, features.dtype) if self.showdown_inputs else None
    return hands, seen

  def encode(
    self, features: jax.Array, board: tuple[HandOrder, Showdowns | None] | None = None
  ) -> EncodedHands:
    """Returns the encoding of public features `[R, F]`, whose hands may be in order already."""
    hands, showdowns = board or self._board(features)
    deck = self.table.deck
    scalars = features[:, : -deck.num_cards]
    rank, suit = np.divmod(np.arange(deck.num_cards), len(deck.suits))
    rows = self.embeddings["rank"][rank] + self.embeddings["suit"][suit] + self.embeddings["card"]
    cards = product(hands.shown, rows, self.precision)
    # Chips are fractions of the stack, in which small pots all look alike; what is left to bet, in
    # pots, tells them apart.
    paid = features[:, PAID]
    left = 1 - paid.max(axis=-1, keepdims=True)
    left = jnp.log1p(left / jnp.maximum(paid.sum(axis=-1, keepdims=True), _LEAST_POT))
    hidden = self.public(jnp.concatenate([scalars, left, cards], axis=-1))
    stacks = paid * self.table.stack
    return EncodedHands(hidden, hands.order, hands.place, hands.live, stacks, showdowns)

  def decode(self, encoded: EncodedHands, beliefs: jax.Array) -> jax.Array:
    """Returns the outputs from `encode`'s result and beliefs `[R, 2 * H]`, own ones first."""
    # Beliefs in as many hands are small numbers, and a first layer's weights are made for ones: the
    # squares of these sum to as many as there are hands. Beliefs themselves beside them would help
    # a little, and double the largest layer.
    hands = beliefs.shape[-1] // 2
    inputs = with_roots(rearranged(jnp.sqrt(hands * beliefs), encoded.order), self.belief_roots)
    if encoded.showdowns is not None:
      seen = standing(encoded.showdowns, encoded.live, beliefs[:, hands:])
      seen = rearranged(seen.reshape(len(seen), -1), encoded.order)
      inputs = jnp.concatenate([inputs, seen], axis=-1)
    return rearranged(self.layers(encoded.hidden, inputs), encoded.place)


class PokerValueNetwork(CardNetwork):
  """Values in chips, learned in pots."""

  # No hand is worth less than its chips in the pot, as it may be folded; one that holds a card of
  # the board is worth nothing.

  def decode(self, encoded: EncodedHands, beliefs: jax.Array) -> jax.Array:
    """Returns values `[R, H]` in chips from `encode`'s result and beliefs `[R, 2 * H]`."""
    outputs = super().decode(encoded, beliefs)
    pot = encoded.paid.sum(axis=-1, keepdims=True)
    values = pot * nn.softplus(outputs + _HALF) - encoded.paid[:, :1] - self.table.dead / 2
    return values * encoded.live

  def unit(self, features: jax.Array) -> jax.Array:
    """Returns the chips in the pot, `[R, 1]`."""
    return features[:, PAID].sum(axis=-1, keepdims=True) * self.table.stack
