"""Matches in chips between two players in one process, in thousandths of a big blind a hand."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from games.poker.cards import NUM_HOLE_CARDS
from rebel_jax.tables.chips import Cards, ChipPlayer, ChipTable, Deal, Event, TableRules
from solvers import validation


class Hand(NamedTuple):
  """What a hand is dealt.

  Attributes:
    number: from 0.
    first_seat: the seat of the match's first player.
    hole_cards: of seats 0 and 1.
    board: all cards that can be dealt.
  """

  number: int
  first_seat: int
  hole_cards: tuple[Cards, Cards]
  board: Cards


@dataclasses.dataclass(frozen=True)
class ChipMatchResult:
  """Winnings of the first player.

  Attributes:
    chips: `[hands]` in each hand.
    big_blind: chips.
    duplicate: whether hands 2 k and 2 k + 1 had the same cards, seats exchanged; together they are
      one sample then.
  """

  chips: tuple[int, ...]
  big_blind: int
  duplicate: bool

  @property
  def samples(self) -> np.ndarray:
    """`[hands]` mbb, or `[hands / 2]` means of pairs."""
    mbb = 1000 * np.array(self.chips, float) / self.big_blind
    return mbb.reshape(-1, 2).mean(axis=1) if self.duplicate else mbb

  @property
  def mean(self) -> float:
    """Thousandths of a big blind (mbb) a hand."""
    return float(self.samples.mean())

  @property
  def half_width(self) -> float:
    """Of the 95 % confidence interval around the mean; infinite for one sample."""
    samples = self.samples
    if len(samples) < 2:
      return float("inf")
    return float(1.96 * samples.std(ddof=1) / np.sqrt(len(samples)))

  def __str__(self) -> str:
    pairs = ", in pairs" if self.duplicate else ""
    return (
      f"{self.mean:+.1f} ± {self.half_width:.1f} mbb a hand over {len(self.chips):,} hands{pairs}"
    )


def hands_of(
  rules: TableRules, *, num_hands: int, seed: int = 0, duplicate: bool = False
) -> Iterator[Hand]:
  """Yields what the hands of a match are dealt; players change seats after every hand.

  Args:
    rules: what is played.
    num_hands: how many hands; even with `duplicate`.
    seed: of the cards: the same seed is the same cards, however many hands there are.
    duplicate: deals every hand twice, so that either player has both seats of it.

  Raises:
    ValueError: `num_hands` is not allowed.
  """
  check = validation.check_even if duplicate else validation.check_integer
  for number in range(check("num_hands", num_hands)):
    rng = np.random.default_rng([seed, number // 2 if duplicate else number])
    size = 2 * NUM_HOLE_CARDS + sum(rules.deals)
    cards = rng.choice(rules.deck.num_cards, size, replace=False).tolist()
    yield Hand(number, number % 2, (tuple(cards[:2]), tuple(cards[2:4])), tuple(cards[4:]))


def next_deal(table: ChipTable, board: Cards) -> Deal:
  """Returns the cards that come next of all those of a hand's board."""
  start = len(table.board)
  return Deal(tuple(board[start : start + table.due[0]]))


def play_hand(players: Sequence[ChipPlayer], rules: TableRules, hand: Hand) -> ChipTable:
  """Plays one hand between the players of seats 0 and 1, and returns it.

  Raises:
    ValueError: a player's move is not legal.
  """
  table = ChipTable(rules, hand.hole_cards)
  for seat in (0, 1):
    players[seat].start(seat, hand.hole_cards[seat])
  while not table.is_over:
    actor = table.actor
    event: Event = next_deal(table, hand.board) if actor is None else players[actor].act()
    table.apply(event, seat=actor)
    for player in players:
      player.observe(event)
  return table


def play_chip_match(
  players: Sequence[ChipPlayer],
  rules: TableRules,
  *,
  num_hands: int,
  seed: int = 0,
  duplicate: bool = True,
) -> ChipMatchResult:
  """Plays a match of two players, and returns what the first of them won.

  Args:
    players: two; they change seats after every hand.
    rules: what is played; stacks are the same before every hand.
    num_hands: how many hands; even with `duplicate`.
    seed: of the cards; players have seeds of their own.
    duplicate: deals every hand twice, seats exchanged, which takes out much of the luck.

  Raises:
    ValueError: `num_hands` is not allowed, or a player's move is not legal.
  """
  chips = []
  for hand in hands_of(rules, num_hands=num_hands, seed=seed, duplicate=duplicate):
    seated = players if hand.first_seat == 0 else players[::-1]
    chips.append(play_hand(seated, rules, hand).payoffs()[hand.first_seat])
  return ChipMatchResult(tuple(chips), rules.rules.big_blind, duplicate)
