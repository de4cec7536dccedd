"""Leduc poker: six cards, two betting rounds, one public card."""

import numpy as np

from games.game import CHANCE, TERMINAL, Game

FOLD, CALL, RAISE, FIRST_CARD = 0, 1, 2, 3
_NONE = -1
_NUM_CARDS, _NUM_SUITS, _MAX_RAISES = 6, 2, 2
_BET_SIZE = np.array([2, 4])
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
    over = states[:, _OVER]
    ended = (over != _GOING_ON) & (over != _DEAL)
    return np.where(ended, TERMINAL, np.where(over == _DEAL, CHANCE, states[:, _ACTOR]))

  def legal_actions(self, states):
    moves = states[:, _OVER] == _GOING_ON
    legal = np.zeros((len(states), self.num_actions), bool)
    legal[:, FOLD] = moves & (states[:, _POT_0] != states[:, _POT_1])
    legal[:, CALL] = moves
    legal[:, RAISE] = moves & (states[:, _RAISES] < _MAX_RAISES)
    legal[:, FIRST_CARD:] = (states[:, _OVER] == _DEAL)[:, None]
    return legal

  def next_states(self, states, actions):
    new = states.copy()
    rows = np.arange(len(states))
    actor = states[:, _ACTOR]
    folds, calls, raises = (actions == a for a in (FOLD, CALL, RAISE))
    deals = actions >= FIRST_CARD

    level = np.maximum(states[:, _POT_0], states[:, _POT_1])
    mine = np.where(actor == 0, _POT_0, _POT_1)
    target = np.where(raises, level + _BET_SIZE[states[:, _ROUND]], level)
    pays = calls | raises
    new[rows[pays], mine[pays]] = target[pays]

    new[:, _RAISES] += raises
    new[:, _ACTED] += ~deals
    new[:, _ACTOR] = np.where(deals, 0, 1 - actor)
    new[folds, _OVER] = np.where(actor[folds] == 0, _FOLDED_0, _FOLDED_1)
    closes = calls & (states[:, _ACTED] > 0)
    new[closes, _OVER] = np.where(states[closes, _ROUND] == 0, _DEAL, _SHOWDOWN)

    new[deals, _ROUND] = 1
    new[deals, _RAISES] = 0
    new[deals, _ACTED] = 0
    new[deals, _CARD] = actions[deals] - FIRST_CARD
    new[deals, _OVER] = _GOING_ON
    return new

  def pair_weights(self):
    return 1.0 - np.eye(_NUM_CARDS)[None]

  def chance(self, states, actions):
    del states
    card = actions - FIRST_CARD
    free = card[:, None] != np.arange(_NUM_CARDS)
    mask = np.stack([free, free], axis=1)
    return np.full(len(actions), 1.0 / (_NUM_CARDS - 2)), mask

  def payoffs(self):
    rank = np.arange(_NUM_CARDS) // _NUM_SUITS
    tables = [np.ones((_NUM_CARDS, _NUM_CARDS))]  # after a fold
    for card in range(_NUM_CARDS):
      strength = rank + 10 * (rank == rank[card])
      tables.append(np.sign(strength[:, None] - strength[None]).astype(float))
    return np.stack(tables)

  def payoff_index(self, states):
    return np.where(states[:, _OVER] == _SHOWDOWN, states[:, _CARD] + 1, 0)

  def payoff_scale(self, states):
    over = states[:, _OVER]
    stake = np.minimum(states[:, _POT_0], states[:, _POT_1])
    return np.where(over == _FOLDED_0, -stake, stake).astype(float)

  def features(self, states, player):
    acts = states[:, _ACTOR : _ACTOR + 1] == player
    columns = [
      np.full((len(states), 1), player),
      acts & (states[:, _OVER, None] == _GOING_ON),
      states[:, _OVER, None] == _DEAL,
      states[:, [_ROUND]],
      states[:, [_ACTED]] > 0,
      states[:, [_RAISES]] / _MAX_RAISES,
      states[:, [_POT_0, _POT_1] if player == 0 else [_POT_1, _POT_0]] / 13.0,
      states[:, [_CARD]] == np.arange(_NUM_CARDS),
    ]
    return np.concatenate(columns, axis=1).astype(float)

  def action_name(self, action):
    if action >= FIRST_CARD:
      return f"deal {self.infostate_name(0, action - FIRST_CARD)}"
    return ("fold", "call", "raise")[action]

  def infostate_name(self, player, infostate):
    return "JQK"[infostate // _NUM_SUITS] + "♠♥"[infostate % _NUM_SUITS]
