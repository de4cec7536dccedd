"""No-limit betting for two players, in whole chips, over batches of public states.

These are the rules themselves, with every bet size; `abstraction` picks the sizes of a tree.
"""

import dataclasses
from typing import Annotated, Any, NamedTuple

import numpy as np

from games.arrays import (
  Player,
  Rows,
  check_fields,
  check_integer,
  checked,
  lookup,
  with_columns,
  xp,
)

# Columns of a state of the betting.
(
  ROUND, ACTOR, PAID_0, PAID_1, LAST_RAISE, RAISES, ACTED, STATUS, START, STACK, NUM_COLUMNS,
) = range(11)  # fmt: skip
# Actions of hold'em; bets follow each other.
FOLD = 0
CALL = 1
FIRST_BET = 2
MAX_CHIPS = 2**30 - 1  # sums of two still fit into 32 bits
Stack = Annotated[int, (1, MAX_CHIPS)]
Stake = Annotated[int, (0, MAX_CHIPS)]
GOING_ON, FOLDED_0, FOLDED_1, CLOSED = range(4)  # values of STATUS


class BettingTurn(NamedTuple):
  """The betting at one state, for a player or a program to read."""

  round: int  # from 0
  actor: int | None  # None where a round is closed, or someone has folded
  folded: int | None  # who has, if anybody
  paid: tuple[int, int]  # chips that each has put in since the hand began
  highest: int  # the larger number of these; a call puts in as much
  began_at: int  # chips that each had put in when the round began, blinds not counted
  may_fold: bool  # whether the actor faces a bet
  raises: tuple[int, int] | None  # the least and the most that one may be to; None for no raise


