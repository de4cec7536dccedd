"""Modified rock-paper-scissors (ReBeL, Figure 1): the smallest game with a hidden move."""

import numpy as np

from games.game import TERMINAL, Game
from games.registry import register

ROCK, PAPER, SCISSORS, HIDDEN_MOVE = range(4)
_START, _ANSWER, _FIRST_END = 0, 1, 2


class RockPaperScissors(Game):
  """Rock-paper-scissors, one player after the other, for double stakes if scissors shows.

  Player 0 moves unseen: publicly there is one action, after which player 0's infostate is its
  move (rock, paper, scissors) and player 1 still has its only one, 0. Player 1 then answers.
  The winner gets 1, or 2 if either played scissors; a tie pays 0. In the only equilibrium both
  play (0.4, 0.4, 0.2); the value is 0.

  Actions: 0, 1, 2 are player 1's rock, paper, scissors; 3 is player 0's hidden move.
  A public state is 0 at the start, 1 after player 0's move, 2 plus player 1's move at the end.
  """

  name = "rock_paper_scissors"
  num_infostates = 3
  num_actions = 4

  def initial_state(self):
    return np.array([_START])

  def actor(self, states):
    xp = states.__array_namespace__()
    return xp.where(states[:, 0] >= _FIRST_END, TERMINAL, states[:, 0])

  def legal_actions(self, states):
    hidden = states.__array_namespace__().arange(self.num_actions) == HIDDEN_MOVE
    return ((states == _START) == hidden) & (states < _FIRST_END)

  def next_states(self, states, actions):
    xp = states.__array_namespace__()
    after = xp.where(states == _START, _ANSWER, _FIRST_END + actions[:, None])
    return after.astype(states.dtype)

  def prior(self):
    return np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])

  def infostate_parents(self, states, actions):
    xp = states.__array_namespace__()
    mover = xp.where(states == _START, 0, xp.arange(3))
    other = xp.broadcast_to(xp.asarray([0, -1, -1]), mover.shape)
    return xp.stack([mover, other], axis=1)

  def payoffs(self):
    base = np.array([[0.0, -1.0, 2.0], [1.0, 0.0, -2.0], [-2.0, 2.0, 0.0]])
    tables = np.zeros((3, 3, 3))
    tables[:, :, 0] = base.T  # [player 1's move, player 0's move, player 1's infostate]
    return tables

  def payoff_index(self, states):
    return states[:, 0] - _FIRST_END

  def features(self, states, player):
    xp = states.__array_namespace__()
    stage = states == xp.arange(2)
    return xp.concat([xp.full((len(states), 1), player), stage], axis=1).astype(float)

  def action_name(self, action):
    return ("rock", "paper", "scissors", "hidden move")[action]

  def infostate_name(self, player, infostate):
    return ("rock", "paper", "scissors")[infostate] if player == 0 else "-"


register("rock_paper_scissors", RockPaperScissors)
