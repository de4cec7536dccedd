"""Kuhn poker: three cards, one bet."""

import numpy as np

from games.game import TERMINAL, Game

PASS, BET = 0, 1
_HISTORIES = ("", "p", "b", "pp", "pb", "bp", "bb", "pbp", "pbb")
# Payoff table (0: pot to the player who did not fold, 1: showdown) and its scale.
_ENDS = {"pp": (1, 1.0), "bp": (0, 1.0), "bb": (1, 2.0), "pbp": (0, -1.0), "pbb": (1, 2.0)}


class KuhnPoker(Game):
  """Kuhn poker: both players ante one chip and get one of three cards; one bet of one chip.

  Infostates are the cards Jack, Queen, King; the players' cards differ. Actions are 0 (pass:
  check or fold) and 1 (bet: bet or call). Payoffs are chips. The value to player 0 is -1/18.
  A public state is an index into the nine betting histories.
  """

  name = "kuhn_poker"
  num_infostates = 3
  num_actions = 2

  def initial_state(self):
    return np.array([0])

  def actor(self, states):
    actor = [TERMINAL if history in _ENDS else len(history) % 2 for history in _HISTORIES]
    return np.array(actor)[states[:, 0]]

  def legal_actions(self, states):
    return np.ones((len(states), 2), bool) & (self.actor(states) != TERMINAL)[:, None]

  def next_states(self, states, actions):
    table = np.full((len(_HISTORIES), 2), -1)
    for i, history in enumerate(_HISTORIES):
      if history not in _ENDS:
        table[i] = [_HISTORIES.index(history + "p"), _HISTORIES.index(history + "b")]
    return table[states[:, 0], actions][:, None]

  def pair_weights(self):
    return 1.0 - np.eye(3)[None]

  def payoffs(self):
    card = np.arange(3)
    return np.stack([np.ones((3, 3)), np.sign(card[:, None] - card[None])])

  def payoff_index(self, states):
    return np.array([_ENDS.get(history, (0, 0.0))[0] for history in _HISTORIES])[states[:, 0]]

  def payoff_scale(self, states):
    return np.array([_ENDS.get(history, (0, 0.0))[1] for history in _HISTORIES])[states[:, 0]]

  def features(self, states, player):
    history = states[:, :1] == np.arange(len(_HISTORIES))
    seat = np.full((len(states), 1), player)
    return np.concatenate([seat, history], axis=1).astype(float)

  def action_name(self, action):
    return ("pass", "bet")[action]

  def infostate_name(self, player, infostate):
    return "JQK"[infostate]
