"""Infostate values are supergradients of a public belief state's value (ReBeL, theorem 1)."""

import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from tests import harness


def game_tree(name):
  parameters = {"num_dice": 1, "num_faces": 3} if name == "liars_dice" else {}
  return games.build_public_tree(games.make(name, **parameters)).astype(np.float64)


def solved(tree, beliefs):
  found = solvers.solve(
    tree, algorithm=solvers.discounted_cfr(), num_iterations=6_000, beliefs=beliefs
  )
  return np.asarray(found.root_values)


def tangent(tree, beliefs, player):
  """Returns the function of beliefs that is one number a PBS: planes through solved values."""
  step, size = 1e-3, tree.num_infostates
  around = [beliefs]
  for infostate in range(size):
    near = np.array(beliefs)
    near[player, infostate] += step
    near[player] /= near[player].sum()
    around.append(near)
  worth = [
    float((solvers.root_marginals(tree, near)[player] * solved(tree, near)[player]).sum())
    for near in around
  ]
  weight = [mass(tree, near, player) for near in around]
  sums = np.array([w * (near[player] * m).sum() for w, near, m in zip(worth, around, weight)])
  plane = np.linalg.lstsq(np.stack([near[player] for near in around]), sums, rcond=None)[0]
  other = weight[0]
  return lambda at: (jnp.asarray(plane) * at[player]).sum() / (at[player] * other).sum()


def mass(tree, beliefs, player):
  """Returns the other's mass that is compatible with each infostate, from the pairs' weights."""
  weights = np.asarray(tree.pair_weights[tree.root_pair_index])
  return weights @ beliefs[1] if player == 0 else beliefs[0] @ weights


@pytest.mark.parametrize(("name", "player"), [("kuhn_poker", 0), ("liars_dice", 1)])
def test_slopes_of_a_pbs_value_are_infostate_values(name, player, x64):
  tree = game_tree(name)
  beliefs = harness.random_beliefs(np.random.default_rng(5), harness.root_possible(tree))
  value = tangent(tree, beliefs, player)
  found = solvers.contrib.infostate_values(tree, value, beliefs, player=player)
  expected = solved(tree, beliefs)[player]
  np.testing.assert_allclose(found, expected, atol=0.02)
  assert np.ptp(expected) > 0.1  # control: they are not all the value of the PBS


def test_blocked_hands_are_weighed(x64):
  """Any fixed policy's PBS value is linear in beliefs, and its slopes are exact."""
  tree = game_tree("kuhn_poker")
  beliefs = harness.random_beliefs(np.random.default_rng(2), harness.root_possible(tree))
  policy = np.asarray(
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=20).average_policy
  )

  def value(beliefs):
    worth = solvers.expected_values(tree, policy, beliefs=beliefs)
    return (solvers.root_marginals(tree, beliefs)[1] * worth[1]).sum()

  found = solvers.contrib.infostate_values(tree, value, beliefs, player=1)
  expected = solvers.expected_values(tree, policy, beliefs=beliefs)[1]
  np.testing.assert_allclose(found, expected, atol=1e-12)
  unweighed = np.asarray(found) * mass(tree, beliefs, 1)
  assert np.abs(unweighed - expected).max() > 0.05
