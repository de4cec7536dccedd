"""Values of games by linear programming: a referee that shares nothing with ours."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, hstack


def of_open_spiel(state):
  """Returns what follows a state of OpenSpiel, as `game_value` takes it."""
  if state.is_terminal():
    return state.returns()[0]
  if state.is_chance_node():
    return [(probability, state.child(action)) for action, probability in state.chance_outcomes()]
  player = state.current_player()
  moves = [state.child(action) for action in state.legal_actions()]
  return player, state.information_state_string(player), moves


def game_value(start, look=of_open_spiel) -> float:
  """Returns what player 0 expects in equilibrium of a zero-sum game of perfect recall.

  Of a state `look` gives player 0's payoff, or a list of chance's (probability, state), or the
  player who moves, its infostate and the states after each move.
  """
  rows = [{}, {}]  # information state -> its row, and the number of the sequence after each move
  payoffs, constraints, sizes = [], [[(0, 0, 1.0)], [(0, 0, 1.0)]], [1, 1]

  def walk(state, last, nature):
    found = look(state)
    if isinstance(found, list):
      for probability, after in found:
        walk(after, last, nature * probability)
      return
    if not isinstance(found, tuple):
      payoffs.append((*last, nature * found))
      return
    player, infostate, moves = found
    if infostate not in rows[player]:
      row, first = len(rows[player]) + 1, sizes[player]
      sizes[player] += len(moves)
      rows[player][infostate] = range(first, sizes[player])
      constraints[player].append((row, last[player], -1.0))
      constraints[player] += [(row, number, 1.0) for number in rows[player][infostate]]
    for number, after in zip(rows[player][infostate], moves, strict=True):
      walk(after, (number, last[1]) if player == 0 else (last[0], number), nature)

  walk(start, (0, 0), 1.0)

  def table(entries, shape):
    i, j, values = zip(*entries)
    return coo_array((values, (i, j)), shape=shape)

  payoff = table(payoffs, sizes)
  plans = [table(x, (len(rows[p]) + 1, sizes[p])) for p, x in enumerate(constraints)]
  # Maximise v[0] with F^T v <= A^T x and E x = e.
  duals = plans[1].shape[0]
  solved = linprog(
    np.concatenate([np.zeros(sizes[0]), -np.eye(duals)[0]]),
    A_ub=hstack([-payoff.T, plans[1].T]),
    b_ub=np.zeros(sizes[1]),
    A_eq=hstack([plans[0], coo_array((plans[0].shape[0], duals))]),
    b_eq=np.eye(plans[0].shape[0])[0],
    bounds=[(0, None)] * sizes[0] + [(None, None)] * duals,
  )
  assert solved.status == 0, solved.message
  return float(-solved.fun)
