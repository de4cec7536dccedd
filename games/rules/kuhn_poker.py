"""Kuhn poker: three cards, one bet."""

import numpy as np

from games.arrays import one_hot, xp
from games.game import TERMINAL, register
from games.tabulate import Listed

PASS, BET = 0, 1
_HISTORIES = ("", "p", "b", "pp", "pb", "bp", "bb", "pbp", "pbb")
# Payoff table (0: pot to the player who did not fold, 1: showdown) and its scale.
_ENDS = {"pp": (1, 1.0), "bp": (0, 1.0), "bb": (1, 2.0), "pbp": (0, -1.0), "pbb": (1, 2.0)}


class KuhnPoker(Listed):
  """Kuhn poker: both players ante one chip and get one of three cards; one bet of one chip.

  Infostates are the cards Jack, Queen, King; the players' cards differ. Actions are 0 (pass:
  check or fold) and 1 (bet: bet or call). Payoffs are chips. The value to player 0 is -1/18.
  A public state is an index into the nine betting histories.
  """

  name = "kuhn_poker"
  text = (
    "Each has put in one chip and holds one of three cards, Jack, Queen or King. Pass checks, or "
    "folds to a bet; bet puts in one chip more, or calls. The higher card wins the pot."
  )
  num_infostates = 3
  num_actions = 2
  movers = np.array([TERMINAL if x in _ENDS else len(x) % 2 for x in _HISTORIES])
  after = np.array(
    [[_HISTORIES.index(x + y) if x not in _ENDS else -1 for y in "pb"] for x in _HISTORIES]
  )
  payoff_indices, scales = zip(*(_ENDS.get(history, (0, 0.0)) for history in _HISTORIES))

  def pair_weights(self):
    return 1.0 - np.eye(3)[None]

  def payoffs(self):
    card = np.arange(3)
    return np.stack([np.ones((3, 3)), np.sign(card[:, None] - card[None])])

  def features(self, states, player):
    history = one_hot(states[:, 0], len(_HISTORIES))
    seat = xp.full((len(states), 1), player)
    return xp.concatenate([seat, history], axis=1, dtype=float)

  def action_name(self, action):
    return ("pass", "bet")[action]

  def infostate_name(self, player, infostate):
    return "JQK"[infostate]


register("kuhn_poker", KuhnPoker)
