"""Exact values of tic-tac-toe by a plain program that knows nothing of the package."""

import functools

Board = tuple[int, ...]
_LINES = (
  (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6),
)  # fmt: skip


def winner(board: Board) -> int:
  """Returns who has a line, 1 or 2, or 0."""
  for a, b, c in _LINES:
    if board[a] and board[a] == board[b] == board[c]:
      return board[a]
  return 0


@functools.cache
def tic_tac_toe_values() -> dict[Board, int]:
  """Returns what the first player wins from every board that play can reach."""
  values: dict[Board, int] = {}

  def worth(board: Board) -> int:
    if board not in values:
      won, empty = winner(board), [i for i, mark in enumerate(board) if not mark]
      if won or not empty:
        values[board] = {0: 0, 1: 1, 2: -1}[won]
      else:
        mark = 1 if len(empty) % 2 else 2
        below = [worth((*board[:i], mark, *board[i + 1 :])) for i in empty]
        values[board] = max(below) if mark == 1 else min(below)
    return values[board]

  worth((0,) * 9)
  return values
