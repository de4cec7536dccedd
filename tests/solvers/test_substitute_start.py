"""Warm start by substitute regrets (thesis, section 3.2): the conditions of Theorem 6."""

import jax
import numpy as np
import pytest

import games
from solvers.contrib.substitute_start import substitute_values
from solvers.sweeps import make_problem
from tests import harness
from tests.trees import possible_of, random_policy


@pytest.mark.parametrize("name", harness.slow(["kuhn_poker", "leduc_poker"], "leduc_poker"))
@pytest.mark.parametrize("iterations", [2, 10])
def test_theorem_6(name, iterations, x64):
  """Its two conditions: no choice keeps more regret than (3.6) allows, v_0 + v_1 <= 0."""
  # Both hold with equality, which is one number a choice and one for all.
  tree = games.build_public_tree(games.make(name))
  policy = random_policy(tree, np.random.default_rng(0))

  @jax.jit
  def substitutes(tree, iterations):
    problem = make_problem(tree, tree.prior)
    return substitute_values(problem, problem.split(policy), iterations)

  sweeps, share = jax.device_get(substitutes(tree, float(iterations)))
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
