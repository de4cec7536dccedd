"""Coin Toss (thesis, section 5.1.1): the game that shows what safe subgame solving is for."""

from typing import Annotated

import numpy as np

from games.arrays import Finite, checked, one_hot, xp
from games.game import CHANCE, PLAYER_0, PLAYER_1, TERMINAL, Game, register

HEADS, TAILS, FORFEIT = range(3)  # what player 1 answers
SELL, PLAY = 3, 4
_MAX_SUBGAMES = 10_000
_FIRST_SUBGAME = 5  # the outcomes of public chance after Play


class CoinToss(Game):
  """Player 0 sees a coin and sells it or plays; then player 1 guesses, or forfeits.

  Selling pays player 0 `sell[coin]`. If it plays, player 1 guesses the coin without having seen
  it: player 0 loses 1 if the guess is right and wins 1 if it is wrong or player 1 forfeits. With
  several subgames (thesis, Figure 5.4) public chance, which favours none, first says which of as
  many copies of that guess is played. Infostates of player 0 are the coin, heads or tails; player 1
  has its only one, 0.

  Actions: 0, 1, 2 are player 1's heads, tails and forfeit; 3 is sell, 4 play; 5 + i is the i-th
  subgame. A public state is 0 at the start, 1 before chance, 2 plus the subgame where player 1
  guesses, and then the end: sold, or after each answer.
  """

  name = "coin_toss"
  text = (
    "Who begins sees a coin and sells it, which ends the game, or plays. Then the other, who has "
    "not seen it, guesses heads or tails, or forfeits: a right guess wins one, else it loses."
  )
  num_infostates = 2

  @checked
  def __init__(
    self,
    sell: tuple[Finite, Finite] = (0.5, -0.5),
    num_subgames: Annotated[int, (1, _MAX_SUBGAMES)] = 1,
  ):
    self.sell, self.num_subgames = (float(sell[0]), float(sell[1])), num_subgames
    self.num_actions = _FIRST_SUBGAME + (num_subgames if num_subgames > 1 else 0)
    self._sold = 2 + num_subgames  # the first state of the end

  def initial_state(self):
    return np.array([0])

  def actor(self, states):
    state = states[:, 0]
    moving = xp.where(state == 0, PLAYER_0, xp.where(state == 1, CHANCE, PLAYER_1))
    return xp.where(state >= self._sold, TERMINAL, moving)

  def legal_actions(self, states):
    action = np.arange(self.num_actions)[None]
    first = (action == SELL) | (action == PLAY)
    guesses = action <= FORFEIT
    moving = xp.where(states == 0, first, xp.where(states == 1, action >= _FIRST_SUBGAME, guesses))
    return moving & (states < self._sold)

  def next_states(self, states, actions):
    state = states[:, 0]
    played = 1 if self.num_subgames > 1 else 2
    first = xp.where(actions == SELL, self._sold, played)
    chosen = actions - _FIRST_SUBGAME + 2
    answered = self._sold + 1 + actions
    after = xp.where(state == 0, first, xp.where(state == 1, chosen, answered))
    return after[:, None].astype(states.dtype)

  def prior(self):
    return np.array([[0.5, 0.5], [1.0, 0.0]])

  def chance(self, states, actions):
    probability = np.full((len(states),), 1.0 / self.num_subgames)
    return probability, np.ones((len(states), 2, self.num_infostates), bool)

  def stages(self, states):
    state = states[:, 0]
    return xp.where((state >= 2) & (state < self._sold), 1, 0)

  def payoffs(self):
    won = np.where(np.arange(3)[:, None] == [HEADS, TAILS], -1.0, 1.0)  # [answer, coin]
    tables = np.zeros((4, 2, 2))
    tables[:, :, 0] = [self.sell, *won]
    return tables

  def payoff_index(self, states):
    return states[:, 0] - self._sold

  def features(self, states, player):
    stage = one_hot(xp.minimum(states[:, 0], 2), 3)
    return xp.concatenate([xp.full((len(states), 1), player), stage], axis=1, dtype=float)

  def action_name(self, action):
    if action >= _FIRST_SUBGAME:
      return f"subgame {action - _FIRST_SUBGAME}"
    return ("heads", "tails", "forfeit", "sell", "play")[action]

  def infostate_name(self, player, infostate):
    return ("heads", "tails")[infostate] if player == 0 else "-"


register("coin_toss", CoinToss)
