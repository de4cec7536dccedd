"""Tic-tac-toe."""

import jax.numpy as jnp
import numpy as np

from games.game import register
from games.perfect_information import Stones, by_letters, has_line, planes
from games.public_tree import PLAYER_0, PLAYER_1, TERMINAL

_SIDE = 3
_SQUARES = np.arange(_SIDE**2).reshape(_SIDE, _SIDE)
LINES = np.array([*_SQUARES, *_SQUARES.T, np.diag(_SQUARES), np.diag(_SQUARES[::-1])])


class TicTacToe(Stones):
  """Tic-tac-toe: three in a line win one point of the other player.

  Action a marks square a, row by row. A public state is the board: 0 for an empty square, 1 for
  player 0's mark and 2 for player 1's. Features are the squares of who looks, then the other's.
  """

  name = "tic_tac_toe"
  num_actions = max_moves = _SIDE**2
  columns, rows, places = by_letters(_SIDE)
  text = (
    "Players mark empty squares in turn; X begins. Three marks in a row, a column or a diagonal "
    "win.\nA square is named by its column and its row: b2 is the middle."
  )

  def initial_state(self):
    return np.zeros(self.num_actions, np.int32)

  def turn(self, state):
    over = has_line(state, LINES, 1) | has_line(state, LINES, 2) | (state > 0).all()
    return jnp.where(over, TERMINAL, jnp.where((state > 0).sum() % 2 == 0, PLAYER_0, PLAYER_1))

  def legal(self, state):
    return state == 0

  def after(self, state, action):
    mark = ((state > 0).sum() % 2 + 1).astype(state.dtype)
    return state.at[action].set(mark)

  def outcome(self, state):
    return has_line(state, LINES, 1).astype(int) - has_line(state, LINES, 2).astype(int)

  def seen(self, state, player):
    return planes(state, player)

  def __repr__(self):
    return "games.TicTacToe()"


register("tic_tac_toe", TicTacToe)
