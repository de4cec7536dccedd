"""Simple players of no-limit hold'em, to test and to measure against."""

import abc
from collections.abc import Callable

import numpy as np

from games.poker.hands import evaluate
from rebel_jax.tables.chips import Call, Cards, Event, Fold, Move, RaiseTo, Table, TableRules


class Seated(abc.ABC):
  """A player who follows the hand at a table of its own.

  Attributes:
    rules: what is played.
    seat: 0 or 1.
    table: the hand so far, the other's cards unknown.
  """

  def __init__(self, rules: TableRules, *, seed: int = 0):
    self.rules, self.seat = rules, 0
    self.table = Table(rules)
    self.rng = np.random.default_rng(seed)

  def start(self, seat: int, hole_cards: Cards) -> None:
    """See `ChipPlayer`."""
    if seat not in (0, 1):
      raise ValueError(f"seat={seat!r} must be 0 or 1")
    self.seat = seat
    held = (hole_cards, None) if seat == 0 else (None, hole_cards)
    self.table = Table(self.rules, held)

  def observe(self, event: Event) -> None:
    """See `ChipPlayer`."""
    self.table.apply(event)

  @abc.abstractmethod
  def act(self) -> Move:
    """See `ChipPlayer`."""

  def pot_raise(self) -> Move:
    """Returns a raise by the pot, to the nearest legal size; a call where nobody may raise."""
    if self.table.raises is None:
      return Call()
    least, most = self.table.raises
    return RaiseTo(min(max(3 * self.table.highest, least), most))


class AlwaysCall(Seated):
  """Checks and calls."""

  def act(self) -> Move:
    """See `ChipPlayer`."""
    return Call()


class AlwaysFold(Seated):
  """Folds to every bet, else checks."""

  def act(self) -> Move:
    """See `ChipPlayer`."""
    return Fold() if self.table.may_fold else Call()


class PotManiac(Seated):
  """Raises by the pot, all-in where that is more than it has."""

  def act(self) -> Move:
    """See `ChipPlayer`."""
    return self.pot_raise()


class Uniform(Seated):
  """Folds, calls or raises, each that is legal as likely; every size of a raise as likely."""

  def act(self) -> Move:
    """See `ChipPlayer`."""
    raises = self.table.raises
    kinds = [Fold] * self.table.may_fold + [Call] + [RaiseTo] * (raises is not None)
    kind = kinds[self.rng.integers(len(kinds))]
    if raises is None or kind is not RaiseTo:
      return Fold() if kind is Fold else Call()
    return RaiseTo(int(self.rng.integers(raises[0], raises[1] + 1)))


class EquityThreshold(Seated):
  """Bets the pot with much equity, calls where equity pays for it, folds else.

  Equity is what the hand wins on average, ties as half, against a random hand on random boards.
  """

  def __init__(
    self, rules: TableRules, *, samples: int = 200, bet_above: float = 0.65, seed: int = 0
  ):
    super().__init__(rules, seed=seed)
    self.samples, self.bet_above = samples, bet_above

  def act(self) -> Move:
    """See `ChipPlayer`."""
    table, equity = self.table, self.equity()
    if equity > self.bet_above:
      return self.pot_raise()
    # A call of c chips wins back its share of a pot of twice the highest bet.
    cost = table.highest - min(table.paid)
    return Call() if equity * 2 * table.highest >= cost else Fold()

  def equity(self) -> float:
    """Returns an estimate of the hand's equity."""
    held, board = self.table.hole_cards[self.seat], self.table.board
    assert held is not None
    unseen = np.setdiff1d(np.arange(self.rules.deck.num_cards), [*held, *board])
    come = sum(self.rules.deals) - len(board)
    shuffled = self.rng.permuted(np.tile(unseen, (self.samples, 1)), axis=1)
    known = np.tile(board, (self.samples, 1)).astype(int)
    shown = np.concatenate([known, shuffled[:, 2 : 2 + come]], axis=1)
    own = np.concatenate([np.tile(held, (self.samples, 1)), shown], axis=1)
    other = np.concatenate([shuffled[:, :2], shown], axis=1)
    wins = np.sign(evaluate(self.rules.deck, own).astype(int) - evaluate(self.rules.deck, other))
    return float((1 + wins.mean()) / 2)


OPPONENTS: dict[str, Callable[..., Seated]] = {
  "always_call": AlwaysCall,
  "always_fold": AlwaysFold,
  "equity_threshold": EquityThreshold,
  "pot_maniac": PotManiac,
  "uniform": Uniform,
}
