"""Leaves of several values: values of pairs against enumeration, games solved by hand, controls."""

import numpy as np
import pytest

import games
import solvers
from solvers import contrib
from solvers.contrib.continuations.policies import of_players
from tests.brute_force import Referee, from_array, tree_edges
from tests.harness import make_case
from tests.trees import children_of, random_policy

KUHN = games.make("kuhn_poker")
PASS, BET, AFTER_PASS, AFTER_BET, PASS_BET = 1, 2, 1, 2, 3
ALPHA, QUEEN_CALLS = 0.2, 8 / 15  # of an equilibrium of Kuhn poker: alpha, and alpha + 1/3
SMALL = ("kuhn", "rock_paper_scissors", "leduc", "random_5")


def solve(tree, num_iterations=2000, **arguments):
  return solvers.solve(
    tree, algorithm=solvers.cfr_plus(), num_iterations=num_iterations, **arguments
  )


def with_moves(tree, often):
  """Returns a policy that makes moves (node, action) of two so `often`, and others at random."""
  policy, child = np.array(random_policy(tree, np.random.default_rng(0))), children_of(tree)
  for (node, action), row in often.items():
    policy[child[node, action]], policy[child[node, 1 - action]] = row, 1 - np.array(row)
  return policy


@pytest.mark.parametrize("name", SMALL)
def test_pair_values_are_those_of_enumeration(name, x64):
  game, root = make_case(name) if name != "leduc" else (games.make("leduc_poker"), (1, 1))
  tree = games.build_public_tree(game, root=root)
  policy = random_policy(tree, np.random.default_rng(3))
  values = np.asarray(contrib.pair_values(tree, policy))
  weights, index = np.asarray(game.pair_weights()), game.pair_index(np.asarray(tree.state))
  places = {(*root, *tree.history(node)): node for node in range(tree.num_nodes)}
  known, errors, sizes = from_array(tree_edges(tree, root), policy), [], []
  referee = Referee(game, root, tree.prior)
  for (history, hands), node in {(x.history, hands): x for x, hands in referee.histories()}.items():
    value, at = referee.value(known, node, hands, 0), places[history]
    errors.append(values[at][hands] - value * weights[index[at]][hands])
    sizes.append(abs(value))
  assert np.abs(errors).max() < 1e-10 < 0.1 < np.max(sizes)
  # Control: another policy of one player has other values.
  other = of_players(tree, random_policy(tree, np.random.default_rng(4)), policy)
  assert np.abs(contrib.pair_values(tree, other)[0] - values[0]).max() > 1e-3


def rock_paper_scissors(tree, answers):
  policy = np.full((tree.num_nodes, 3), 1 / 3)
  policy[0], policy[2:] = 1, np.array(answers)[:, None]
  return policy


def test_three_answers_make_rock_paper_scissors_whole(x64):
  """Thesis, section 5.2.1: one value leaves the top uniform, three pure answers do not."""
  game = games.make("rock_paper_scissors")
  tree, top = games.build_public_tree(game), games.build_public_tree(game, depth=1)
  uniform = rock_paper_scissors(tree, np.full(3, 1 / 3))
  pure = [rock_paper_scissors(tree, row) for row in np.eye(3)]
  equilibrium = rock_paper_scissors(tree, [0.4, 0.4, 0.2])

  def play(continuations):
    tables = contrib.leaf_tables(tree, [1], [uniform], continuations)
    extended = contrib.with_continuations(top, tables)
    solution = solve(extended.tree, 8192)
    policy = np.array(equilibrium)
    policy[1] = extended.of_top(solution.average_policy)[1]
    return policy[1], float(solvers.best_response_values(tree, policy)[1])

  played, lost = play(pure)
  np.testing.assert_allclose(played, [0.4, 0.4, 0.2], atol=1e-3)
  assert lost == pytest.approx(0, abs=3e-3)
  played, lost = play([equilibrium])
  np.testing.assert_allclose(played, np.full(3, 1 / 3), atol=1e-6)
  assert lost == pytest.approx(1 / 3, abs=1e-6)


