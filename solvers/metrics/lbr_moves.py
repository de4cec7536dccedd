"""The moves that local best response considers, and what each is worth to each hand."""

import dataclasses
from collections.abc import Callable

import numpy as np

from games.poker import Holdem, betting
from games.poker.holdem import CALL, FIRST_BET, FOLD
from solvers.metrics.equity import NOTHING, Equity

_MOVES = "FCPA"
_TIE = 1e-9  # of the stack: moves nearer in value are equally good


@dataclasses.dataclass(frozen=True)
class LBRRules:
  """Which moves LBR considers.

  Attributes:
    rounds: the moves of each round of betting, letters of `F` fold, `C` check or call, `P` the pot,
      `A` all-in; the last entry holds for later rounds. The default is that of ReBeL's table 1.

  Moves that the game lacks at a state are left out. `P` is the bet whose chips are nearest to those
  of a raise by the pot after calling (all-in counts, and of two as near the smaller is taken).

  Raises:
    ValueError: an entry holds another letter, one twice, or no `C`, which is always legal.
  """

  rounds: tuple[str, ...] = ("C", "C", "FCPA", "FCPA")

  def __post_init__(self):
    known = isinstance(self.rounds, tuple | list) and all(isinstance(x, str) for x in self.rounds)
    if not known or not self.rounds:
      raise ValueError(f"rounds={self.rounds!r} must be strings such as 'FCPA', one for each round")
    for moves in self.rounds:
      if set(moves) - set(_MOVES) or len(set(moves)) < len(moves) or "C" not in moves:
        raise ValueError(
          f"rounds={self.rounds!r} holds {moves!r}; each must be different letters of {_MOVES!r}, "
          "C among them"
        )

  def moves(self, game: Holdem, state: np.ndarray) -> list[int]:
    """Returns the actions that LBR considers in one public `state` `[S]`, in the order of F C P A.

    Each is there once, also where the pot is all-in.
    """
    letters = self.rounds[min(int(state[betting.ROUND]), len(self.rounds) - 1)]
    to = game.amounts(state[None])[0]
    highest = int(game.rules.highest(state[None])[0])
    raises = {FIRST_BET + i: int(chips) for i, chips in enumerate(to) if chips >= 0}
    found = [FOLD] if "F" in letters and game.rules.may_fold(state[None])[0] else []
    found.append(CALL)
    if "P" in letters and raises:
      pot = min(3 * highest + game.rules.dead, game.rules.stack)
      found.append(min(raises, key=lambda action: (abs(raises[action] - pot), raises[action])))
    if "A" in letters:
      found += [action for action, chips in raises.items() if chips == game.rules.stack]
    return list(dict.fromkeys(found))


def move_values(
  game: Holdem,
  state: np.ndarray,
  reach: np.ndarray,
  fallback: np.ndarray,
  folds: Callable[[int], np.ndarray],
  equity: Equity,
  actions: list[int],
) -> np.ndarray:
  """Computes what each action is worth to each hand if both check or call afterwards.

  With `P` chips in the pot, `c` to call, and `w` the share of the pot that a hand wins against a
  range: folding is worth 0, calling `w P - (1 - w) c`, and a bet that puts in `x` chips
  `f P + (1 - f) (w' (P + x - c) - (1 - w') x)`, where `f` of the range folds and `w'` is the share
  against those who do not (Lisy and Bowling, 2017, algorithm 1).

  Args:
    game: the rules.
    state: `[S]` where LBR acts.
    reach: `[H]` the opponent's range, of any sum.
    fallback: `[H]` its range for hands of LBR against which `reach` leaves nothing.
    folds: how likely each hand folds to a bet, `[H]`, given the bet's action.
    equity: of the game.
    actions: those asked for.

  Returns:
    `[M, H]` chips, those in the pot before counted as the pot's.
  """
  if len(actions) == 1:  # nothing to compare
    return np.zeros((1, len(reach)))
  paid = state[[betting.PAID_0, betting.PAID_1]]
  own, highest = int(paid[int(state[betting.ACTOR])]), int(paid.max())
  pot, to_call = int(paid.sum()) + game.rules.dead, highest - own
  amounts, dealt = game.amounts(state[None])[0], game.dealt(state[None])[0]

  def against(reach: np.ndarray) -> np.ndarray:
    share, mass = equity(dealt, reach)
    values = np.zeros((len(actions), len(reach)))
    for row, action in zip(values, actions):
      if action == CALL:
        row[:] = share * pot - (1 - share) * to_call
      elif action != FOLD:
        chips = int(amounts[action - FIRST_BET]) - own
        called, stays = equity(dealt, reach * (1 - folds(action)))
        some = np.where(mass > 0, mass, 1.0)
        stay = np.where(stays > NOTHING * some, np.minimum(stays / some, 1.0), 0.0)
        won = called * (pot + chips - to_call) - (1 - called) * chips
        row[:] = (1 - stay) * pot + stay * won
    return np.where(mass > 0, values, np.nan)

  values = against(reach)
  if np.isnan(values).any():
    values = np.where(np.isnan(values), np.nan_to_num(against(fallback)), values)
  return values


def best_actions(game: Holdem, values: np.ndarray) -> np.ndarray:
  """Returns which row of `values` `[M, H]` is the best for each hand, `[H]`; the first of ties."""
  return (values > values.max(axis=0) - _TIE * game.rules.stack).argmax(axis=0)
