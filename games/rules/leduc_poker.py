"""Leduc poker: six cards, two betting rounds, one public card, bets of any sizes."""

from typing import Annotated

import numpy as np

from games.arrays import MOST, checked, lookup, one_hot, short, with_columns, xp
from games.game import CHANCE, TERMINAL, Game, register

FOLD, CALL, RAISE = 0, 1, 2
FIRST_CARD = 3  # where each round has one size of bet
_NONE = -1
_NUM_CARDS, _NUM_SUITS, _MAX_RAISES = 6, 2, 2
_ANTE = 1
_PARTS = 10**6  # of a chip, which states count where a size is not whole
Sizes = tuple[Annotated[float, (1 / _PARTS, MOST)], ...]
# Columns of a public state.
_ROUND, _ACTOR, _RAISES, _ACTED, _POT_0, _POT_1, _CARD, _OVER = range(8)
_GOING_ON, _FOLDED_0, _FOLDED_1, _SHOWDOWN, _DEAL = range(5)
_RANK = np.arange(_NUM_CARDS) // _NUM_SUITS
_PUBLIC = np.arange(_NONE, _NUM_CARDS)[:, None]  # public cards, none first
# By the public card the strength of each private card, and private cards from the weakest to the
# strongest, one that is public first: `[cards + 1, H]`.
_STRENGTHS = _RANK + 10 * (_RANK[_PUBLIC] == _RANK) * (_PUBLIC != _NONE)
_ORDERS = np.where(np.arange(_NUM_CARDS) == _PUBLIC, -1, _STRENGTHS).argsort(axis=1, kind="stable")


