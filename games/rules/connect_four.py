"""Connect four."""

from typing import Annotated

import jax.numpy as jnp
import numpy as np

from games.arrays import checked
from games.game import register
from games.perfect_information import Stones, has_line, planes
from games.public_tree import PLAYER_0, PLAYER_1, TERMINAL

Size = Annotated[int, (1, 100)]


class ConnectFour(Stones):
  """Connect four: stones fall to the lowest free place of a column; four in a line win one point.

  Action a drops a stone into column a. A public state is the board, row by row from the lowest: 0
  for a free place, 1 for player 0's stone and 2 for player 1's. Features are the places of who
  looks, then the other's.

  Raises:
    ValueError: a size is not an integer of at least 1, or no line would fit.
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
    self._lines = _lines(width, height, in_a_row)
    self.columns = self.places = [str(number) for number in range(1, width + 1)]
    self.rows = [""] * height
    self.text = (
      "Stones fall to the lowest free place of a column; X begins. A move is the number of a "
      f"column.\n{in_a_row} stones in a row, a column or a diagonal win."
    )

  def initial_state(self):
    return np.zeros(self.max_moves, np.int32)

  def turn(self, state):
    won = has_line(state, self._lines, 1) | has_line(state, self._lines, 2)
    stones = (state > 0).sum()
    return jnp.where(
      won | (stones == self.max_moves),
      TERMINAL,
      jnp.where(stones % 2 == 0, PLAYER_0, PLAYER_1),
    )

  def legal(self, state):
    return state[-self.width :] == 0

  def after(self, state, action):
    stone = ((state > 0).sum() % 2 + 1).astype(state.dtype)
    row = (state.reshape(self.height, self.width)[:, action] > 0).sum()
    return state.at[row * self.width + action].set(stone)

  def outcome(self, state):
    first, second = (has_line(state, self._lines, stone).astype(int) for stone in (1, 2))
    return first - second

  def seen(self, state, player):
    return planes(state, player)

  def board(self, state):
    return super().board(state)[::-1]

  def __repr__(self):
    return f"games.ConnectFour(width={self.width}, height={self.height}, in_a_row={self.in_a_row})"


def _lines(width: int, height: int, length: int) -> np.ndarray:
  """Returns the places of every line of `length` on the board: `[m, length]`."""
  lines = []
  for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
    for row in range(height):
      for column in range(width):
        end = row + down * (length - 1), column + right * (length - 1)
        if 0 <= end[0] < height and 0 <= end[1] < width:
          steps = np.arange(length)
          lines.append((row + down * steps) * width + column + right * steps)
  return np.array(lines)


register("connect_four", ConnectFour)
