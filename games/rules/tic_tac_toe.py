"""Tic-tac-toe as rules on JAX's arrays."""

import jax
import jax.numpy as jnp
import numpy as np

from games.kinds import PLAYER_0, PLAYER_1, TERMINAL
from games.on_device.board_words import BoardWords, by_letters
from games.on_device.perfect_information import PerfectInformation, has_line, planes
from games.registry import register_on_device

_SIDE = 3
_SQUARES = np.arange(_SIDE**2).reshape(_SIDE, _SIDE)
LINES = np.array([*_SQUARES, *_SQUARES.T, np.diag(_SQUARES), np.diag(_SQUARES[::-1])])


class TicTacToe(PerfectInformation):
  """Tic-tac-toe: three in a line win one point of the other player.

  Action a marks square a, row by row. A public state is the board: 0 for an empty square, 1 for
  player 0's mark and 2 for player 1's. Features are the squares of who looks, then the other's.
  """

  name = "tic_tac_toe"
  num_actions = max_moves = _SIDE**2

  def initial_state(self):
    return np.zeros(self.num_actions, np.int32)

  def actor(self, state):
    over = has_line(state, LINES, 1) | has_line(state, LINES, 2) | (state > 0).all()
    return jnp.where(over, TERMINAL, jnp.where((state > 0).sum() % 2 == 0, PLAYER_0, PLAYER_1))

  def legal_actions(self, state):
    return state == 0

  def next_state(self, state: jax.Array, action: jax.Array) -> jax.Array:
    mark = ((state > 0).sum() % 2 + 1).astype(state.dtype)
    return state.at[action].set(mark)

  def payoff(self, state):
    return has_line(state, LINES, 1).astype(int) - has_line(state, LINES, 2).astype(int)

  def features(self, state, player):
    return planes(state, player)

  @property
  def words(self) -> BoardWords:
    """What people at a table read."""
    columns, rows, places = by_letters(_SIDE, _SIDE)
    text = (
      "Players mark empty squares in turn; X begins. Three marks in a row, a column or a diagonal "
      "win.\nA square is named by its column and its row: b2 is the middle."
    )
    return BoardWords(
      self,
      board_of=lambda state: state.reshape(_SIDE, _SIDE),
      names=places,
      columns=columns,
      rows=rows,
      text=text,
    )

  def __repr__(self):
    return "games.TicTacToe()"


register_on_device("tic_tac_toe", TicTacToe)