@dataclasses.dataclass(frozen=True)
class Betting:
  """The rules of betting (ReBeL, appendix C.1).

  A state is a row of `NUM_COLUMNS` integers: the round, who acts, the chips that each player has
  put in since the hand began, the size of the last raise of the round (before there is one: 0, or
  -1 or -2 if player 0 or 1 bet last on the round before and `tells_bettor`), how many raises and
  actions it has had, whether betting goes on, someone folded, or the round is closed, the chips
  that each had put in when the round began, and the stack, the chips that can be lost.

  The first bet of a round is at least the big blind, a raise at least the last one; all one's chips
  may always go in. No one bets more than the smaller stack. A round closes when both have acted and
  the last one called (a check calls nothing). A closed round forgets how it was bet.

  Attributes:
    stacks: chips of each player before the hand.
    paid: chips that each has in the pot at the start (blinds, or what earlier rounds left).
    big_blind: the smallest bet.
    first_to_act: player who acts first in each round; the last entry holds for later rounds.
    dead: chips in the pot that neither has paid. Half of them count as each player's.
    tells_bettor: whether states remember who bet last on the round before, for `BetSizes.donk`.
    rake: share of every pot that the house takes. Trees are of games of zero sum and refuse it;
      lines of betting (`games.poker.lines`) do not.
    rake_cap: the most chips that it takes; None for any number.

  Raises:
    ValueError: the rake is no share, or chips are not whole, negative, or more than there are.
  """

  stacks: tuple[Stack, Stack] = (20_000, 20_000)
  paid: tuple[Stake, Stake] = (1_000, 1_000)
  big_blind: Stack = 100
  first_to_act: tuple[Player, ...] = (0,)
  dead: Stake = 0
  tells_bettor: bool = False
  rake: Annotated[float, (0, 0.5)] = 0.0
  rake_cap: Stake | None = None

  def __post_init__(self):
    check_fields(self)
    if max(self.paid) > self.stack:
      raise ValueError(
        f"paid={self.paid} is more than the smaller of stacks={self.stacks}; at most "
        f"{self.stack} can be in"
      )
    if not self.first_to_act:
      raise ValueError("first_to_act=() must be 0s and 1s, one for each round")

  @classmethod
  @checked
  def with_blinds(
    cls,
    stacks: tuple[int, int],
    blinds: tuple[Stake, Stake],
    big_blind: int,
    first_to_act: tuple[int, ...],
  ) -> "Betting":
    """Returns the rules of a hand whose players put in blinds, or what they have if that is less.

    Raises:
      ValueError: as of the class.
    """
    unblinded = cls(stacks, (0, 0), big_blind, first_to_act)
    first, second = (min(x, unblinded.stack) for x in blinds)
    return dataclasses.replace(unblinded, paid=(first, second))

  @property
  def stack(self) -> int:
    """The chips that can be lost at the start: the smaller stack."""
    return min(self.stacks)

  @property
  def pot(self) -> int:
    """The chips in the pot at the start."""
    return sum(self.paid) + self.dead

  def start(self) -> np.ndarray:
    """Returns the state before the first action: `[NUM_COLUMNS]`."""
    state = np.zeros(NUM_COLUMNS, np.int64)
    state[ACTOR] = self.first_to_act[0]
    state[[PAID_0, PAID_1]] = self.paid
    # A blind is a bet: the first raise must be at least as large.
    state[LAST_RAISE] = abs(self.paid[0] - self.paid[1])
    state[STACK] = self.stack
    state[START] = self.paid[0] if self.paid[0] == self.paid[1] else 0
    if min(self.paid) == self.stack:
      state[STATUS] = CLOSED
    return state

  def stakes(self, states: Rows) -> Rows:
    """Returns the payoff of player 0 if it wins the hand, without rake: `[n]` chips.

    Half of the pot without a bet that nobody called, negative where player 0 folded; in units of
    `stack`, for states with another.
    """
    paid = xp.minimum(states[:, PAID_0], states[:, PAID_1]).astype(float)
    paid = paid + self.dead / 2 if self.dead else paid
    paid = paid * (self.stack / states[:, STACK].astype(float))
    return xp.where(states[:, STATUS] == FOLDED_0, -paid, paid)

  def raked(self, pots: np.ndarray) -> np.ndarray:
    """Returns the rake of pots, in chips."""
    most = np.inf if self.rake_cap is None else self.rake_cap
    return np.minimum(self.rake * pots, most)

  def highest(self, states: Rows) -> Rows:
    """Returns the most that a player has put in: `[n]`; a call puts in as much."""
    return xp.maximum(states[:, PAID_0], states[:, PAID_1])

  def may_fold(self, states: Rows) -> Rows:
    """Says where the player to act faces a bet, and may fold: `[n]`."""
    own = xp.where(states[:, ACTOR] == 0, states[:, PAID_0], states[:, PAID_1])
    return (states[:, STATUS] == GOING_ON) & (own < self.highest(states))

  def may_raise(self, states: Rows) -> Rows:
    """Says where a player may still bet or raise: `[n]`."""
    return (states[:, STATUS] == GOING_ON) & (self.highest(states) < states[:, STACK])

  def least_raise(self, states: Rows) -> Rows:
    """Returns the least that a raise may bring a player's chips in the pot to: `[n]`.

    All-in where the stack does not reach further.
    """
    smallest = xp.maximum(states[:, LAST_RAISE], self.big_blind)
    return xp.minimum(self.highest(states) + smallest, states[:, STACK])

  def at(self, state: np.ndarray) -> BettingTurn:
    """Returns the betting at one `state` as a record."""
    status, paid = int(state[STATUS]), (int(state[PAID_0]), int(state[PAID_1]))
    may_fold, may_raise, least = (
      f(state[None])[0].item() for f in (self.may_fold, self.may_raise, self.least_raise)
    )
    return BettingTurn(
      round=int(state[ROUND]),
      actor=int(state[ACTOR]) if status == GOING_ON else None,
      folded={FOLDED_0: 0, FOLDED_1: 1}.get(status),
      paid=paid,
      highest=max(paid),
      began_at=int(state[START]),
      may_fold=may_fold,
      raises=(least, int(state[STACK])) if may_raise else None,
    )

  def check_raise(self, state: np.ndarray, to: int) -> int:
    """Returns `to` if raising to `to` chips in the pot is legal in one `state`.

    Raises:
      ValueError: no raise is, or this one is too small, too large, or not a whole number.
    """
    check_integer("bet", to, least=0, most=MAX_CHIPS)
    if (raises := self.at(state).raises) is None:
      raise ValueError(f"bet={to} is not legal where nobody may raise")
    least, most = raises
    if to < least:
      raise ValueError(f"bet={to} is below the minimum: a player's chips in must reach {least}")
    if to > most:
      raise ValueError(f"bet={to} is more than the smaller stack of {most} chips")
    return int(to)

  def fold(self, states: Rows) -> Rows:
    """Returns the states after the actor folds."""
    return with_columns(states, {STATUS: xp.where(states[:, ACTOR] == 0, FOLDED_0, FOLDED_1)})

  def call(self, states: Rows) -> Rows:
    """Returns the states after the actor calls, or checks."""
    new = self._pay(states, self.highest(states))
    stack = states[:, STACK]
    both_in = (new[:, PAID_0] == stack) & (new[:, PAID_1] == stack)
    closes = (states[:, ACTED] > 0) | both_in
    forgotten = {x: xp.where(closes, 0, new[:, x]) for x in (LAST_RAISE, RAISES, ACTED, START)}
    if self.tells_bettor:  # whoever does not call has bet last
      told = closes & (states[:, RAISES] > 0)
      forgotten[LAST_RAISE] = xp.where(told, states[:, ACTOR] - 2, forgotten[LAST_RAISE])
    status = xp.where(closes, CLOSED, new[:, STATUS])
    actor = xp.where(both_in, 0, new[:, ACTOR])
    return with_columns(new, forgotten | {STATUS: status, ACTOR: actor})

  def leads(self, states: Rows) -> Rows:
    """Says where the first to act in a round may bet into who bet last on the one before: `[n]`."""
    other = states[:, ACTOR] - 2  # what the last raise is if the other player did
    return (states[:, ACTED] == 0) & (states[:, RAISES] == 0) & (states[:, LAST_RAISE] == other)

  def raise_to(self, states: Rows, to: Any) -> Rows:
    """Returns the states after the actor bets or raises to `to` `[n]` chips in all."""
    last = xp.maximum(to - self.highest(states), states[:, LAST_RAISE])
    raises = states[:, RAISES] + 1
    return with_columns(self._pay(states, to), {LAST_RAISE: last, RAISES: raises})

  def next_round(self, states: Rows) -> Rows:
    """Returns the states at the start of the next round; closed at once if all chips are in."""
    started = states[:, ROUND] + 1
    actor = lookup(self.first_to_act, xp.minimum(started, len(self.first_to_act) - 1))
    status = xp.where(self.highest(states) == states[:, STACK], CLOSED, GOING_ON)
    new = {ROUND: started, ACTOR: actor, STATUS: status, START: self.highest(states)}
    last = xp.minimum(states[:, LAST_RAISE], 0) if self.tells_bettor else 0
    return with_columns(states, new | {LAST_RAISE: last, RAISES: 0, ACTED: 0})

  def _pay(self, states: Rows, to: Any) -> Rows:
    actor = states[:, ACTOR]
    return with_columns(
      states,
      {
        PAID_0: xp.where(actor == 0, to, states[:, PAID_0]),
        PAID_1: xp.where(actor == 1, to, states[:, PAID_1]),
        ACTED: states[:, ACTED] + 1,
        ACTOR: 1 - actor,
      },
    )