class LeducPoker(Game):
  """Leduc poker: ante 1, bets of 2 then 4, at most two raises a round, no stacks.

  Infostates are the private cards J♠ J♥ Q♠ Q♥ K♠ K♥, which exclude each other; one of the
  four that are left becomes public between the rounds. A pair with the public card wins, else
  the higher rank; equal ranks split. Player 0 acts first in both rounds. Payoffs are chips.
  The value to player 0 is about -0.0856. Every bet and raise may be of each size of its round,
  whatever the bet before (thesis, section 2.4.1, Leduc-5).

  Actions: 0 fold (facing a bet only), 1 check or call, 2 bet or raise by the round's first size, 3
  by its second if a round has two, and so on; the last six are the public card. A public state is
  round, actor, raises and actions in the round, both players' chips in the pot (in millionths, if
  a size is not whole), public card (-1 for none), and what comes next (0 a move, 1 or 2 nothing
  after player 0's or 1's fold, 3 nothing after a showdown, 4 the public card).

  Args:
    bets: for each of the two rounds, its sizes in chips; 0.000001 chips is the smallest.

  Raises:
    ValueError: `bets` are not two lists of different positive numbers, at least one each, or the
      pot would not fit into a state.
  """

  name = "leduc_poker"
  text = (
    "Each has put in one chip and holds one of six cards: Jacks, Queens and Kings, two of each. "
    "Call also checks, and raise also bets; a round has two raises at most. Between its two "
    "rounds a card is dealt to both: who pairs it wins, or else the higher card."
  )
  num_infostates = _NUM_CARDS
  orders_infostates = True

  @checked
  def __init__(self, bets: tuple[Sizes, ...] = ((2,), (4,))):
    self.bets = sizes = tuple(map(tuple, bets))
    distinct = [0 < len({round(x * _PARTS) for x in row}) == len(row) for row in sizes]
    if distinct != [True, True]:
      raise ValueError(
        f"bets={short(bets)} must be two lists of different sizes, one for each round, none of "
        "them empty"
      )
    whole = all(size == int(size) for sizes_of_round in sizes for size in sizes_of_round)
    self._unit = 1 if whole else _PARTS
    self._most = _ANTE + _MAX_RAISES * sum(map(max, sizes))  # chips that a player may put in
    if self._most * self._unit >= 2**31:
      raise ValueError(f"bets={short(bets)} are too large: in a pot of theirs chips would not fit")
    self._num_sizes = max(map(len, sizes))
    # [round, action]: what a raise adds, 0 where the round has no such size.
    self._adds = np.zeros((2, RAISE + self._num_sizes + _NUM_CARDS), np.int32)
    for row, sizes_of_round in zip(self._adds, sizes):
      row[RAISE : RAISE + len(sizes_of_round)] = np.round(np.multiply(sizes_of_round, self._unit))
    self._first_card = self.num_player_actions = RAISE + self._num_sizes
    self.num_actions = self._first_card + _NUM_CARDS

  def initial_state(self):
    return np.array([0, 0, 0, 0, *[_ANTE * self._unit] * 2, _NONE, _GOING_ON])

  def actor(self, states):
    over = states[:, _OVER]
    others = xp.where(over == _DEAL, CHANCE, TERMINAL)
    return xp.where(over == _GOING_ON, states[:, _ACTOR], others)

  def legal_actions(self, states):
    moves = states[:, _OVER] == _GOING_ON
    fold = moves & (states[:, _POT_0] != states[:, _POT_1])
    more = moves & (states[:, _RAISES] < _MAX_RAISES)
    sized = lookup(self._adds > 0, states[:, _ROUND])
    raises = [more & sized[:, RAISE + i] for i in range(self._num_sizes)]
    deals = [states[:, _OVER] == _DEAL] * _NUM_CARDS
    return xp.stack([fold, moves, *raises, *deals], axis=1)

  def next_states(self, states, actions):
    actor, pots = states[:, _ACTOR], states[:, _POT_0 : _POT_1 + 1]
    folds, calls, deals = actions == FOLD, actions == CALL, actions >= self._first_card
    raises = (actions >= RAISE) & ~deals
    card = (actions - self._first_card).astype(states.dtype)

    bet = lookup(self._adds, states[:, _ROUND], actions)
    pays = (calls | raises)[:, None] & one_hot(actor, 2)
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
        _RAISES: xp.where(deals, 0, states[:, _RAISES] + raises.astype(states.dtype)),
        _ACTED: xp.where(deals, 0, states[:, _ACTED] + 1),
        _POT_0: pots[:, 0],
        _POT_1: pots[:, 1],
        _CARD: xp.where(deals, card, states[:, _CARD]),
        _OVER: over,
      },
    )

  def stages(self, states):
    """Returns the first round, the deal of the public card, or the second round: `[n]`."""
    return 2 * states[:, _ROUND] + (states[:, _OVER] == _DEAL).astype(states.dtype)

  def pair_weights(self):
    return 1.0 - np.eye(_NUM_CARDS)[None]

  def chance(self, states, actions):
    free = ~one_hot(actions - self._first_card, _NUM_CARDS)
    return np.full(len(actions), 1.0 / (_NUM_CARDS - 2)), xp.stack([free, free], axis=1)

  def payoffs(self):
    strengths = _STRENGTHS[1:]
    showdowns = np.sign(strengths[:, :, None] - strengths[:, None]).astype(float)
    return np.concatenate([np.ones((1, _NUM_CARDS, _NUM_CARDS)), showdowns])  # a fold's first

  def payoff_index(self, states):
    return xp.where(states[:, _OVER] == _SHOWDOWN, states[:, _CARD] + 1, 0)

  def payoff_scale(self, states):
    stake = states[:, _POT_0 : _POT_1 + 1].min(axis=1)
    return xp.where(states[:, _OVER] == _FOLDED_0, -stake, stake).astype(float) / self._unit

  def features(self, states, player):
    going_on, deals = (states[:, _OVER, None] == x for x in (_GOING_ON, _DEAL))
    pots = states[:, _POT_0 : _POT_1 + 1].astype(float) / (self._most * self._unit)
    columns = [
      xp.full((len(states), 1), player),
      (states[:, _ACTOR, None] == player) & going_on,
      deals,
      states[:, _ROUND, None],
      states[:, _ACTED, None] > 0,
      states[:, _RAISES, None] / _MAX_RAISES,
      pots[:, :: 1 if player == 0 else -1],
      one_hot(states[:, _CARD], _NUM_CARDS),
      lookup(_ORDERS, states[:, _CARD] - _NONE),
    ]
    return xp.concatenate(columns, axis=1, dtype=float)

  def action_name(self, action):
    if action >= self._first_card:
      return f"deal {self.infostate_name(0, action - self._first_card)}"
    if action >= RAISE and self._num_sizes > 1:
      return f"raise {action - CALL}"
    return ("fold", "call", "raise")[action]

  def describe(self, history, action):
    if self._num_sizes == 1 or not RAISE <= action < self._first_card:
      return self.action_name(action)
    second = any(taken >= self._first_card for taken in history)
    return f"raise {self.bets[second][action - RAISE]:g}"

  def infostate_name(self, player, infostate):
    return "JQK"[infostate // _NUM_SUITS] + "♠♥"[infostate % _NUM_SUITS]


register("leduc_poker", LeducPoker)
