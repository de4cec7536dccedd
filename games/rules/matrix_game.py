"""Matrix games: any payoff matrix, the row moved to unseen."""

from collections.abc import Sequence

import numpy as np

from games.arrays import as_array, one_hot, short, xp
from games.game import TERMINAL, MoverMoves, register
from games.tabulate import Listed

_START, _ANSWER = 0, 1


class MatrixGame(Listed):
  """Player 0 chooses a row unseen, player 1 a column; the entry is what player 0 wins.

  Publicly there is one action for the hidden row, after which player 0's infostate is its row and
  player 1 still has its only one, 0.

  Actions: 0 to `columns - 1` are player 1's columns, the last one is player 0's hidden move. A
  public state is 0 at the start, 1 after the hidden move, 2 plus the column at the end.
  """

  name = "matrix_game"
  text = (
    "Who begins picks a row of a table unseen, and the other a column; the number there is what "
    "the one wins and the other loses."
  )

  def __init__(self, payoffs: Sequence[Sequence[float]] = ((1, -1), (-1, 1))):
    matrix = np.asarray(as_array(payoffs))
    shaped = matrix.dtype.kind in "biuf" and matrix.ndim == 2 and 0 not in matrix.shape
    if not shaped or not np.isfinite(matrix).all():
      raise ValueError(
        f"payoffs={short(payoffs)} must be a matrix of finite numbers, a row for a move"
      )
    self.matrix = matrix.astype(float)
    self.num_infostates, columns = matrix.shape
    self.num_actions = columns + 1
    self.num_hidden = max(2, *matrix.shape)
    self.movers = np.array([0, 1, *[TERMINAL] * columns])
    self.after = np.full((len(self.movers), self.num_actions), -1)
    self.after[_START, columns], self.after[_ANSWER, :columns] = _ANSWER, 2 + np.arange(columns)
    self.payoff_indices, self.scales = np.maximum(np.arange(-2, columns), 0), np.ones(2 + columns)

  def prior(self):
    prior = np.zeros((2, self.num_infostates))
    prior[:, 0] = 1.0
    return prior

  def infostate_parents(self, states, actions):
    row = np.arange(self.num_infostates)[None]
    mover = xp.where(states == _START, 0, row)
    other = xp.broadcast_to(xp.where(row == 0, 0, -1), mover.shape)
    return xp.stack([mover, other], axis=1)

  def hidden_moves(self, states):
    begins, held = (states == _START)[:, :, None], np.arange(self.num_infostates)[None, None]
    number = np.arange(self.num_hidden)[None, :, None]
    there = (held == 0) & (number < xp.where(begins, self.num_infostates, self.num_actions - 1))
    action = xp.where(begins, self.num_actions - 1, number)
    leads_to = xp.where(begins, number, held)
    return MoverMoves(xp.where(there, leads_to, -1), xp.where(there, action, -1))

  def payoffs(self):
    rows, columns = self.matrix.shape
    tables = np.zeros((columns, rows, rows))
    tables[:, :, 0] = self.matrix.T  # [player 1's column, player 0's row, player 1's infostate]
    return tables

  def features(self, states, player):
    stage = one_hot(states[:, 0], 2)
    return xp.concatenate([xp.full((len(states), 1), player), stage], axis=1, dtype=float)

  def action_name(self, action):
    return "hidden move" if action == self.num_actions - 1 else f"column {action}"

  def infostate_name(self, player, infostate):
    return f"row {infostate}" if player == 0 else "-"


register("matrix_game", MatrixGame)
