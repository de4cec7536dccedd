"""Locked policies: part of a policy is kept, and the rest is solved, or answered, around it."""

import numpy as np
import pytest

import games
import solvers
from tests.brute_force import Referee
from tests.sentences import refused
from tests.trees import children_of

KUHN = games.make("kuhn_poker")


def value_of(tree, **arguments):
  settings = {"algorithm": solvers.cfr_plus(), "num_iterations": 2000} | arguments
  solution = solvers.solve(tree, **settings)
  prior = solvers.root_marginals(tree, tree.prior)
  return float((prior[0] * solution.root_values[0]).sum()), solution


def kuhn_lock(call):
  """Returns the tree, a policy that calls a bet with the queen so often, and the lock on that."""
  tree = games.build_public_tree(KUHN)
  child = children_of(tree)
  after_bet = child[0, 1]
  policy = np.full((tree.num_nodes, 3), 0.5)
  policy[child[after_bet, 1], 1], policy[child[after_bet, 0], 1] = call, 1 - call
  locked = np.zeros((tree.num_nodes, 3), bool)
  locked[[child[after_bet, 0], child[after_bet, 1]], 1] = True
  return tree, policy, locked


@pytest.mark.parametrize("call", [0.0, 0.8])
def test_the_rest_answers_a_locked_call(call, x64):
  tree, policy, locked = kuhn_lock(call)
  value, solution = value_of(tree, initial_policy=policy, locked=locked)
  held = {(1, (1,), 1): (1.0, {(0, 1): 1 - call, (1, 1): call})}
  assert value == pytest.approx(Referee(KUHN).equilibrium_value(held), abs=1e-3)
  np.testing.assert_allclose(
    np.asarray(solution.average_policy)[locked], policy[locked], atol=1e-12
  )
  assert float(
    solvers.exploitability(tree, solution.average_policy, locked=locked)
  ) == pytest.approx(0, abs=1e-3)
  # Controls: whoever may answer freely gains, and without the lock the game is what it was.
  assert float(solvers.exploitability(tree, solution.average_policy)) > 0.01
  free, _ = value_of(tree, initial_policy=policy)
  assert free == pytest.approx(Referee(KUHN).equilibrium_value(), abs=1e-3)
  assert abs(value - free) > 0.01


@pytest.mark.parametrize("name", ["cfr_plus", "linear_fictitious_play"])
def test_a_least_frequency(name, x64):
  """At least half the time a bet with the queen first, which no equilibrium of Kuhn poker has."""
  tree = games.build_public_tree(KUHN)
  held = solvers.lock(tree, (), {1: (0.5, 1.0)}, infostates=[1])
  value, solution = value_of(tree, locked=held, algorithm=solvers.make_algorithm(name))
  bets = {(0, (), 1): (0.5, {(1, 1): 1.0})}
  assert value == pytest.approx(Referee(KUHN).equilibrium_value(bets), abs=3e-3)
  policy = np.asarray(solution.average_policy)
  assert policy[children_of(tree)[0, 1], 1] == pytest.approx(0.5, abs=0.02)
  assert float(solvers.exploitability(tree, policy, locked=held)) < 3e-3
  assert float(solvers.exploitability(tree, policy)) > 0.01
  assert value < -1 / 18 - 0.01


def test_bounds_of_one_of_three_moves(x64):
  tree = games.build_public_tree(games.make("leduc_poker"), root=(1, 2, 1, 5))
  child = children_of(tree)
  after_bet = child[0, 2]
  moves = [child[after_bet, action] for action in (0, 1, 2)]
  for frequencies, check in (
    ({0: 0.2}, lambda p: abs(p[0] - 0.2).max() < 1e-6),
    ({2: (0.1, 1.0), 0: 0.2}, lambda p: p[2].min() > 0.1 - 1e-6 and abs(p[0] - 0.2).max() < 1e-6),
    ({2: (0.1, 0.3), 0: 0.2}, lambda p: p[2].min() > 0.1 - 1e-6 and p[2].max() < 0.3 + 1e-6),
    ({2: 0.0}, lambda p: p[2].max() < 1e-6),
  ):
    held = solvers.lock(tree, (2,), frequencies)
    _, solution = value_of(tree, locked=held, num_iterations=200)
    policy = np.asarray(solution.average_policy)
    assert check(policy[moves]), frequencies
    gap = float(solvers.exploitability(tree, policy, locked=held))
    assert gap < 0.03 < float(solvers.exploitability(tree, policy)) + 0.02, frequencies
    found = np.asarray(solvers.best_response(tree, policy, 1, locked=held).policy)
    assert check(found[moves]), frequencies


LEDUC = games.build_public_tree(games.make("leduc_poker"))
test_frequencies_that_cannot_be_are_refused = refused(
  (lambda: solvers.lock(LEDUC, (2,), {0: 0.7, 1: 0.7}), "cannot be kept together"),
  (lambda: solvers.lock(LEDUC, (2,), {7: 0.2}), "name action 7; those that exist there are"),
  (lambda: solvers.lock(LEDUC, (2,), {2: (0.1, 0.3)}), "bound a move from above that several"),
  (lambda: solvers.lock(LEDUC, (0,), {1: 1.0}), "leaves the tree: node 0 lacks 0"),
)
