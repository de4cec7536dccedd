"""Of the thesis: payoffs that depend on parameters, leaves of several values, and pruning."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import games
import solvers
from benchmarks.studies import bet_sizes, pruning
from solvers import contrib, loop
from solvers.contrib.continuations.policies import of_players
from solvers.contrib.parameters.optimise import value_gradient
from solvers.sweeps.levels import split_levels
from solvers.sweeps.problem import make_problem
from tests.brute_force import Referee, from_array, tree_edges
from tests.harness import fast_to_compile, make_case
from tests.trees import children_of, random_policy

AT_ONCE = dataclasses.replace(solvers.vanilla_cfr(), alternating=False)


def leduc(first, second):
  return games.build_public_tree(games.make("leduc_poker", bets=((first,), (second,))))


def matrix_family(size, spread, seed=0):
  """Returns two matrices, and the trees whose payoffs are the first plus t times the other."""
  rng = np.random.default_rng(seed)
  first, change = rng.uniform(-1, 1, (size, size)), rng.uniform(-spread, spread, (size, size))

  def build(t):
    game = games.make("matrix_game", payoffs=(first + t * change).tolist())
    return games.build_public_tree(game).astype(np.float64)

  return first, change, contrib.affine_trees(build, (0.0,))


def test_trees_of_a_family_are_those_of_the_game():
  trees = contrib.affine_trees(leduc, (2.0, 4.0))
  found, built = trees.at((3.5, 9.25)), leduc(3.5, 9.25)
  np.testing.assert_allclose(found.payoff_scale, built.payoff_scale, rtol=1e-6)
  assert found.origin is None
  far = trees.at((2.0, 4.0))
  assert np.abs(np.asarray(far.payoff_scale) - built.payoff_scale).max() > 1


def test_the_gradient_is_that_of_the_value(x64):
  _, _, trees = matrix_family(4, 0.5)
  algorithm = solvers.discounted_cfr()

  def solve(theta):
    solved = solvers.solve(trees.at((theta,)), algorithm=algorithm, num_iterations=8192)
    return float(solved.root_values[0, 0]), solved.average_policy

  @functools.partial(jax.jit, static_argnums=1)
  def slope(policy, player):
    return value_gradient(trees, split_levels(trees.tree, policy), player)[0]

  _, policy = solve(1.0)
  slopes = [float(slope(policy, p)) for p in (0, 1)]
  assert slopes[0] == pytest.approx(-slopes[1])
  between = (solve(1.01)[0] - solve(0.99)[0]) / 0.02
  assert slopes[0] == pytest.approx(between, abs=3e-3)
  uniform = jnp.full(np.shape(policy), 0.25)
  assert abs(float(slope(uniform, 0)) - between) > 0.02


def test_the_best_payoff_of_a_matrix_game():
  """Worth t (3 - t) / 3, most to player 0 at the middle, and to the other at either bound."""
  trees = contrib.affine_trees(
    lambda t: games.build_public_tree(games.make("matrix_game", payoffs=((t, 0), (0, 3 - t)))),
    (1.0,),
  )
  found = [
    contrib.optimise(
      trees, player=player, start=(0.9,), bounds=[(0.2, 2.6)], num_iterations=512, num_steps=16
    )
    for player in (0, 1)
  ]
  assert abs(float(found[0].parameters[0]) - 1.5) < 0.05
  assert abs(float(found[0].value) - 0.75) < 0.002
  assert float(found[1].parameters[0]) == pytest.approx(0.2)
  assert abs(float(found[1].value) + 0.2 * 2.8 / 3) < 0.002


@pytest.mark.slow
def test_the_best_second_bet_of_leduc():
  """9.75 by the thesis (section 4.2.6), worth .1611 within .002."""
  found = contrib.optimise(
    bet_sizes.leduc(both=False),
    player=1,
    start=(8.0,),
    bounds=[(0.5, 14.0)],
    num_iterations=768,
    num_steps=16,
  )
  assert abs(float(found.parameters[0]) - 9.75) < 0.15
  assert abs(float(found.value) - 0.1611) < 0.002


def test_regrets_are_those_of_the_same_policies(x64):
  first, change, trees = matrix_family(5, 0.3)
  solved = contrib.solve_affine(trees, (0.0,), num_iterations=40, algorithm=AT_ONCE)
  usual = solvers.solve(trees.at((0.0,)), algorithm=AT_ONCE, num_iterations=40)
  np.testing.assert_allclose(solved.average_policy, usual.average_policy, atol=1e-12)

  regrets, counted = [np.zeros(5), np.zeros(5)], np.zeros(5)
  for _ in range(20):
    rows, columns = (
      np.maximum(r, 0) / np.maximum(r, 0).sum() if (r > 0).any() else np.full(5, 0.2)
      for r in regrets
    )
    for worth, own, total in (
      (first @ columns, rows, regrets[0]),
      (-(rows @ first), columns, regrets[1]),
    ):
      total += worth - own @ worth
    there = (first + 0.7 * change) @ columns
    counted += there - rows @ there
  parts = np.asarray(solved.state.regret[1])[:, 0]
  np.testing.assert_allclose(parts[0], regrets[0], atol=1e-12)
  np.testing.assert_allclose(parts[0] + 0.7 * parts[1], counted, atol=1e-12)
  assert np.abs(parts[0] - counted).max() > 0.1


@pytest.mark.slow
def test_carried_over_regrets_help_and_do_no_harm(x64):
  """A head start of some updates; unweighed, what was learned elsewhere is in the way for long."""
  _, _, trees = matrix_family(20, 0.2)
  there, error = trees.at((1.0,)), {}
  known = contrib.solve_affine(trees, (0.0,), num_iterations=2_000, algorithm=AT_ONCE)
  for name, weight in (
    ("scratch", None),
    ("potential", "potential"),
    ("bound", "bound"),
    ("all", 1),
  ):
    for updates in (2, 20, 2_000):
      solved = contrib.solve_affine(
        trees,
        (1.0,),
        num_iterations=updates,
        start=known if weight is not None else None,
        weight=weight or "bound",
        algorithm=AT_ONCE,
      )
      error[name, updates] = float(solvers.exploitability(there, solved.average_policy))
  for name in ("potential", "bound"):
    assert error[name, 2] < 0.8 * error["scratch", 2]
    assert error[name, 20] < error["scratch", 20]
    assert error[name, 2_000] < 1.1 * error["scratch", 2_000]
  assert error["all", 2_000] > 1.5 * error["scratch", 2_000]


# Leaves of several values: against enumeration, games solved by hand, controls.

KUHN = games.make("kuhn_poker")
AFTER_PASS, AFTER_BET, PASS_BET = 1, 2, 3
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


# Regret-based pruning: skips of Theorem 7 leave positive regrets alone (section 3.3).


@pytest.mark.slow
def test_a_skip_of_theorem_7_changes_no_positive_regret(x64):
  tree = games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3))
  problem = make_problem(tree, tree.prior)
  bounds = [pruning.regret_bounds(problem, p) for p in (0, 1)]
  nothing = tuple(jnp.zeros(shape) for shape in problem.shapes)

  @fast_to_compile
  def go(state, node, hand, length, number):
    """Goes on for `number` of both; player 0 skips a first move for `length`."""

    def at_move(value):
      return (nothing[0], nothing[1].at[node, hand].set(value), *nothing[2:])

    def both(_, carry):
      state, skips = carry
      state, skips, *_ = pruning.step(problem, bounds, state, skips, 0, 0.0)
      return pruning.step(problem, bounds, state, nothing, 1, 0.0)[0], skips

    state, _ = lax.fori_loop(0, number, both, (state, at_move(length)))
    elsewhere = problem.own_reach(tuple((x == 0) * 1.0 for x in at_move(1.0)), 0)
    # Player 0 moves to odd levels.
    rows = [x * elsewhere[i] if i % 2 else x for i, x in enumerate(state.regret) if x is not None]
    return state, [jnp.maximum(x, 0.0) for x in rows]

  start, _ = go(loop.begin(problem, pruning.ALGORITHM), 0, 0, 0.0, 2)
  node, hand = 1, 2  # a bid that would be played, but for a regret as low as one skip asks for
  regret = start.regret[1].at[node, hand].set(-bounds[0][1][node, hand])
  start = start._replace(regret=(None, regret, *start.regret[2:]))
  start = pruning.ALGORITHM.extend(problem, start)

  def difference(number):
    """Returns by how much positive regrets differ after a skip of so many iterations."""
    one, other = (go(start, node, hand, float(x), number)[1] for x in (number, 0))
    return max(float(abs(x - y).max()) for x, y in zip(one, other, strict=True))

  assert difference(1) == 0
  assert difference(10) > 0.1  # control: a skip ten times as long


@pytest.mark.slow
def test_best_responses_prune_what_is_not_played(x64):
  tree = games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3))
  problem, one = make_problem(tree, tree.prior), pruning.Sums
  bounds = [pruning.regret_bounds(problem, p) for p in (0, 1)]
  ones = tuple(jnp.ones(shape) for shape in problem.shapes)
  zeros = tuple(map(jnp.zeros_like, ones))

  @fast_to_compile
  def run(known, bounds, number=400):
    def both(_, carry):
      state, skips, known = carry
      found = []
      for p in (0, 1):
        state, later, _, new = pruning.step(problem, bounds, state, skips[p], p, known=known[p])
        found.append((later, new))
      return state, tuple(x for x, _ in found), tuple(x for _, x in found)

    start = loop.begin(problem, pruning.ALGORITHM), (zeros, zeros), known
    state, skips, _ = lax.fori_loop(0, number, both, start)
    return problem.join(pruning.ALGORITHM.average_policy(problem, state)), skips

  policy, skips = run((one(zeros, zeros, ones),) * 2, bounds)
  assert sum(float((x > 0).sum()) for x in skips[0]) > 20
  plain, _ = run((None, None), bounds)
  gap, best = (float(solvers.exploitability(tree, x)) for x in (policy, plain))
  assert gap < 2 * best
  partial, left = pruning.shares(tree, 200, responses=True)
  assert left[0] < 0.9 * partial[0]
  assert left[2] < 0.9
  # Control: where infostates seem to be worth less than anything, no move is skipped.
  less = tuple(x - 1e3 for x in zeros)
  _, skips = run((one(zeros, less, ones),) * 2, bounds)
  assert sum(float((x > 0).sum()) for x in skips[0]) == 0
