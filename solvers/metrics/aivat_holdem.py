"""AIVAT of hold'em whose tree is too large to be written out: hands are followed move by move.

The value function is fixed before any hand: what both players have put in, times how much more of
the pot one hand would get than the other if nobody bet any more. It knows nothing of how anybody
plays.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from games.game import CHANCE, TERMINAL
from games.poker import Holdem, betting
from games.public_tree import Array
from solvers.metrics.aivat import HandRecord, Move, check_infostates, row_of
from solvers.metrics.equity import final_boards, strengths_where

MAX_RUNOUTS = 2_000
# What the whole way through the order of hands on a flop is worth, in shares of the pot: about what
# least squares over flops and pairs of hands drawn at random gave. Any number is unbiased.
_WORTH_OF_ORDER = 1.25
_BOARDS_AT_ONCE = 1_024

HistoryRows = Mapping[tuple[int, ...], Array]  # the rows `[H]` of a policy, by public history


class _Step(NamedTuple):
  """A public state of a hand: who moves, what is legal for a player, and where that leads."""

  mover: int
  state: np.ndarray
  legal: np.ndarray
  below: np.ndarray


class HoldemRecorder:
  """Gathers hands of hold'em for `aivat`, without a tree.

  Where the ways to deal the rest of the board are at most `max_runouts`, shares of the pot are
  means over all of them, and each deal is corrected over all of its outcomes. Where they are more
  before the first deal, as before a flop, a hand counts as much as its place in the order of hands
  after that deal, on average over its outcomes; the deal is corrected by that place. Later deals
  that leave too many are not corrected, which costs no bias.

  Args:
    game: hold'em.
    max_runouts: how many ways to deal the rest of the board may be looked at.

  Raises:
    TypeError: the game is not hold'em.
  """

  def __init__(self, game: Holdem, *, max_runouts: int = MAX_RUNOUTS):
    if not isinstance(game, Holdem):
      raise TypeError(f"game={game!r} must be hold'em; HandRecorder is for other games")
    self._game, self._max_runouts = game, max_runouts
    prior = np.asarray(game.prior(), float)
    joint = prior[0][:, None] * prior[1] * game.pairs().weight_table(0)
    self._joint = joint / joint.sum()
    self._steps = functools.lru_cache(maxsize=512)(self._follow)
    self._runouts = functools.lru_cache(maxsize=16)(self._list_runouts)
    self._root_shares: np.ndarray | None = None

  def prepare(self, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
    """Computes the value function before the first deal, of a pot of one chip each: `[J, K]`.

    It is computed once, by the first hand if not here; `progress` is called with how much is done,
    and all there is.
    """
    if self._root_shares is None:
      if self._listed(()):
        self._root_shares = self._all_shares()
      else:
        self._root_shares = self._mean_orders(progress)
    return self._root_shares

  def record(
    self,
    history: Sequence[int],
    infostates: tuple[int | None, int | None],
    policy: HistoryRows,
  ) -> HandRecord:
    """Returns the record of a hand.

    Args:
      history: public actions, chance's too, from the start of the game to an end.
      infostates: what each player held; None for the one whose policy is known.
      policy: rows `[H]` by public history: the known player's policy in this hand, at each move
        that it had, the ones not taken too, under the history that the move leads to.

    Returns:
      The record; payoffs are the known player's.

    Raises:
      TypeError: an argument is of another kind.
      ValueError: `history` does not end the game, or `infostates` are not allowed.
    """
    game, moves = self._game, []
    seat, held = check_infostates(infostates, game.num_infostates)
    if seat is None:
      raise ValueError(f"infostates={infostates!r} must hold None for one player")
    sign = 1.0 - 2.0 * seat
    history = tuple(int(action) for action in history)
    *steps, end = self._steps(history)
    if end.mover != TERMINAL:
      raise ValueError(f"history={history} must lead to where the game is over")
    for place, (step, following) in enumerate(zip(steps, [*steps[1:], end])):
      action = history[place]
      if step.mover == CHANCE and action != game.burn:
        moves.append(self._deal(step.state, following.state, held))
      elif step.mover == seat:
        rows = [
          row_of(policy, (*history[:place], x), game.num_infostates) for x in step.legal.tolist()
        ]
        values = np.stack([self._worth(state, held, sign) for state in step.below])
        moves.append(Move(step.legal.tolist().index(action), np.stack(rows), values))
    joint = self._joint.T if seat == 0 else self._joint
    chips = float(game.payoff_scale(game.initial_state()[None])[0])
    payoffs = self._worth(end.state, held, sign)
    return HandRecord(joint, chips * self.prepare(), held, tuple(moves), payoffs)

  def _follow(self, history: tuple[int, ...]) -> list["_Step"]:
    """Returns the states that a history leads through, and what players can do in each."""
    game, state, found = self._game, self._game.initial_state(), []
    for action in (*history, None):
      mover, legal, below = int(game.actor(state[None])[0]), np.zeros(0, int), state[None][:0]
      if mover < CHANCE:
        legal = np.flatnonzero(game.legal_actions(state[None])[0])
        below = game.next_states(np.tile(state, (len(legal), 1)), legal)
      found.append(_Step(mover, state, legal, below))
      if action is not None:
        state = game.next_states(state[None], np.array([action]))[0]
    return found

  # The value function: `[K]` of the known player's hands against the one that the other held.

  def _worth(self, state: np.ndarray, held: int, sign: float) -> np.ndarray:
    """Returns what the known player wins by the value function; at an end that is what it wins."""
    chips = float(self._game.payoff_scale(state[None])[0])  # negative where player 0 folded
    if state[betting.STATUS] in (betting.FOLDED_0, betting.FOLDED_1):
      return np.full(self._game.num_infostates, sign * chips)
    dealt = self._dealt(state)
    if not dealt:
      return chips * self.prepare()[held]
    if not self._listed(dealt):
      return np.zeros(self._game.num_infostates)
    strengths, _ = self._runouts(dealt)
    return chips * _shares(strengths, np.ones((1, len(strengths)), np.float32), held)[0]

  def _all_shares(self) -> np.ndarray:
    strengths, _ = self._runouts(())
    every = np.ones((1, len(strengths)), np.float32)
    hands = range(self._game.num_infostates)
    return np.concatenate([_shares(strengths, every, held) for held in hands])

  def _deal(self, state: np.ndarray, after: np.ndarray, held: int) -> Move:
    """Returns chance's move from `state` to `after`, and what else could have been dealt."""
    game, dealt, now = self._game, self._dealt(state), self._dealt(after)
    chips = float(game.payoff_scale(state[None])[0])
    number = int(state[betting.ROUND])
    probability = float(game.dealing.probability(np.array([number]))[0])
    new = sorted(card for card in now if card not in dealt)
    if not self._listed(dealt):
      weight = probability * self._left_by(np.array([new]))
      if dealt:
        return Move(0, weight, np.zeros_like(weight))
      return self._first_deal_of_many(new, held, chips, weight[0])
    strengths, boards = self._runouts(dealt)
    sets = game.dealing.sets[number]
    outcomes = sets[~np.isin(sets, [*game.board, *dealt]).any(axis=1)]
    follows = (boards[None, :, :, None] == outcomes[:, None, None]).any(axis=2).all(axis=2)
    values = chips * _shares(strengths, follows.astype(np.float32), held)
    left = self._left_by(outcomes)
    taken = int(np.flatnonzero((outcomes == new).all(axis=1))[0])
    return Move(taken, probability * (left & left[:, [held]]), values)

  def _first_deal_of_many(
    self, new: list[int], held: int, chips: float, weight: np.ndarray
  ) -> Move:
    """Returns a deal of too many outcomes: the one that came, and all others as one."""
    order = self._order(np.array([new]))[0]
    value = _WORTH_OF_ORDER * chips * (order - order[held])
    others = (chips * self.prepare()[held] - weight * value) / (1 - weight)
    return Move(0, np.stack([weight, 1 - weight]), np.stack([value, others]))

  def _listed(self, dealt: tuple[int, ...]) -> bool:
    """Says whether all ways to deal the rest of the board are looked at."""
    free = self._game.deck.num_cards - len(self._game.board) - len(dealt)
    return math.comb(free, sum(self._game.deals) - len(dealt)) <= self._max_runouts

  def _dealt(self, state: np.ndarray) -> tuple[int, ...]:
    return tuple(int(card) for card in self._game.dealt(state[None])[0] if card >= 0)

  def _left_by(self, cards: np.ndarray) -> np.ndarray:
    """Says which hands are left by sets of cards `[C, k]`: `[C, H]`."""
    hands = np.asarray(self._game.hole_cards)
    return ~(hands[None, :, :, None] == cards[:, None, None]).any(axis=(2, 3))

  def _list_runouts(self, dealt: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Returns strengths `[B, H]` on all final boards, and the boards' cards `[B, k]`."""
    boards = final_boards(self._game, dealt)
    return strengths_where(self._game, boards), boards

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
    """Returns by how much the known player's place is better than the other's: `[J, K]`.

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
      places = live.T @ (order * live)  # by the other's hand, then the known player's
      total += places - places.T
    return _WORTH_OF_ORDER * float(game.dealing.probability(np.array([0]))[0]) * total


def _shares(strengths: np.ndarray, follows: np.ndarray, held: int) -> np.ndarray:
  """Returns wins less losses as a share of the boards that both hands leave: `[C, K]`.

  Args:
    strengths: `[B, H]` on final boards, -1 where blocked.
    follows: `[C, B]` which boards each of `C` means is over.
    held: what the other holds.
  """
  theirs = strengths[:, [held]]
  both = (strengths >= 0) & (theirs >= 0)
  won = np.sign(strengths - theirs) * both
  # Sums of so few ones are exact in float32.
  wins, number = follows @ won.astype(np.float32), follows @ both.astype(np.float32)
  return np.where(number > 0, wins.astype(float) / np.maximum(number, 1), 0.0)
