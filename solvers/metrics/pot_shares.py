"""Value function of hold'em whose tree is too large to be written out, for AIVAT.

It is fixed before any hand: what both players have put in, times how much more of the pot one hand
would get than the other if nobody bet any more. It knows nothing of how anybody plays.
"""

import functools
import math
from collections.abc import Callable

import numpy as np

from games.game import Game
from games.poker import Holdem, betting
from solvers import validation
from solvers.metrics.aivat import Hands, History, LuckyMove, ValueFunction, chance_of
from solvers.metrics.equity import final_boards, strengths_where

MAX_RUNOUTS = 2_000
# What the whole way through the order of hands on a flop is worth, in shares of the pot: about what
# least squares over flops and pairs of hands drawn at random gave. Any number is unbiased.
_WORTH_OF_ORDER = 1.25
_BOARDS_AT_ONCE = 1_024


class PotShares(ValueFunction):
  """Shares of the pot if nobody bet any more, times the chips.

  Where the ways to deal the rest of the board are at most `max_runouts`, shares are means over all
  of them. Where they are more before the first deal, as before a flop, a hand counts as much as its
  place in the order of hands after that deal, on average over its outcomes; the deal is corrected
  by that place. Later deals that leave too many are not corrected, which costs no bias.

  Args:
    game: hold'em.
    max_runouts: how many ways to deal the rest of the board may be looked at.

  Raises:
    TypeError: the game is not hold'em.
  """

  def __init__(self, game: Holdem, *, max_runouts: int = MAX_RUNOUTS):
    if not isinstance(game, Holdem):
      raise TypeError(f"game={game!r} must be hold'em; zero_values is for any game")
    self._game = game
    self._max_runouts = validation.check_integer("max_runouts", max_runouts)
    self._runouts = functools.lru_cache(maxsize=16)(self._list_runouts)
    self._root_shares: np.ndarray | None = None

  def prepare(self, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
    """Computes the values before the first deal, of a pot of one chip each: `[H, H]`.

    They are computed once, by the first hand if not here; `progress` is called with how much is
    done, and all there is.
    """
    if self._root_shares is None:
      if self._listed(()):
        everyone = np.arange(self._game.num_infostates)
        columns = [_shares(self._runouts(()), (everyone, everyone[h : h + 1])) for h in everyone]
        self._root_shares = np.stack(columns, axis=1)
      else:
        self._root_shares = self._mean_orders(progress)
    return self._root_shares

  def at(self, history: History, state: np.ndarray, hands: Hands) -> np.ndarray:
    """See `ValueFunction`; where the hand is over, what player 0 wins."""
    del history
    chips = float(self._game.payoff_scale(state[None])[0])  # negative where player 0 folded
    if state[betting.STATUS] in (betting.FOLDED_0, betting.FOLDED_1):
      return np.full(hands[0].shape, chips)
    dealt = self._dealt(state)
    if not dealt:
      return chips * self.prepare()[hands]
    if not self._listed(dealt):
      return np.zeros(hands[0].shape)
    return chips * _shares(self._runouts(dealt), hands)

  def deal(
    self, game: Game, history: History, state: np.ndarray, action: int, hands: Hands
  ) -> LuckyMove:
    """See `ValueFunction`; all other cards that could have come are one outcome."""
    weight = chance_of(game, state, np.array([action]), hands)[0]
    value = mean = np.zeros(weight.shape)
    dealt, after = self._dealt(state), game.next_states(state[None], np.array([action]))[0]
    if self._listed(dealt):
      value, mean = self.at((), after, hands), self.at((), state, hands)
    elif not dealt and (cards := self._dealt(after)):
      order = self._order(np.array([cards]))[0]
      chips = float(self._game.payoff_scale(state[None])[0])
      value = _WORTH_OF_ORDER * chips * (order[hands[0]] - order[hands[1]])
      mean = self.at((), state, hands)
    rest = 1 - weight
    others = (mean - weight * value) / np.where(rest > 0, rest, 1)
    return LuckyMove(0, np.stack([weight, rest]), np.stack([value, others]))

  def _listed(self, dealt: tuple[int, ...]) -> bool:
    """Says whether all ways to deal the rest of the board are looked at."""
    free = self._game.deck.num_cards - len(self._game.board) - len(dealt)
    return math.comb(free, sum(self._game.deals) - len(dealt)) <= self._max_runouts

  def _dealt(self, state: np.ndarray) -> tuple[int, ...]:
    return tuple(int(card) for card in self._game.dealt(state[None])[0] if card >= 0)

  def _list_runouts(self, dealt: tuple[int, ...]) -> np.ndarray:
    """Returns strengths on all final boards: `[B, H]`."""
    return strengths_where(self._game, final_boards(self._game, dealt))

  # Where boards are too many.

  def _order(self, dealt: np.ndarray) -> np.ndarray:
    """Returns each hand's place in the order of hands, 0 to 1, where `dealt` `[B, k]` are dealt.

    `[B, H]`, -1 where the cards block the hand.
    """
    strengths = strengths_where(self._game, dealt)
    found = np.full(strengths.shape, -1.0)
    for row, strength in zip(found, strengths):
      live = strength >= 0
      ranked = np.sort(strength[live])
      weaker, upto = (np.searchsorted(ranked, strength[live], side) for side in ("left", "right"))
      row[live] = (weaker + upto) / (2 * len(ranked))
    return found

  def _mean_orders(self, progress: Callable[[int, int], None] | None) -> np.ndarray:
    """Returns by how much player 0's place is better than player 1's: `[H, H]`.

    The mean is over all outcomes of the first deal that both hands leave, in units of the value
    function.
    """
    game = self._game
    sets = game.dealing.sets[0]
    sets = sets[~np.isin(sets, game.board).any(axis=1)]
    total = np.zeros((game.num_infostates,) * 2)
    for first in range(0, len(sets), _BOARDS_AT_ONCE):
      if progress is not None:
        progress(first, len(sets))
      order = self._order(sets[first : first + _BOARDS_AT_ONCE])
      live = (order >= 0).astype(float)
      places = (order * live).T @ live
      total += places - places.T
    return _WORTH_OF_ORDER * float(game.dealing.probability(np.array([0]))[0]) * total


def _shares(strengths: np.ndarray, hands: Hands) -> np.ndarray:
  """Returns wins less losses as a share of the boards that both hands of a pair leave: `[K]`.

  Args:
    strengths: `[B, H]` on final boards, -1 where blocked.
    hands: pairs.
  """
  first, second = strengths[:, hands[0]], strengths[:, hands[1]]
  both = (first >= 0) & (second >= 0)
  wins, number = (np.sign(first - second) * both).sum(axis=0), both.sum(axis=0)
  return np.where(number > 0, wins / np.maximum(number, 1), 0.0)
