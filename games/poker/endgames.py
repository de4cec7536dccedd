"""The hold'em games of `games.make`, by name."""

from collections.abc import Sequence
from typing import Annotated, Any

from games.arrays import checked
from games.game import register
from games.poker.abstraction import BetSizes, make_bet_sizes
from games.poker.betting import MAX_CHIPS, Betting
from games.poker.cards import RANKS, SUITS, Deck
from games.poker.holdem import Holdem

Bets = str | Sequence[float] | Sequence[str] | BetSizes
_RIVER = 5  # cards on the board
PAPER_BOARD = "3s7hTdKs2c"  # ReBeL, appendix C.2, and a river


class _Endgame(Holdem):
  """Hold'em from so many cards on the board on, as `TurnEndgame` explains it."""

  num_board: int

  @checked
  def __init__(
    self,
    board: str = "paper",
    pot: Annotated[int, (2, MAX_CHIPS)] = 2_000,
    stack: int | tuple[int, int] = 20_000,
    big_blind: int = 100,
    bets: Bets = "teh",
    ranks: str = RANKS,
    suits: str = SUITS,
  ):
    deck = Deck(ranks, suits)
    if board == "paper":
      board = PAPER_BOARD[: 2 * self.num_board]
    cards = deck.parse(board, field="board")
    if len(cards) != self.num_board:
      raise ValueError(
        f"board={board!r} holds {len(cards)} cards; this endgame needs {self.num_board}"
      )
    rules = Betting(_each(stack, 2), (pot // 2, pot // 2), big_blind, dead=pot % 2)
    if rules.stack == pot // 2:
      raise ValueError(
        f"stack={stack!r} is all in the pot of {pot}; a player must have chips behind to bet"
      )
    super().__init__(
      deck=deck,
      board=cards,
      deals=(1,) * (_RIVER - self.num_board),
      rules=rules,
      bets=make_bet_sizes(bets, rounds=1 + _RIVER - self.num_board),
    )


class TurnEndgame(_Endgame):
  """Turn endgame hold'em (ReBeL, appendix C.2): turn betting, the river card, river betting.

  Player 0 acts first in both rounds. Infostates are the pairs of cards that the four on the board
  leave: 1,128 in the whole deck. `Holdem` says what actions and states are.

  Args:
    board: four cards, or `paper` for those that the paper measures on.
    pot: chips in the pot, half from each player; an odd one is nobody's (`Betting.dead`), so that
      payoffs are of half chips.
    stack: chips of each player before the hand, those in the pot included; one number, or two.
    big_blind: the smallest bet.
    bets: a preset's name, sizes such as `33%,75%,a / 2.5x` (`BetSizes.parse`) or a pair of them,
      one for each player, fractions of the pot for every bet (all-in too), or `BetSizes`.
    ranks, suits: the deck.
  """

  name, num_board = "turn_endgame_holdem", 4


class RiverEndgame(_Endgame):
  """River hold'em: one round of betting on five cards; `TurnEndgame` explains the parameters."""

  name, num_board = "river_endgame_holdem", _RIVER


class SmallHoldem(Holdem):
  """A whole game of hold'em from the blinds, for decks small enough to solve.

  The defaults are a game of two rounds: two hole cards from ten, betting, a card, betting.

  Args:
    ranks, suits: the deck.
    deals: cards dealt before each round of betting after the first.
    blinds: what each player has put in before the first action.
    stack: chips of each player before the hand.
    big_blind: the smallest bet; the larger blind by default.
    first_to_act: who acts first in each round.
    bets: as for `TurnEndgame`.
    flops: flops that a search of a deal of three cards looks at, drawn for every hand, unbiased: at
      most one of each suit class, 1,755 in the whole deck; 0 for all of them.
  """

  name = "small_holdem"

  @checked
  def __init__(
    self,
    ranks: str = "TJQKA",
    suits: str = "sh",
    deals: int | tuple[int, ...] = (1,),
    blinds: int | tuple[int, int] = (100, 100),
    stack: int | tuple[int, int] = 600,
    big_blind: int | None = None,
    first_to_act: int | tuple[int, ...] = (0,),
    bets: Bets = (1.0,),
    flops: int = 0,
  ):
    both = _each(blinds, 2)
    least = max(both) if big_blind is None else big_blind
    super().__init__(
      deck=Deck(ranks, suits),
      deals=_each(deals),
      rules=Betting.with_blinds(_each(stack, 2), both, least, _each(first_to_act)),
      bets=make_bet_sizes(bets, rounds=1 + len(_each(deals))),
      flops=flops or None,
    )


class SmallHoldem4Rounds(SmallHoldem):
  """Whole hold'em in small: four rounds, blinds, a deck of ten cards, the pot or all-in.

  Everything is there that whole no-limit hold'em has, and its 0.2 million public states are few
  enough to compute exploitability. Parameters are those of `SmallHoldem`; one card is dealt before
  each later round, and player 0 has the small blind, as in `NoLimitHoldem`.
  """

  name = "small_holdem_4_rounds"

  def __init__(
    self, ranks: str = "TJQKA", suits: str = "sh", stack: int = 600, bets: Bets = (1.0,)
  ):
    super().__init__(ranks, suits, (1, 1, 1), (50, 100), stack, first_to_act=(0, 1), bets=bets)


class NoLimitHoldem(SmallHoldem):
  """Whole no-limit hold'em between two: four rounds, blinds of 50 and 100 chips.

  Player 0 has the small blind: it acts first before the flop, and last after it. The default stack
  is standard in research (ReBeL, appendix C.1). No tree of all of it can be made.

  Args:
    stack: chips of each player before the hand.
    bets, flops: as for `SmallHoldem`.
  """

  name = "no_limit_holdem"

  def __init__(
    self, stack: int | tuple[int, int] = 20_000, bets: Bets = "hunl", flops: int = 1_755
  ):
    super().__init__(
      RANKS, SUITS, (3, 1, 1), (50, 100), stack, first_to_act=(0, 1), bets=bets, flops=flops
    )


class FlopHoldem(SmallHoldem):
  """No-limit hold'em of two rounds: blinds, three cards on the board, and a showdown.

  Parameters are those of `NoLimitHoldem`, which it is the first half of.
  """

  name = "flop_holdem"

  def __init__(
    self, stack: int | tuple[int, int] = 20_000, bets: Bets = "hunl", flops: int = 1_755
  ):
    super().__init__(RANKS, SUITS, (3,), (50, 100), stack, None, (0, 1), bets, flops)


def _each(numbers: Any, count: int = 1) -> Any:
  """Returns several numbers, or one for each, as a tuple; what they may be is checked elsewhere."""
  return tuple(numbers) if isinstance(numbers, tuple | list) else (numbers,) * count


for _game in (
  FlopHoldem, NoLimitHoldem, RiverEndgame, SmallHoldem, SmallHoldem4Rounds, TurnEndgame
):  # fmt: skip
  register(_game.name, _game)
