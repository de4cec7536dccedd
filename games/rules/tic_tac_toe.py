"""Tic-tac-toe."""

from games.game import register
from games.perfect_information import InLine, by_letters, lines_of

_SIDE = 3


class TicTacToe(InLine):
  """Tic-tac-toe: three in a line win one point of the other player.

  Action a marks square a, row by row. A public state is the board: 0 for an empty square, 1 for
  player 0's mark and 2 for player 1's. Features are the squares of who looks, then the other's.
  """

  name = "tic_tac_toe"
  num_actions = max_moves = _SIDE**2
  columns, rows, places = by_letters(_SIDE)
  lines = lines_of(_SIDE, _SIDE, _SIDE)
  text = (
    "Players mark empty squares in turn; X begins. Three marks in a row, a column or a diagonal "
    "win.\nA square is named by its column and its row: b2 is the middle."
  )

  def legal(self, state):
    return state == 0

  def after(self, state, action):
    return self.put(state, action)

  def __repr__(self):
    return "games.TicTacToe()"


register("tic_tac_toe", TicTacToe)
