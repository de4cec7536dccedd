"""Players who follow a hand of no-limit hold'em at a table of their own, simple ones among them."""

import abc

import numpy as np

from rebel_jax.evaluation.opponents import OPPONENTS, Decision
from rebel_jax.tables.chips import Call, Cards, ChipTable, Event, Fold, Move, RaiseTo, TableRules


class Seated(abc.ABC):
  """A player who follows the hand at a table of its own.

  Attributes:
    rules: what is played.
    seat: 0 or 1.
    table: the hand so far, the other's cards unknown.
  """

  def __init__(self, rules: TableRules, *, seed: int = 0):
    self.rules, self.seat = rules, 0
    self.table = ChipTable(rules)
    self.rng = np.random.default_rng(seed)

  def start(self, seat: int, hole_cards: Cards) -> None:
    """See `ChipPlayer`."""
    if seat not in (0, 1):
      raise ValueError(f"seat={seat!r} must be 0 or 1")
    self.seat = seat
    held = (hole_cards, None) if seat == 0 else (None, hole_cards)
    self.table = ChipTable(self.rules, held)

  def observe(self, event: Event) -> None:
    """See `ChipPlayer`."""
    self.table.apply(event)

  @abc.abstractmethod
  def act(self) -> Move:
    """See `ChipPlayer`."""


class SimpleSeat(Seated):
  """One of `OPPONENTS`, by name."""

  def __init__(self, name: str, rules: TableRules, *, seed: int = 0):
    super().__init__(rules, seed=seed)
    self._wish = OPPONENTS[name].wish

  @property
  def decision(self) -> Decision:
    """What the player looks at now."""
    rules, board, held = self.rules, self.table.board, self.table.hole_cards[self.seat]
    to_come = sum(rules.deals) - len(board)
    return Decision(rules.rules, rules.deck, self.table.state, held or (), board, to_come)

  def act(self) -> Move:
    """See `ChipPlayer`."""
    wish = self._wish(self.decision, self.rng)
    if isinstance(wish, int):
      return RaiseTo(wish)
    return Fold() if wish == "fold" else Call()
