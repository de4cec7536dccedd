"""Leduc poker: six cards, two betting rounds, one public card."""

import numpy as np

from games.arrays import lookup, with_columns
from games.game import CHANCE, TERMINAL, Game
from games.registry import register

FOLD, CALL, RAISE, FIRST_CARD = 0, 1, 2, 3
_NONE = -1
_NUM_CARDS, _NUM_SUITS, _MAX_RAISES = 6, 2, 2
_BET_SIZE = (2, 4)
# Columns of a public state.
_ROUND, _ACTOR, _RAISES, _ACTED, _POT_0, _POT_1, _CARD, _OVER = range(8)
_GOING_ON, _FOLDED_0, _FOLDED_1, _SHOWDOWN, _DEAL = range(5)


class LeducPoker(Game):
  """Leduc poker: ante 1, bets of 2 then 4, at most two raises a round.

  Infostates are the private cards J♠ J♥ Q♠ Q♥ K♠ K♥, which exclude each other; one of the
  four that are left becomes public between the rounds. A pair with the public card wins, else
  the higher rank; equal ranks split. Player 0 acts first in both rounds. Payoffs are chips.
  The value to player 0 is about -0.0856.

  Actions: 0 fold (facing a bet only), 1 check or call, 2 bet or raise, 3 to 8 the public card.
  A public state is round, actor, raises and actions in the round, both players' chips in the
  pot, public card (-1 for none), and what comes next (0 a move, 1 or 2 nothing after player
  0's or 1's fold, 3 nothing after a showdown, 4 the public card).
  """

  name = "leduc_poker"
  num_infostates = _NUM_CARDS
  num_actions = FIRST_CARD + _NUM_CARDS
  num_player_actions = FIRST_CARD

  def initial_state(self):
    return np.array([0, 0, 0, 0, 1, 1, _NONE, _GOING_ON])

  def actor(self, states):
    xp = states.__array_namespace__()
    over = states[:, _OVER]
    others = xp.where(over == _DEAL, CHANCE, TERMINAL)
    return xp.where(over == _GOING_ON, states[:, _ACTOR], others)

  def legal_actions(self, states):
    xp = states.__array_namespace__()
    moves = states[:, _OVER] == _GOING_ON
    fold = moves & (states[:, _POT_0] != states[:, _POT_1])
    more = moves & (states[:, _RAISES] < _MAX_RAISES)
    deals = [states[:, _OVER] == _DEAL] * _NUM_CARDS
    return xp.stack([fold, moves, more, *deals], axis=1)

  def next_states(self, states, actions):
    xp = states.__array_namespace__()
    actor, pots = states[:, _ACTOR], states[:, _POT_0 : _POT_1 + 1]
    folds, calls, raises = (actions == a for a in (FOLD, CALL, RAISE))
    deals = actions >= FIRST_CARD

    bet = xp.where(raises, lookup(_BET_SIZE, states[:, _ROUND]), 0)
    pays = (calls | raises)[:, None] & (actor[:, None] == xp.arange(2))
    pots = xp.where(pays, (pots.max(axis=1) + bet)[:, None], pots)
    closes = calls & (states[:, _ACTED] > 0)
    over = xp.where(deals, _GOING_ON, states[:, _OVER])
    over = xp.where(folds, xp.where(actor == 0, _FOLDED_0, _FOLDED_1), over)
    over = xp.where(closes, xp.where(states[:, _ROUND] == 0, _DEAL, _SHOWDOWN), over)
    return with_columns(
      states,
      {
        _ROUND: xp.where(deals, 1, states[:, _ROUND]),
        _ACTOR: xp.where(deals, 0, 1 - actor),
        _RAISES: xp.where(deals, 0, states[:, _RAISES] + raises),
        _ACTED: xp.where(deals, 0, states[:, _ACTED] + 1),
        _POT_0: pots[:, 0],
        _POT_1: pots[:, 1],
        _CARD: xp.where(deals, actions - FIRST_CARD, states[:, _CARD]),
        _OVER: over,
      },
    )

  def pair_weights(self):
    return 1.0 - np.eye(_NUM_CARDS)[None]

  def chance(self, states, actions):
    xp = states.__array_namespace__()
    free = actions[:, None] != FIRST_CARD + xp.arange(_NUM_CARDS)
    return xp.full(len(actions), 1.0 / (_NUM_CARDS - 2)), xp.stack([free, free], axis=1)

  def payoffs(self):
    rank = np.arange(_NUM_CARDS) // _NUM_SUITS
    tables = [np.ones((_NUM_CARDS, _NUM_CARDS))]  # after a fold
    for card in range(_NUM_CARDS):
      strength = rank + 10 * (rank == rank[card])
      tables.append(np.sign(strength[:, None] - strength[None]).astype(float))
    return np.stack(tables)

  def payoff_index(self, states):
    xp = states.__array_namespace__()
    return xp.where(states[:, _OVER] == _SHOWDOWN, states[:, _CARD] + 1, 0)

  def payoff_scale(self, states):
    xp = states.__array_namespace__()
    stake = states[:, _POT_0 : _POT_1 + 1].min(axis=1)
    return xp.where(states[:, _OVER] == _FOLDED_0, -stake, stake).astype(float)

  def features(self, states, player):
    xp = states.__array_namespace__()
    going_on, deals = (states[:, _OVER, None] == x for x in (_GOING_ON, _DEAL))
    own, other = (_POT_0, _POT_1) if player == 0 else (_POT_1, _POT_0)
    columns = [
      xp.full((len(states), 1), player),
      (states[:, _ACTOR, None] == player) & going_on,
      deals,
      states[:, _ROUND, None],
      states[:, _ACTED, None] > 0,
      states[:, _RAISES, None] / _MAX_RAISES,
      states[:, own, None] / 13.0,
      states[:, other, None] / 13.0,
      states[:, _CARD, None] == xp.arange(_NUM_CARDS),
    ]
    return xp.concat(columns, axis=1).astype(float)

  def action_name(self, action):
    if action >= FIRST_CARD:
      return f"deal {self.infostate_name(0, action - FIRST_CARD)}"
    return ("fold", "call", "raise")[action]

  def infostate_name(self, player, infostate):
    return "JQK"[infostate // _NUM_SUITS] + "♠♥"[infostate % _NUM_SUITS]


register("leduc_poker", LeducPoker)
