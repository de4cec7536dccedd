"""Exact leaf values, depth-limited solving with them (ReBeL, section 5.1), slopes of PBS values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from benchmarks.studies import family_parts
from solvers.leaf_values import LeafQuery
from tests import harness
from tests.trees import possible_of, random_policy

# A depth, and the exploitability that 256 iterations must reach.
CASES = {
  "kuhn": (2, 0.01),
  "rock_paper_scissors": (1, 0.04),
  "liars_dice_1x3f": (2, 0.005),
  "leduc": (5, 0.15),
}


def make(case):
  game, _ = harness.make_case(case)
  return game, games.build_public_tree(game, depth=CASES[case][0])


def random_query(tree, player=0, seed=0, **others):
  """Returns a query at random beliefs over what is possible at each leaf, zeros among them."""
  rng = np.random.default_rng(seed)
  possible = possible_of(tree)[tree.leaf_nodes]
  beliefs = np.stack([harness.random_beliefs(rng, p) for p in possible])
  return LeafQuery(tree.leaf_features[player], player, jnp.asarray(beliefs), **others)


@pytest.mark.parametrize("case", harness.slow(CASES, "liars_dice_1x3f", "leduc"))
def test_the_average_whole_policy_approaches_an_equilibrium(case):
  """CFR-D: what its iterations play, top and subgames together, averages to an equilibrium."""
  depth, bound = CASES[case]
  how = {"depth": depth, "algorithm": solvers.linear_cfr(), "checkpoints": (16, 256)}
  points = family_parts.measure_top(harness.make_case(case)[0], num_iterations_below=64, **how)
  early, late = [point.exploitability for point in points]
  assert late < bound
  assert late < early / 2


@pytest.mark.parametrize("case", harness.slow(CASES, "liars_dice_1x3f", "leduc"))
def test_a_leaf_is_worth_what_its_subgame_is(case, x64):
  (game, tree), player = make(case), 1
  query = random_query(tree, player)
  how = {"algorithm": solvers.discounted_cfr(), "num_iterations": 8}
  oracle = solvers.exact_leaf_values(game, **how)
  below, params = oracle.bind(tree)
  below = jax.jit(below)
  values = below(params, query)
  assert values.shape == (tree.num_leaves, tree.num_infostates)
  expected, leaves = [], range(0, tree.num_leaves, max(1, tree.num_leaves // 4))
  for leaf in leaves:
    subgame = games.build_public_tree(game, root=tree.history(int(tree.leaf_nodes[leaf])))
    beliefs = query.beliefs[leaf]
    policy = solvers.solve(subgame, beliefs=beliefs, **how).average_policy
    expected.append(solvers.expected_values(subgame, policy, beliefs=beliefs)[player])
  np.testing.assert_allclose(values[jnp.array(leaves)], expected, rtol=0, atol=1e-10)
  # The control: another seed's beliefs are worth something else.
  other = below(params, random_query(tree, player, seed=1))
  assert np.abs(other - values).max() > 1e-3


def test_beliefs_that_exclude_each_other_are_worth_nothing():
  """Both sure of the same card: no pair of infostates is left, and nothing divides by it."""
  game, tree = make("kuhn")
  beliefs = jnp.zeros((tree.num_leaves, 2, 3)).at[:, :, 0].set(1.0)
  below, params = solvers.exact_leaf_values(game, num_iterations=8).bind(tree)
  values = jax.jit(below)(params, LeafQuery(tree.leaf_features[0], 0, beliefs))
  assert np.isfinite(values).all()
  assert (values[:, 0] == 0).all()


def test_traced_trees_are_refused():
  game, tree = make("kuhn")
  oracle = solvers.exact_leaf_values(game, num_iterations=8)
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": 8, "leaf_values": oracle}
  with pytest.raises(ValueError, match=r"tree is traced"):
    jax.jit(lambda tree: solvers.solve(tree, **settings).root_values)(tree)
  below = jax.jit(lambda beliefs: solvers.solve(tree, beliefs=beliefs, **settings).root_values)
  plain = solvers.solve(tree, **settings).root_values
  np.testing.assert_allclose(below(jnp.asarray(tree.prior)), plain, atol=1e-6)


def mass(tree, beliefs, player):
  """Returns the other's mass that is compatible with each infostate, from the pairs' weights."""
  weights = np.asarray(tree.pair_weights[tree.root_pair_index])
  return weights @ beliefs[1] if player == 0 else beliefs[0] @ weights


@pytest.mark.parametrize(("name", "player"), [("kuhn", 1), ("rock_paper_scissors", 0)])
def test_slopes_of_a_pbs_value_are_infostate_values(name, player, x64):
  """Of a fixed policy it is linear in beliefs; control: hands that block are not weighed."""
  tree = games.build_public_tree(harness.make_case(name)[0])
  beliefs = harness.random_beliefs(np.random.default_rng(2), possible_of(tree)[0])
  policy = random_policy(tree, np.random.default_rng(0))

  def value(beliefs):
    worth = solvers.expected_values(tree, policy, beliefs=beliefs)
    return (solvers.root_marginals(tree, beliefs)[player] * worth[player]).sum()

  found = solvers.contrib.infostate_values(tree, jax.jit(value), beliefs, player=player)
  expected = solvers.expected_values(tree, policy, beliefs=beliefs)[player]
  np.testing.assert_allclose(found, expected, atol=1e-12)
  assert np.ptp(expected) > 0.1  # they are not all the value of the PBS
  unweighed = np.asarray(found) * mass(tree, beliefs, player)
  assert (np.abs(unweighed - expected).max() > 0.05) == (name == "kuhn")


def test_slopes_of_solved_pbs_values_are_infostate_values(x64):
  """ReBeL, theorem 1, by small steps of player 0's belief in Kuhn poker."""
  tree, step = games.build_public_tree(harness.make_case("kuhn")[0]), 1e-3
  beliefs = harness.random_beliefs(np.random.default_rng(5), possible_of(tree)[0])
  weights = mass(tree, beliefs, 0)
  near = np.stack([beliefs] * 4)
  near[range(3), 0, range(3)] += step
  how = {"algorithm": solvers.discounted_cfr(), "num_iterations": 6_000}
  solution = solvers.solve_batch(tree, beliefs=near / near.sum(axis=2, keepdims=True), **how)
  worth = (near[:, 0] * weights * solution.root_values[:, 0]).sum(axis=1)
  slopes = jnp.asarray(worth[:3] - worth[3]) / step

  def value(beliefs):
    return (slopes @ beliefs[0]) / (weights @ beliefs[0])

  found = solvers.contrib.infostate_values(tree, value, beliefs, player=0)
  expected = solution.root_values[3, 0]
  np.testing.assert_allclose(found, expected, atol=0.02)
  assert np.ptp(expected) > 0.1  # they are not all the value of the PBS
