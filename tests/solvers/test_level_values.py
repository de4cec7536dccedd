"""Infostate values are supergradients of a public belief state's value (ReBeL, theorem 1)."""

import numpy as np
import pytest

import games
import solvers
from tests import harness
from tests.trees import possible_of


def game_tree(name):
  parameters = {"num_dice": 1, "num_faces": 3} if name == "liars_dice" else {}
  return games.build_public_tree(games.make(name, **parameters)).astype(np.float64)


def mass(tree, beliefs, player):
  """Returns the other's mass that is compatible with each infostate, from the pairs' weights."""
  weights = np.asarray(tree.pair_weights[tree.root_pair_index])
  return weights @ beliefs[1] if player == 0 else beliefs[0] @ weights


@pytest.mark.parametrize(("name", "player"), [("kuhn_poker", 1), ("liars_dice", 0)])
def test_slopes_of_a_pbs_value_are_infostate_values(name, player, x64):
  """Of a fixed policy it is linear in beliefs; control: hands that block are not weighed."""
  tree = game_tree(name)
  beliefs = harness.random_beliefs(np.random.default_rng(2), possible_of(tree)[0])
  policy = np.asarray(
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=20).average_policy
  )

  def value(beliefs):
    worth = solvers.expected_values(tree, policy, beliefs=beliefs)
    return (solvers.root_marginals(tree, beliefs)[player] * worth[player]).sum()

  found = solvers.contrib.infostate_values(tree, value, beliefs, player=player)
  expected = solvers.expected_values(tree, policy, beliefs=beliefs)[player]
  np.testing.assert_allclose(found, expected, atol=1e-12)
  assert np.ptp(expected) > 0.1  # they are not all the value of the PBS
  unweighed = np.asarray(found) * mass(tree, beliefs, player)
  assert (np.abs(unweighed - expected).max() > 0.05) == (name == "kuhn_poker")
