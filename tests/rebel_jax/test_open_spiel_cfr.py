"""The same algorithms in OpenSpiel, iteration by iteration, to rounding in float64."""

import pyspiel
import pytest
from open_spiel.python.algorithms import cfr, discounted_cfr, fictitious_play

import solvers
from rebel_jax import open_spiel
from tests import harness
from tests.harness import run
from tests.random_efg import random_efg
from tests.rebel_jax.test_open_spiel_policies import make

# After k of its iterations OpenSpiel's average holds the policies after 0 to k - 1 updates; ours
# holds the newest too: k - 1 updates a player. Its XFP answers both averages at once.
COUNTS = (1, 2, 3, 5, 8, 16, 32)
TOLERANCE = 1e-10  # rounding grows in 32 iterations to some 1e-13

# Our algorithm and OpenSpiel's solver of the same.
PAIRS = {
  "cfr": (solvers.vanilla_cfr(), cfr.CFRSolver),
  "cfr_plus": (solvers.cfr_plus(averaging=1), cfr.CFRPlusSolver),
  "linear_cfr": (solvers.linear_cfr(), discounted_cfr.LCFRSolver),
  "discounted_cfr": (solvers.discounted_cfr(), discounted_cfr.DCFRSolver),
  "other_discounts": (
    solvers.discounted_cfr(1.2, -0.5, 3),
    lambda game: discounted_cfr.DCFRSolver(game, 1.2, -0.5, 3),
  ),
  "cfr_in_cpp": (solvers.vanilla_cfr(), pyspiel.CFRSolver),
  "cfr_plus_in_cpp": (solvers.cfr_plus(averaging=1), pyspiel.CFRPlusSolver),
}


def difference(game, tree, policy, theirs):
  """Returns the largest difference of two policies over information states and actions."""
  ours = open_spiel.to_tabular_policy(game, tree, policy).policy_table()
  worst = 0.0
  for string, row in ours.items():
    if hasattr(theirs, "policy_for_key"):
      expected = dict(enumerate(theirs.policy_for_key(string)))
    else:
      expected = theirs.action_probabilities(string)
    worst = max(worst, *(abs(p - expected.get(action, 0.0)) for action, p in row))
  return worst


def compare(name, algorithm, make_solver, counts, shift=1):
  """Returns the differences of average policies after `counts` iterations of OpenSpiel's."""
  game, tree = make(name)
  spiel_game = open_spiel.load_game(game)
  solver = make_solver(spiel_game)
  differences = []
  for k in range(1, max(counts) + 1):
    solver.evaluate_and_update_policy()
    if k in counts:
      average = run(tree, tree.prior, 2 * (k - shift), algorithm=algorithm)[1]
      differences.append(difference(game, tree, average, solver.average_policy()))
  return differences


@pytest.mark.parametrize("pair", PAIRS)
def test_kuhn(pair, x64):
  assert max(compare("kuhn", *PAIRS[pair], COUNTS)) < TOLERANCE
  # Control: after the same number of updates the averages differ.
  assert max(compare("kuhn", *PAIRS[pair], (2, 3, 5), shift=0)) > 1e-3


@pytest.mark.parametrize("name", harness.slow(["leduc", "liars_dice_1x4f"], "liars_dice_1x4f"))
def test_larger_games(name, x64):
  assert max(compare(name, *PAIRS["cfr_plus_in_cpp"], COUNTS)) < TOLERANCE


@pytest.mark.parametrize("plus", [False, True])
def test_simultaneous_updates(plus, x64):
  game, tree = make("kuhn")
  spiel_game = open_spiel.load_game(game)
  solver = cfr._CFRSolver(
    spiel_game, alternating_updates=False, linear_averaging=plus, regret_matching_plus=plus
  )
  k = 12
  for _ in range(k):
    solver.evaluate_and_update_policy()
  make_algorithm = solvers.cfr_plus if plus else solvers.vanilla_cfr

  def solve(alternating):
    algorithm = make_algorithm(averaging=int(plus), alternating=alternating)
    return solvers.solve(tree, algorithm=algorithm, num_iterations=2 * (k - 1)).average_policy

  assert difference(game, tree, solve(False), solver.average_policy()) < TOLERANCE
  assert difference(game, tree, solve(True), solver.average_policy()) > 1e-3


def test_fictitious_play_where_there_are_no_ties(x64):
  game, tree = open_spiel.from_game(pyspiel.load_efg_game(random_efg(95, depth=4, ties=False)))
  solver = fictitious_play.XFPSolver(game.open_spiel_game)
  k = 6
  for _ in range(k):
    solver.iteration()
  tables = solver.average_policy_tables()
  theirs = pyspiel.TabularPolicy(
    {string: list(row.items()) for table in tables for string, row in table.items()}
  )

  def solve(algorithm):
    return solvers.solve(tree, algorithm=algorithm, num_iterations=2 * k).average_policy

  ours = solve(solvers.fictitious_play(alternating=False))
  assert difference(game, tree, ours, theirs) < TOLERANCE
  wrong = solve(solvers.fictitious_play(averaging=1, alternating=False))
  assert difference(game, tree, wrong, theirs) > 1e-3
