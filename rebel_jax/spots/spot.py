"""A spot: board, pot, stacks, bets and both ranges, as poker players write them."""

import dataclasses
import functools

import numpy as np

from games.poker import RANKS, SUITS, BetSizes, Betting, Deck, Holdem, OnlyHands
from games.poker.betting import check_chips
from games.poker.cards import shares_card
from games.poker.notation.bets import parse_donk, parse_sizes
from games.poker.notation.ranges import parse_range
from rebel_jax.config.allowed import ConfigError

_BOARDS = (3, 4, 5)  # cards
PLAYERS = ("OOP", "IP")


@dataclasses.dataclass(frozen=True)
class Spot:
  """A spot between two players; the one out of position (OOP, player 0) acts first.

  Attributes:
    board: three, four or five cards, such as `Td9d6hQc`.
    oop, ip: the players' ranges, strings for `games.poker.parse_range`.
    pot: chips in the pot.
    stack: chips that each player has left.
    bets: sizes, a string for `BetSizes.parse`.
    oop_bets, ip_bets: one player's own; None for `bets`.
    donk_bets: sizes of a first bet into who bet last on the street before, a string for
      `BetSizes.parse(donk=...)`; None if these are as others.
    near_all_in: bets of at least this percentage of the player's chips become all-in; None for
      none.
    min_bet: the smallest bet, in chips.
    rake: percentage of every pot that the house takes; what is left is won or split.
    rake_cap: the most that it takes, in chips; None for any number.
    ranks, suits: the deck.
  """

  board: str
  oop: str
  ip: str
  pot: int
  stack: int
  bets: str = "33%,75%,a / 2.5x,a"
  oop_bets: str | None = None
  ip_bets: str | None = None
  donk_bets: str | None = None
  near_all_in: float | None = None
  min_bet: int = 1
  rake: float = 0.0
  rake_cap: int | None = None
  ranks: str = RANKS
  suits: str = SUITS

  def game(self) -> OnlyHands:
    """Returns the rules of the spot, with the hands of the ranges alone as infostates.

    Raises:
      ConfigError: a setting is not allowed, a range is not understood, the board leaves none of
        it, or every hand of one player shares a card with every hand of the other.
    """
    whole = self._whole_game()
    beliefs = self.beliefs(whole)
    if not (~shares_card(*(whole.hole_cards[row > 0] for row in beliefs))).any():
      raise ConfigError(
        f"oop={self.oop!r} and ip={self.ip!r} cannot both be held: all their hands share cards"
      )
    return OnlyHands(whole, beliefs)

  def _whole_game(self) -> Holdem:
    try:
      deck = Deck(self.ranks, self.suits)
      board = deck.parse(self.board, field="board")
      if len(board) not in _BOARDS:
        raise ValueError(f"board={self.board!r} holds {len(board)} cards; a spot has 3, 4 or 5")
      deals = (1,) * (_BOARDS[-1] - len(board))
      check_chips("pot", self.pot, at_least=2)
      check_chips("stack", self.stack, at_least=1)
      check_chips("min_bet", self.min_bet, at_least=1)
      half = self.pot // 2
      rules = Betting(
        (half + self.stack,) * 2,
        (half, half),
        self.min_bet,
        dead=self.pot % 2,
        rake=self.rake / 100,
        rake_cap=self.rake_cap,
      )
      bets = self._bet_sizes(len(deals) + 1)
      return Holdem(deck=deck, board=board, deals=deals, rules=rules, bets=bets)
    except ValueError as error:
      raise ConfigError(str(error)) from None

  def _bet_sizes(self, rounds: int) -> BetSizes:
    fields = {"bets": self.bets, "oop_bets": self.oop_bets, "ip_bets": self.ip_bets}
    sizes = {
      name: parse_sizes(x, rounds, field=name) for name, x in fields.items() if x is not None
    }
    near = None if self.near_all_in is None else self.near_all_in / 100
    first, second = (sizes.get(name, sizes["bets"]) for name in ("oop_bets", "ip_bets"))
    donk = None
    if self.donk_bets is not None:
      donk = parse_donk(self.donk_bets, rounds, field="donk_bets")
    return BetSizes(first, all_in=False, near_all_in=near, second=second, donk=donk)

  def beliefs(self, game: Holdem) -> np.ndarray:
    """Returns what the players may hold in `game` at the start: `[P, H]`, rows sum to one."""
    try:
      named = zip(("oop", "ip"), (self.oop, self.ip))
      weights = np.stack([_weights(text, game.deck, field) for field, text in named])
      return game.beliefs(weights)
    except ValueError as error:
      raise ConfigError(str(error)) from None


@functools.lru_cache(maxsize=16)
def _weights(text: str, deck: Deck, field: str) -> np.ndarray:
  """Returns `parse_range`, which takes longer than a river to solve; of many boards it is one."""
  return parse_range(text, deck, field=field)
