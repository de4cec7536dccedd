"""What people at a table read of a game of stones on a board of squares."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from games.game import Words
from games.on_device.perfect_information import PerfectInformation

_MARKS = np.array([".", "X", "O"])  # nothing, player 0's stone and player 1's
_LETTERS = "abcdefghjklmnopqrstuvwxyz"  # no i, which looks like a one or an l


class BoardWords(Words):
  """Words of a game of stones: moves by the names of places, and the board as a picture."""

  def __init__(
    self,
    game: PerfectInformation,
    *,
    board_of: Callable[[np.ndarray], np.ndarray],
    names: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[str],
    text: str,
  ):
    """Takes what is particular to the game.

    Args:
      game: the rules.
      board_of: turns a public state `[S]` into stones `[rows, columns]`, the highest row first: 0
        for none, 1 for player 0's and 2 for player 1's.
      names: of all actions.
      columns, rows: names of the picture's, from the left and from above.
      text: what moves mean and who wins.
    """
    self._game, self._board_of = game, board_of
    self._names, self._columns, self._rows, self._text = names, columns, rows, text
    self._next = jax.jit(game.next_state)

  def action_name(self, action: int) -> str:
    return self._names[action]

  def situation(self, history: Sequence[int]) -> str:
    state = self._game.initial_state()
    for action in history:
      state = self._next(state, np.int32(action))
    side = max(len(name) for name in self._rows)
    wide = max(len(name) for name in self._columns)
    lines = [
      " ".join([name.rjust(side), *(mark.rjust(wide) for mark in marks)])
      for name, marks in zip(self._rows, _MARKS[self._board_of(np.asarray(state))])
    ]
    below = " ".join([" " * side, *(name.rjust(wide) for name in self._columns)])
    return "\n  ".join([*lines, below])

  def explain(self) -> str:
    return self._text


def by_letters(width: int, height: int) -> tuple[list[str], list[str], list[str]]:
  """Returns names of columns, of rows from above, and of places row by row, such as `b2`."""
  columns = list(_LETTERS[:width])
  rows = [str(number) for number in range(height, 0, -1)]
  return columns, rows, [column + row for row in rows for column in columns]
