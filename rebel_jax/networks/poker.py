"""Networks for hold'em: cards on the board as embeddings, values in pots (ReBeL, appendix E)."""

import math
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from games.poker import Deck, Holdem
from games.poker.holdem import PAID
from rebel_jax.networks.hand_order import HandOrder, order_hands
from rebel_jax.networks.ordered import rearranged
from rebel_jax.networks.standing import standing
from rebel_jax.networks.value import ValueNetwork, product, with_roots
from solvers.sweeps.showdowns import Showdowns, make_showdowns

_LEAST_POT = 1e-4  # of a stack: rows of padding have none
_HALF = math.log(math.expm1(0.5))  # of which the softplus is a half


class Table(NamedTuple):
  """Deck, board and stack of a game of hold'em, as a network needs them; static.

  Attributes:
    ranks, suits: the deck.
    board: cards that lie at the start and whose hands are therefore no infostates.
    stack: chips that can be lost.
    dead: chips in the pot that are neither player's.
  """

  ranks: str
  suits: str
  board: tuple[int, ...]
  stack: int
  dead: int = 0

  @classmethod
  def of(cls, game: Holdem) -> "Table":
    """Returns the table that `game` is played at."""
    board = () if game.every_hand else game.board
    return cls(game.deck.ranks, game.deck.suits, board, game.rules.stack, game.rules.dead)


class Encoded(NamedTuple):
  """A poker network's encoding of public features.

  Attributes:
    hidden: `[R, width]` their share of the first layer.
    order, place: of the hands on the board, `[R, H]` each.
    live: `[R, H]` 1 for hands that the board leaves, else 0.
    paid: `[R, 2]` each player's chips in the pot, own ones first.
    showdowns: of the boards, those of the `R` rows; None if the network does not see them.
  """

  hidden: jax.Array
  order: jax.Array
  place: jax.Array
  live: jax.Array
  paid: jax.Array
  showdowns: Showdowns | None


class CardNetwork(ValueNetwork):
  """An MLP whose public input is numbers about the betting and embeddings of the cards shown.

  A card's embedding is the sum of its rank's, its suit's and its own, and a board's that of its
  cards' (Brown et al. 2019, "Deep Counterfactual Regret Minimization", appendix C). Suits are
  renamed and hands ordered by strength, so that boards which are alike look alike (`HandOrder`).

  Attributes:
    table: see `Table`.
    embedding: numbers for each card.
    showdown_inputs: whether the network also sees how hands stand on the cards shown (`standing`).
  """

  table: Table = Table("", "", (), 0)
  embedding: int = 64
  showdown_inputs: bool = False

  def setup(self):
    """Makes the layers."""
    super().setup()
    deck = Deck(self.table.ranks, self.table.suits)
    shapes = {"rank": len(deck.ranks), "suit": len(deck.suits), "card": deck.num_cards}
    self.embeddings = {
      name: self.param(f"{name}_embedding", nn.initializers.normal(0.5), (rows, self.embedding))
      for name, rows in shapes.items()
    }

  def encode(self, features: jax.Array) -> Encoded:
    """Returns what the public features `[R, F]` say."""
    return self._encode(features, self._board(features))

  def encode_both(self, features: tuple[jax.Array, jax.Array]) -> tuple[Encoded, Encoded]:
    """Returns `encode` of both players' features: hands are ordered once, as both see the board."""
    board = self._board(features[0])
    return self._encode(features[0], board), self._encode(features[1], board)

  def _board(self, features: jax.Array) -> tuple[HandOrder, Showdowns | None]:
    deck = Deck(self.table.ranks, self.table.suits)
    shown = features[:, -deck.num_cards :]
    hands = order_hands(deck, deck.hole_cards(self.table.board), shown)
    if not self.showdown_inputs:
      return hands, None
    return hands, make_showdowns(hands.strength, features.dtype)

  def _encode(self, features: jax.Array, board: tuple[HandOrder, Showdowns | None]) -> Encoded:
    hands, showdowns = board
    deck = Deck(self.table.ranks, self.table.suits)
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
    return Encoded(hidden, hands.order, hands.place, hands.live, stacks, showdowns)

  def decode(self, encoded: Encoded, beliefs: jax.Array, **how: Any) -> jax.Array:
    """Returns the outputs from `encode`'s result and beliefs `[R, 2 * H]`, own ones first."""
    # Beliefs in as many hands are small numbers, and a first layer's weights are made for ones: the
    # squares of these sum to as many as there are hands. Beliefs themselves beside them would help
    # a little, and double the largest layer.
    hands = beliefs.shape[-1] // 2
    ordered = rearranged(jnp.sqrt(hands * beliefs), encoded.order)
    inputs = with_roots(ordered, self.belief_roots)
    if encoded.showdowns is not None:
      seen = standing(encoded.showdowns, encoded.live, beliefs[:, hands:])
      seen = rearranged(seen.reshape(len(seen), -1), encoded.order)
      inputs = jnp.concatenate([inputs, seen], axis=-1)
    return rearranged(self.layers(encoded.hidden, inputs, **how), encoded.place)


class PokerValueNetwork(CardNetwork):
  """Values in chips, learned in pots.

  No hand is worth less than its chips in the pot, as it may be folded; one that holds a card of the
  board is worth nothing.
  """

  def decode(self, encoded: Encoded, beliefs: jax.Array, **how: Any) -> jax.Array:
    """Returns values `[R, H]` in chips from `encode`'s result and beliefs `[R, 2 * H]`."""
    outputs = super().decode(encoded, beliefs, **how)
    pot = encoded.paid.sum(axis=-1, keepdims=True)
    values = pot * nn.softplus(outputs + _HALF) - encoded.paid[:, :1] - self.table.dead / 2
    return values * encoded.live

  def unit(self, features: jax.Array) -> jax.Array:
    """Returns the chips in the pot, `[R, 1]`."""
    return features[:, PAID].sum(axis=-1, keepdims=True) * self.table.stack
