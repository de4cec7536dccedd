"""Warm start by substitute regrets (thesis, section 3.2): in closed form, and Theorem 6."""

import dataclasses

import jax
import numpy as np
import pytest

import games
from solvers.contrib.substitute_start import substitute_values
from solvers.sweeps import join_levels, make_problem
from tests import harness
from tests.trees import possible_of


def averages_of(matrix, iterations):
  """Returns both players' averages after so many iterations of regret matching, in plain numpy."""
  sums, regrets = np.zeros((2, len(matrix))), np.zeros((2, len(matrix)))
  for _ in range(iterations):
    positive = np.maximum(regrets, 0) + 1e-12
    rows, columns = positive / positive.sum(axis=1, keepdims=True)
    sums += rows, columns
    worth = matrix @ columns, -(rows @ matrix)
    regrets += [w - w @ x for w, x in zip(worth, (rows, columns))]
  return sums / iterations


def _below(values, norm):
  """Returns u with `norm(max(values - u, 0)) = norm`: with the n largest, a quadratic equation."""
  order, count = np.sort(values)[::-1], np.arange(1.0, len(values) + 1)
  mean, squares = np.cumsum(order) / count, np.cumsum(order**2) / count
  root = mean - np.sqrt(np.maximum(norm**2 / count - (squares - mean**2), 0))
  # The least n whose next value is not above u, so that it adds nothing.
  return root[np.argmax(root >= np.append(order[1:], -np.inf))]


def substitute_regrets(matrix, averages, iterations, share=None):
  """Returns sums of regret by substitute values (thesis, section 3.2.4), in closed form."""
  rows, columns = averages
  moves = matrix @ columns, -(rows @ matrix)
  most = np.sqrt(len(rows) * (matrix.max() - matrix.min()) ** 2 / iterations)
  low, high = (0.0, 1.0) if share is None else (np.sqrt(share),) * 2
  for _ in range(50):
    middle = (low + high) / 2
    right = sum(_below(x, middle * most) for x in moves) <= 0
    low, high = (low, middle) if right else (middle, high)
  root = high if share is None else np.sqrt(share)
  return [iterations * (x - _below(x, root * most)) for x in moves]


@jax.jit
def _values(tree, policy, iterations):
  problem = make_problem(tree, tree.prior)
  (first, second), share = substitute_values(problem, problem.split(policy), iterations)
  columns = second.nodes[2][:, 0], second.parents[2][:, 0]
  return (first.nodes[1][0], first.parents[1][0]), columns, share


def test_substitutes_of_matrices_are_those_in_closed_form(x64):
  matrix = np.random.default_rng(0).uniform(-1, 1, (30, 30))
  tree = games.build_public_tree(games.make("matrix_game", payoffs=matrix.tolist()))
  payoffs = np.zeros(tree.payoffs.shape)
  payoffs[:, :, 0] = matrix.T
  tree = dataclasses.replace(tree, payoffs=payoffs)
  for iterations in (10, 200):
    rows, columns = averages_of(matrix, iterations)
    policy = np.ones((tree.num_nodes, len(rows)))
    policy[1], policy[2:] = rows, columns[:, None]
    *values, share = _values(tree, policy, float(iterations))
    closed = substitute_regrets(matrix, (rows, columns), iterations)
    half = substitute_regrets(matrix, (rows, columns), iterations, share=0.5)
    for (move, mean), wanted, other in zip(values, closed, half):
      found = iterations * (np.asarray(move) - np.asarray(mean))
      np.testing.assert_allclose(found, wanted, atol=1e-3)
      assert np.abs(found - other).max() > 1  # control
    assert 0 < share < 0.1


@pytest.mark.parametrize("name", harness.slow(["kuhn_poker", "leduc_poker"], "leduc_poker"))
def test_theorem_6(name, x64):
  """Its two conditions: no choice keeps more regret than (3.6) allows, v_0 + v_1 <= 0."""
  iterations = 2
  tree = games.build_public_tree(games.make(name))

  @jax.jit
  def substitutes(tree):
    problem = make_problem(tree, tree.prior)
    uniform = problem.uniform_policy()
    return join_levels(uniform), *substitute_values(problem, uniform, float(iterations))

  policy, sweeps, share = jax.device_get(substitutes(tree))
  together = sum(float((tree.prior[p] * sweeps[p].root).sum()) for p in (0, 1))
  assert -1e-3 < together < 1e-9
  assert 0 < share < 1

  parent, kind, hands = tree.parent, tree.kind, tree.num_infostates
  reach = np.ones((tree.num_nodes, 2, hands, hands))
  reach[0] = np.where(np.eye(hands), 0, 1 / (hands * (hands - 1)))
  for n in range(1, tree.num_nodes):
    mover, above = kind[parent[n]], reach[parent[n]]
    by = np.ones((2, hands, hands))  # [player whose own moves are left out, card 0, card 1]
    if mover < games.CHANCE:
      by[1 - mover] = policy[n][:, None] if mover == 0 else policy[n][None]
    else:
      dealt = np.asarray(tree.possible[n])
      by *= tree.chance_probability[n] * (dealt[0][:, None] & dealt[1][None])
    reach[n] = above * by
  tables = np.asarray(tree.payoffs) / np.where(np.eye(hands), 1, tree.pair_weights[0])
  ends = np.flatnonzero(kind == games.TERMINAL)
  for player in (0, 1):
    high = np.full((tree.num_nodes, hands), -np.inf)
    low = -high
    for row, n in enumerate(ends):
      paid = tables[tree.payoff_index[row]] * tree.payoff_scale[row]
      paid, there = (
        (paid, reach[n, player] >= 0) if player == 0 else (paid.T, reach[n, player].T >= 0)
      )
      alive = possible_of(tree)[n]
      there = there & ~np.eye(hands, dtype=bool) & alive[player][:, None] & alive[1 - player][None]
      high[n] = np.where(there, paid, -np.inf).max(axis=1)
      low[n] = np.where(there, paid, np.inf).min(axis=1)
    for n in reversed(range(1, tree.num_nodes)):
      high[parent[n]] = np.maximum(high[parent[n]], high[n])
      low[parent[n]] = np.minimum(low[parent[n]], low[n])
    moves = np.concatenate(sweeps[player].nodes) / (hands - 1)  # as likely as a card and another
    squares = np.zeros((tree.num_nodes, hands))
    counts = np.zeros(tree.num_nodes)
    at = tree.structure.offsets
    for i, values in enumerate(sweeps[player].parents):
      for n in range(at[i], at[i + 1]) if values is not None else ():
        if kind[parent[n]] == player:
          gain = moves[n] - np.asarray(values)[n - at[i]] / (hands - 1)
          squares[parent[n]] += np.maximum(gain, 0) ** 2
          counts[parent[n]] += 1
    chosen = kind == player
    mass = reach[:, player].sum(axis=2 if player == 0 else 1)
    bound = mass * np.where(np.isfinite(high - low), high - low, 0) ** 2 * counts[:, None]
    taken, allowed = squares[chosen], share * bound[chosen] / iterations
    assert (taken <= allowed * (1 + 1e-3) + 1e-12).all(), (taken / allowed).max()
    np.testing.assert_allclose(taken, allowed, rtol=1e-2, atol=1e-12)