def kuhn():
  """Returns Kuhn's tree, player 0's equilibrium below, and player 1's two pure continuations."""
  tree = games.build_public_tree(KUHN)
  calls = {(PASS_BET, 1): [0, QUEEN_CALLS, 1], (0, 1): [ALPHA, 0, 3 * ALPHA]}
  answers = [
    {(AFTER_PASS, 1): np.full(3, often), (AFTER_BET, 1): np.full(3, often)} for often in (0.0, 1.0)
  ]
  return tree, with_moves(tree, calls), [with_moves(tree, answer) for answer in answers]


def top_of_kuhn(tree, first, second, num_iterations=8192):
  """Returns what player 0 bets with, and the solution of Kuhn cut off after its first action."""
  top = games.build_public_tree(KUHN, depth=1)
  tables = contrib.leaf_tables(tree, [AFTER_PASS, AFTER_BET], first, second)
  extended = contrib.with_continuations(top, tables)
  solution = solve(extended.tree, num_iterations)
  prior = solvers.root_marginals(extended.tree, extended.tree.prior)
  value = float((prior[0] * solution.root_values[0]).sum())
  return extended.of_top(solution.average_policy)[children_of(tree)[0, 1]], value, extended


def test_values_of_pure_continuations_suffice(x64):
  """Proposition 3 on Kuhn poker: the top of the equilibrium whose values below are known."""
  tree, below, pure = kuhn()
  bets, value, _ = top_of_kuhn(tree, [below], pure)
  np.testing.assert_allclose(bets, [ALPHA, 0, 3 * ALPHA], atol=1e-3)
  assert value == pytest.approx(-1 / 18, abs=1e-3)

  def lost(bets):
    policy = np.array(below)
    policy[2], policy[1] = bets, 1 - bets
    return float(solvers.best_response_values(tree, policy)[1]) - 1 / 18

  assert lost(bets) == pytest.approx(0, abs=1e-3)
  # Control: with an equilibrium's values alone player 0 may bet as it likes, and loses.
  one = np.array(solve(tree).average_policy)
  single, _, _ = top_of_kuhn(tree, [below], [one])
  assert lost(single) > 0.02


@pytest.mark.slow
def test_more_continuations_are_less_exploitable(x64):
  """Leduc poker cut after its first round, as Figure 5.8: one continuation is worst."""
  game = games.make("leduc_poker")
  tree, top = games.build_public_tree(game), games.build_public_tree(game, depth="stage")
  blueprint = np.asarray(solve(tree, 30).average_policy)
  grown = contrib.grown_continuations(tree, top, blueprint, chooser=1, count=8, num_iterations=512)
  places = solvers.Placer(tree).places(top)
  tables = contrib.leaf_tables(tree, places[top.leaf_nodes], [blueprint], grown)
  movers = np.asarray(tree.kind)[np.maximum(tree.parent, 0)]
  held = np.isin(np.arange(tree.num_nodes), places[1:]) & (movers == 0)
  losses = {}
  for k in (1, 2, 4, 8):
    # Repeated, so that all are trees of one shape.
    extended = contrib.with_continuations(top, np.repeat(tables[:, :, :k], 8 // k, axis=2))
    policy = np.array(blueprint)
    policy[places] = extended.of_top(solve(extended.tree, 512).average_policy)
    done = solve(tree, 1024, initial_policy=policy, locked=held).average_policy
    losses[k] = float(solvers.best_response_values(tree, done)[1]) - 0.0856
  assert losses[1] > max(losses[2], losses[4], losses[8])
  assert losses[8] < 0.4 * losses[1]
  assert losses[8] > -1e-3


@pytest.mark.parametrize("frozen", ["hand", "all"])
@pytest.mark.slow
def test_search_from_the_start_of_the_round(frozen, x64):
  tree = games.build_public_tree(KUHN)
  blueprint = [random_policy(tree, np.random.default_rng(0))]
  policy = contrib.search_rounds(KUHN, tree, blueprint, blueprint, frozen=frozen)
  assert float(solvers.exploitability(tree, policy)) < 5e-3
