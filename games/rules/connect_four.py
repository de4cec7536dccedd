"""Connect four."""

from typing import Annotated

from games.arrays import checked
from games.game import register
from games.perfect_information import InLine, lines_of

Size = Annotated[int, (1, 100)]


class ConnectFour(InLine):
  """Connect four: stones fall to the lowest free place of a column; four in a line win one point.

  Action a drops a stone into column a. A public state is the board, row by row from the lowest: 0
  for a free place, 1 for player 0's stone and 2 for player 1's. Features are the places of who
  looks, then the other's.

  Raises:
    ValueError: a size is not an integer from 1 to 100, or no line would fit.
  """

  name = "connect_four"

  @checked
  def __init__(self, width: Size = 7, height: Size = 6, in_a_row: Size = 4):
    if in_a_row > max(width, height):
      raise ValueError(
        f"in_a_row={in_a_row} must fit on a board of width={width} and height={height}"
      )
    self.width, self.height, self.in_a_row = width, height, in_a_row
    self.num_actions, self.max_moves = width, width * height
    self.lines = lines_of(width, height, in_a_row)
    self.columns = self.places = [str(number) for number in range(1, width + 1)]
    self.rows = [""] * height
    self.text = (
      "Stones fall to the lowest free place of a column; X begins. A move is the number of a "
      f"column.\n{in_a_row} stones in a row, a column or a diagonal win."
    )

  def legal(self, state):
    return state[-self.width :] == 0

  def after(self, state, action):
    row = (state.reshape(self.height, self.width)[:, action] > 0).sum(dtype=action.dtype)
    return self.put(state, row * self.width + action)

  def board(self, state):
    return super().board(state)[::-1]

  def __repr__(self):
    return f"games.ConnectFour(width={self.width}, height={self.height}, in_a_row={self.in_a_row})"


register("connect_four", ConnectFour)
