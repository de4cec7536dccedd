"""Expected values, best responses and exploitability against the referee over histories."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from tests import brute_force, harness

TOLERANCE = 1e-10
# The rest have trees of the same kinds, and each compiles anew.
QUICK = {"rock_paper_scissors", "leduc_after_a_card", "random_5"}
CASES = harness.slow(harness.CASES, *(harness.CASES.keys() - QUICK))


@harness.fast_to_compile
def measure(tree, policy, beliefs):
  """Returns expected values, both best responses and exploitability of a policy."""
  responses = [solvers.best_response(tree, policy, player, beliefs=beliefs) for player in (0, 1)]
  return (
    solvers.expected_values(tree, policy, beliefs=beliefs),
    jnp.stack([response.values for response in responses]),
    [response.policy for response in responses],
    solvers.exploitability(tree, policy, beliefs=beliefs),
  )


def scene(case, seed, zeros):
  """Returns referee, tree, its edges, beliefs with zeros, and a policy as a dict and an array."""
  game, root = harness.make_case(case)
  tree = games.build_public_tree(game, root=root)
  rng = np.random.default_rng(seed)
  beliefs = harness.random_beliefs(rng, harness.root_possible(tree))
  referee = brute_force.Referee(game, root, beliefs)
  policy = referee.random(rng, zeros=zeros)
  edges = brute_force.tree_edges(tree, root)
  return referee, tree, edges, beliefs, policy, brute_force.to_array(tree, policy, root)


@pytest.mark.parametrize("zeros", [0.0, 0.4])
@pytest.mark.parametrize("case", CASES)
def test_measures_of_random_policies_match_the_referee(case, zeros, x64):
  referee, tree, edges, beliefs, policy, array = scene(case, 1, zeros)
  values, best, responses, exploitability = measure(tree, array, beliefs)
  expected = referee.expected_values(policy)
  np.testing.assert_allclose(values, expected, rtol=0, atol=TOLERANCE)
  for player in (0, 1):
    expected_best = np.array(referee.best_response_values(policy, player))
    np.testing.assert_allclose(best[player], expected_best, rtol=0, atol=TOLERANCE)
    # The policy that is returned earns those values, and leaves the other's part alone.
    response = brute_force.from_array(edges, responses[player])
    earned = referee.root_values(response, player)
    np.testing.assert_allclose(earned, expected_best, rtol=0, atol=TOLERANCE)
    theirs = [infoset for infoset in policy if infoset[0] != player]
    assert brute_force.worst_difference(edges, responses[player], policy, theirs) < TOLERANCE
    # A control on the comparison: a mixed policy earns less than the response to it.
    assert zeros or (expected_best - expected[player]).max() > 1e-3
  np.testing.assert_allclose(exploitability, referee.exploitability(policy), atol=TOLERANCE)
  worth = (solvers.root_marginals(tree, beliefs) * values).sum(axis=1)
  np.testing.assert_allclose(worth, referee.game_value(policy) * np.array([1, -1]), atol=TOLERANCE)


def test_the_referees_best_response_is_the_best_pure_strategy():
  """Kuhn poker has 64 pure strategies a player: none earns more, and one earns as much."""
  referee, _, _, _, policy, _ = scene("kuhn", 3, 0.2)
  for player in (0, 1):
    own = [(i, moves) for i, moves in referee.infosets.items() if i[0] == player]
    best = -np.inf
    for choice in itertools.product(*(moves for _, moves in own)):
      pure = {i: {m: float(m == c) for m in moves} for (i, moves), c in zip(own, choice)}
      value = referee.game_value({**policy, **pure})
      best = max(best, value if player == 0 else -value)
    assert best == pytest.approx(referee.best_response_value(policy, player), abs=1e-12)
