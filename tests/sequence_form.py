"""The value of an OpenSpiel game by linear programming: a referee that shares nothing with ours."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_matrix


def game_value(game) -> float:
  """Returns what player 0 expects in equilibrium in `game`, a sequential zero-sum game."""
  sequences = [{(): 0}, {(): 0}]
  infosets = [{}, {}]  # information state -> (row, sequence before it)
  payoffs, constraints = [], [[(0, 0, 1.0)], [(0, 0, 1.0)]]

  def walk(state, last, nature):
    if state.is_terminal():
      payoffs.append((*last, nature * state.returns()[0]))
      return
    if state.is_chance_node():
      for action, probability in state.chance_outcomes():
        walk(state.child(action), last, nature * probability)
      return
    player = state.current_player()
    string = state.information_state_string(player)
    if string not in infosets[player]:
      row = infosets[player][string] = len(infosets[player]) + 1
      constraints[player].append((row, last[player], -1.0))
      for action in state.legal_actions():
        number = sequences[player].setdefault((string, action), len(sequences[player]))
        constraints[player].append((row, number, 1.0))
    for action in state.legal_actions():
      below = list(last)
      below[player] = sequences[player][string, action]
      walk(state.child(action), tuple(below), nature)

  walk(game.new_initial_state(), (0, 0), 1.0)
  sizes = [len(s) for s in sequences]
  rows, columns, values = zip(*payoffs)
  payoff = coo_matrix((values, (rows, columns)), shape=sizes).toarray()
  plans = []
  for player in (0, 1):
    rows, columns, values = zip(*constraints[player])
    shape = len(infosets[player]) + 1, sizes[player]
    plans.append(coo_matrix((values, (rows, columns)), shape=shape).toarray())
  # Maximise v[0] with F^T v <= A^T x and E x = e.
  duals = len(plans[1])
  solved = linprog(
    np.concatenate([np.zeros(sizes[0]), -np.eye(duals)[0]]),
    A_ub=np.concatenate([-payoff.T, plans[1].T], axis=1),
    b_ub=np.zeros(sizes[1]),
    A_eq=np.concatenate([plans[0], np.zeros((len(plans[0]), duals))], axis=1),
    b_eq=np.eye(len(plans[0]))[0],
    bounds=[(0, None)] * sizes[0] + [(None, None)] * duals,
  )
  assert solved.status == 0, solved.message
  return float(-solved.fun)
