"""Exact leaf values, and depth-limited solving with them (ReBeL, section 5.1)."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from benchmarks.studies import depth_limited
from solvers.leaf_values import LeafQuery
from solvers.search.oracle import SearchLeafParams, SolveRows
from tests import harness

# Game, parameters, depth, and the exploitability that 256 iterations must reach.
CASES = {
  "kuhn": ("kuhn_poker", {}, 2, 0.01),
  "rock_paper_scissors": ("rock_paper_scissors", {}, 1, 0.04),
  "liars_dice_1x3f": ("liars_dice", {"num_dice": 1, "num_faces": 3}, 2, 0.005),
  "leduc": ("leduc_poker", {}, 5, 0.15),
}


SMALL_FIRST = [
  *list(CASES)[:2],
  *(pytest.param(x, marks=pytest.mark.slow) for x in list(CASES)[2:]),
]


def make(case):
  name, parameters, depth, _ = CASES[case]
  game = games.make(name, **parameters)
  return game, games.build_public_tree(game, depth=depth)


def random_query(tree, player=0, seed=0, **others):
  """Returns a query at random beliefs over what is possible at each leaf, zeros among them."""
  rng = np.random.default_rng(seed)
  shape = (tree.num_leaves, 2, tree.num_infostates)
  possible = np.ones(shape, bool)
  if tree.possible is not None:
    possible = np.asarray(tree.possible)[tree.leaf_nodes]
  beliefs = np.stack([harness.random_beliefs(rng, p) for p in possible])
  return LeafQuery(tree.leaf_features[player], player, jnp.asarray(beliefs), **others)


@pytest.mark.parametrize("case", harness.slow(CASES, "liars_dice_1x3f", "leduc"))
def test_the_average_whole_policy_approaches_an_equilibrium(case):
  """CFR-D: what its iterations play, top and subgames together, averages to an equilibrium."""
  name, parameters, depth, bound = CASES[case]
  points = depth_limited.measure(
    games.make(name, **parameters),
    depth=depth,
    algorithm=solvers.linear_cfr(),
    checkpoints=(16, 256),
    num_iterations_below=64,
  )
  early, late = [point.exploitability for point in points]
  assert late < bound
  assert late < early / 2


def value_error(game, tree, leaf_values, num_iterations, params=None):
  """Returns how far the root values are from what the game is worth, for the worse player."""
  whole = games.build_public_tree(game)
  settings = {"algorithm": solvers.predictive_cfr_plus(), "num_iterations": 1024}
  exact = solvers.expected_values(whole, solvers.solve(whole, **settings).average_policy)
  values = solvers.solve(
    tree,
    algorithm=solvers.linear_cfr(),
    num_iterations=num_iterations,
    leaf_values=leaf_values,
    params=params,
  ).root_values
  marginals = solvers.root_marginals(whole, jnp.asarray(whole.prior))
  return float(np.abs((marginals * (values - exact)).sum(axis=1)).max())


def test_root_values_approach_the_whole_game_s():
  game, tree = make("kuhn")
  oracle = solvers.exact_leaf_values(game, num_iterations=64)
  early, late = (value_error(game, tree, oracle, n) for n in (128, 512))
  assert late < 0.6 * early
  assert late < 0.015


@pytest.mark.slow
def test_root_values_need_the_right_beliefs():
  game, tree = make("liars_dice_1x3f")
  oracle = solvers.exact_leaf_values(game, num_iterations=64)
  assert value_error(game, tree, oracle, 512) < 0.004
  # The control: the same subgames solved, but at beliefs that do not follow the policy.
  function, groups = oracle.bind(tree)

  def blind(params, query):
    beliefs = jnp.full_like(query.beliefs, 1 / tree.num_infostates)
    return function(params, query._replace(beliefs=beliefs))

  assert value_error(game, tree, blind, 512, groups) > 0.02


@pytest.mark.parametrize("player", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", SMALL_FIRST)
def test_a_leaf_is_worth_what_its_subgame_is(case, player, x64):
  """The oracle's groups and caches against each subgame built from its path and solved alone."""
  game, tree = make(case)
  query = random_query(tree, player)
  algorithm = solvers.discounted_cfr()
  oracle = solvers.exact_leaf_values(game, tree, algorithm=algorithm, num_iterations=8)
  values = jax.jit(oracle)(None, query)
  assert values.shape == (tree.num_leaves, tree.num_infostates)
  expected, leaves = [], range(0, tree.num_leaves, max(1, tree.num_leaves // 4))
  for leaf in leaves:
    subgame = games.build_public_tree(game, root=tree.history(int(tree.leaf_nodes[leaf])))
    solution = solvers.solve(
      subgame, algorithm=algorithm, num_iterations=8, beliefs=query.beliefs[leaf]
    )
    expected.append(
      solvers.expected_values(subgame, solution.average_policy, beliefs=query.beliefs[leaf])[player]
    )
  np.testing.assert_allclose(values[jnp.array(leaves)], expected, rtol=0, atol=1e-10)
  # The control: another seed's beliefs are worth something else.
  other = oracle(None, random_query(tree, player, seed=1))
  assert np.abs(other - values).max() > 1e-3


def test_leaves_of_equal_public_states_share_a_subgame():
  game, tree = make("liars_dice_1x3f")
  oracle = solvers.exact_leaf_values(game)
  _, groups = oracle.bind(tree)
  # 15 pairs of bids, 5 last bids.
  assert sorted(len(group.leaves) for group in groups) == [1, 2, 3, 4, 5]
  assert all(group.which is None for group in groups)
  _, again = oracle.bind(games.build_public_tree(game, depth=2))
  assert all(a.trees is b.trees for a, b in zip(groups, again))
  # Six public cards after the same bets: one shape, six subgames.
  leduc, top = make("leduc")
  _, groups = solvers.exact_leaf_values(leduc).bind(top)
  assert [len(group.leaves) for group in groups] == [12, 12, 12, 12, 6]
  assert len(np.unique(groups[0].which)) == 12


@pytest.mark.slow
def test_values_may_be_asked_for_at_other_beliefs(x64):
  """Sound CFR-AVG: solved at the averages' beliefs, valued at this iteration's."""
  game, tree = make("liars_dice_1x3f")
  oracle = solvers.exact_leaf_values(game, tree, num_iterations=8)
  query = random_query(tree, 1)
  given = random_query(tree, 1, seed=1).beliefs
  values = oracle(None, query._replace(value_beliefs=given))
  for leaf in (0, tree.num_leaves - 1):
    subgame = games.build_public_tree(game, root=tree.history(int(tree.leaf_nodes[leaf])))
    policy = solvers.solve(
      subgame,
      algorithm=solvers.discounted_cfr(),
      num_iterations=8,
      beliefs=query.beliefs[leaf],
    ).average_policy
    expected = solvers.expected_values(subgame, policy, beliefs=given[leaf])[1]
    np.testing.assert_allclose(values[leaf], expected, rtol=0, atol=1e-12)
  assert np.abs(values - oracle(None, query)).max() > 1e-3
  assert np.abs(values - oracle(None, query._replace(beliefs=given))).max() > 1e-3


def test_beliefs_that_exclude_each_other_are_worth_nothing():
  """Both sure of the same card: no pair of infostates is left, and nothing divides by it."""
  game, tree = make("kuhn")
  beliefs = jnp.zeros((tree.num_leaves, 2, 3)).at[:, :, 0].set(1.0)
  oracle = solvers.exact_leaf_values(game, tree, num_iterations=8)
  values = oracle(None, LeafQuery(tree.leaf_features[0], 0, beliefs))
  assert np.isfinite(values).all()
  assert (values[:, 0] == 0).all()


def test_traced_trees_need_the_tree_beforehand():
  game, tree = make("kuhn")
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": 8}

  def solve(oracle):
    return jax.jit(
      lambda tree, beliefs: solvers.solve(tree, beliefs=beliefs, leaf_values=oracle, **settings)
    )

  known = solvers.exact_leaf_values(game, tree, num_iterations=8)
  plain = solvers.solve(tree, leaf_values=known, **settings)
  traced = solve(known)(tree, jnp.asarray(tree.prior))
  np.testing.assert_allclose(traced.root_values, plain.root_values, atol=1e-6)
  batch = jax.vmap(lambda b: solvers.solve(tree, beliefs=b, leaf_values=known, **settings))
  np.testing.assert_allclose(
    batch(jnp.stack([jnp.asarray(tree.prior)] * 2)).root_values[1], plain.root_values, atol=1e-6
  )
  unknown = solvers.exact_leaf_values(game, num_iterations=8)
  with pytest.raises(ValueError, match=r"pass tree= to exact_leaf_values"):
    solve(unknown)(tree, jnp.asarray(tree.prior))
  with pytest.raises(ValueError, match=r"pass tree= to exact_leaf_values"):
    unknown(None, random_query(tree))
  other = games.build_public_tree(game, depth=1)
  with pytest.raises(ValueError, match=r"another structure"):
    solve(known)(other, jnp.asarray(other.prior))
  with pytest.raises(ValueError, match=r"the tree that exact_leaf_values was made for has"):
    known(None, random_query(other))


def test_mistakes_are_named():
  game, tree = make("kuhn")
  with pytest.raises(ValueError, match=r"num_iterations=0"):
    solvers.exact_leaf_values(game, num_iterations=0)
  with pytest.raises(ValueError, match=r"stacked"):
    solvers.exact_leaf_values(game, games.stack_trees([tree, tree]))
  with pytest.raises(ValueError, match=r"is not of games.make\('leduc_poker'\)"):
    solvers.exact_leaf_values(games.make("leduc_poker"), tree)


def test_with_depth_at_least_the_game_s_nothing_is_asked(x64):
  """A tree that the limit does not cut is the whole game, and CFR-D is CFR."""
  game = games.make("kuhn_poker")
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": 32}
  whole = solvers.solve(games.build_public_tree(game), **settings)
  oracle = solvers.exact_leaf_values(game)
  deep = solvers.solve(games.build_public_tree(game, depth=3), leaf_values=oracle, **settings)
  np.testing.assert_array_equal(deep.average_policy, whole.average_policy)
  np.testing.assert_array_equal(deep.root_values, whole.root_values)


def test_another_traced_tree_has_no_answers():
  """Two trees of one structure, which nothing but their arrays tells apart."""
  game = games.make("leduc_poker")
  known, other = (games.build_public_tree(game, root=(1, 1, card), depth=1) for card in (3, 7))
  assert known.structure == other.structure
  oracle = solvers.exact_leaf_values(game, known, num_iterations=8)
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": 2, "leaf_values": oracle}

  def solve(tree):
    return solvers.solve(tree, **settings).root_values

  np.testing.assert_allclose(jax.jit(solve)(known), solve(known), atol=1e-5)
  assert np.isnan(jax.jit(solve)(other)).any()
  assert np.isfinite(solve(other)).all()


def test_places_of_public_states_that_differ_by_little():
  """Numbers whose squares float32 cannot tell apart."""
  known = np.array([[20_000.0, 300.0], [20_001.0, 300.0], [20_002.0, 300.0]], np.float32)
  rows = SolveRows(solvers.linear_cfr(), 2)
  params = SearchLeafParams(None, known, np.array([5, 3, 4]))
  np.testing.assert_array_equal(rows.encode(params, known[[2, 0, 1, 1]]), [4, 5, 3, 3])
