"""Networks for hold'em: cards on the board as embeddings, values in pots (ReBeL, appendix E)."""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from games.poker import Deck, Holdem
from games.poker.holdem import PAID
from rebel_jax.networks.value import ValueNetwork, product


class Table(NamedTuple):
  """Deck, board and stack of a game of hold'em, as a network needs them; static.

  Attributes:
    ranks, suits: the deck.
    board: cards that lie at the start and whose hands are therefore no infostates.
    stack: chips that can be lost.
  """

  ranks: str
  suits: str
  board: tuple[int, ...]
  stack: int

  @classmethod
  def of(cls, game: Holdem) -> "Table":
    """Returns the table that `game` is played at."""
    board = () if game.every_hand else game.board
    return cls(game.deck.ranks, game.deck.suits, board, game.rules.stack)


class CardNetwork(ValueNetwork):
  """An MLP whose public input is numbers about the betting and embeddings of the cards shown.

  A card's embedding is the sum of its rank's, its suit's and its own, and a board's that of its
  cards' (Brown et al. 2019, "Deep Counterfactual Regret Minimization", appendix C).

  Attributes:
    table: see `Table`.
    embedding: numbers for each card.
  """

  table: Table = Table("", "", (), 0)
  embedding: int = 64

  def setup(self):
    """Makes the layers."""
    super().setup()
    deck = Deck(self.table.ranks, self.table.suits)
    shapes = {"rank": len(deck.ranks), "suit": len(deck.suits), "card": deck.num_cards}
    self.embeddings = {
      name: self.param(f"{name}_embedding", nn.initializers.normal(0.5), (rows, self.embedding))
      for name, rows in shapes.items()
    }

  def encode(self, features: jax.Array) -> Any:
    """Returns the first layer's share of the public features `[R, F]`: `[R, width]`."""
    deck = Deck(self.table.ranks, self.table.suits)
    rank, suit = np.divmod(np.arange(deck.num_cards), len(deck.suits))
    rows = self.embeddings["rank"][rank] + self.embeddings["suit"][suit] + self.embeddings["card"]
    scalars, shown = features[:, : -deck.num_cards], features[:, -deck.num_cards :]
    cards = product(shown, rows, self.precision)
    return self.public(jnp.concatenate([scalars, cards], axis=-1))

  def decode(self, encoded: Any, beliefs: jax.Array, **how: Any) -> jax.Array:
    """Returns the outputs from `encode`'s result and beliefs `[R, 2 * H]`, own ones first."""
    # Beliefs in as many hands are small numbers, and a first layer's weights are made for ones.
    beliefs = beliefs * (beliefs.shape[-1] // 2)
    return super().decode(encoded, beliefs, **how)


class Encoded(NamedTuple):
  """A poker value network's encoding of public features: `[R, width]`, `[R, H]` and `[R, 1]`."""

  hidden: jax.Array
  live: jax.Array
  pot: jax.Array


class PokerValueNetwork(CardNetwork):
  """Values in chips, learned in pots; a hand that holds a card of the board is worth nothing."""

  def encode(self, features: jax.Array) -> Encoded:
    """Returns what the public features `[R, F]` say."""
    deck = Deck(self.table.ranks, self.table.suits)
    hands = deck.hole_cards(self.table.board)
    shown = features[:, -deck.num_cards :]
    live = (1.0 - shown[:, hands[:, 0]]) * (1.0 - shown[:, hands[:, 1]])
    return Encoded(super().encode(features), live, self.unit(features))

  def decode(self, encoded: Encoded, beliefs: jax.Array, **how: Any) -> jax.Array:
    """Returns values `[R, H]` in chips from `encode`'s result and beliefs `[R, 2 * H]`."""
    outputs = super().decode(encoded.hidden, beliefs, **how)
    return outputs * encoded.live * encoded.pot

  def unit(self, features: jax.Array) -> jax.Array:
    """Returns the chips in the pot, `[R, 1]`."""
    return features[:, PAID].sum(axis=-1, keepdims=True) * self.table.stack
