"""Bad input: one sentence that names the field, the value and what is allowed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import contrib, validation
from tests.sentences import refused

KUHN = games.make("kuhn_poker")
TREE = games.build_public_tree(KUHN)
CUT = games.build_public_tree(KUHN, depth=1)
DICE = games.build_public_tree(games.make("liars_dice"))
AFFINE = contrib.affine_trees(lambda x: TREE, (1.0,))
INF = float("inf")
AT_ONCE = solvers.linear_cfr(alternating=False)
POLICY = np.asarray(solvers.solve(TREE, algorithm=solvers.linear_cfr(), num_iterations=2)[0])


def solve(tree=TREE, algorithm=None, num_iterations=2, **options):
  algorithm = solvers.linear_cfr() if algorithm is None else algorithm
  return solvers.solve(tree, algorithm=algorithm, num_iterations=num_iterations, **options)


def solve_batch(trees):
  return solvers.solve_batch(trees, algorithm=solvers.linear_cfr(), num_iterations=2)


def one_a_leaf(params, query):
  return query.beliefs.sum(axis=(1, 2))


def beliefs(*rows):
  return np.array(rows, np.float32)


def with_entry(value):
  policy = POLICY.copy()
  policy[1, 0] = value
  return policy


def after_a_king(beliefs):
  """Solves what follows a king on the board, which nobody may hold then."""
  solve(games.build_public_tree(games.make("leduc_poker"), root=(1, 1, 8)), beliefs=beliefs)


NODES = solvers.node_info(KUHN, TREE)
GROWING = {
  "tree": lambda **given: grow(TREE, nodes=NODES, **given),
  "rules": lambda **given: grow(KUHN, **given),
}


def grow(rules, **given):
  return solvers.gt_cfr(rules, search=solvers.GTCFR(simulations=8), key=jax.random.key(0), **given)


def promised(value, **fields):
  return dict(searcher=0, alternatives=solvers.Alternatives(np.array(value), **fields))


# What `solve` refuses too, in searches that grow trees: by a tree, and by rules.
GROWN = [
  (dict(beliefs=beliefs(3 * [np.nan], 3 * [1 / 3])), "beliefs hold NaN"),
  (dict(beliefs=beliefs([-0.5, 1, 0.5], 3 * [1 / 3])), "beliefs hold -0.5"),
  (dict(beliefs=np.zeros((2, 3))), r"beliefs rows sum to \[0.0, 0.0\]"),
  (dict(beliefs=2 * TREE.prior), "beliefs rows sum to"),
  (dict(beliefs=beliefs([1, 0, 0], [1, 0, 0])), "beliefs leave no compatible pair"),
  (dict(beliefs=np.ones((2, 4)) / 4), r"beliefs of shape \(2, 4\)"),
  (promised([np.nan, 0, 0]), "alternatives.value holds NaN"),
  (promised([0, 0, 0], player=0), "alternatives are player 0's, who searches"),
  (promised([100.0, 0, 0]), "alternatives hold 100, but the subgame pays 2 at most"),
  (promised([0.0, 0, 0, 0]), r"alternatives.value of shape \(4,\)"),
  (promised([0, 0, 0], beliefs=[-1, 1, 1]), "alternatives.beliefs holds -1"),
  (dict(alternatives="x", searcher=0), "alternatives='x' must be an Alternatives or an array"),
  (promised([0, 0, 0]) | dict(searcher=np.int64(2)), "searcher=.*2.* must be 0 or 1"),
]


STARTS = [
  ("tree", dict(root=99), "root=99 must be an integer from 0 to 8"),
  ("tree", dict(root=1, current=2), "current=2 must be a node where .* root=1 or below"),
  ("tree", dict(root=TREE.num_nodes - 1), "current=8 must be a node where the game goes on"),
  ("rules", dict(path=(10**9,)), r"path=\(1000000000,\) takes action .* allows \[0, 1\]"),
  ("rules", dict(path=(10**30,)), "path=.* must be a list of integers"),
  ("rules", dict(path=(0, 0)), "lead to where the game is over"),
  ("rules", dict(path=(0, 0, 0)), "path=.* goes on after the game has ended"),
  *((kind, given, message) for kind in GROWING for given, message in GROWN),
]
test_growing_searches_refuse_what_solve_does_and_other_starts = refused(
  *((lambda kind=kind, given=given: GROWING[kind](**given), message)
    for kind, given, message in STARTS)
)  # fmt: skip


def test_promises_and_beliefs_may_be_lists_and_searchers_numpys():
  start = dict(beliefs=TREE.prior, alternatives=solvers.Alternatives(np.zeros(3)), searcher=0)
  given = dict(beliefs=TREE.prior.tolist(), alternatives=[0.0, 0, 0], searcher=np.int64(0))
  found, again = (grow(TREE, nodes=NODES, **x).root_values for x in (start, given))
  np.testing.assert_array_equal(found, again)
  less = grow(TREE, nodes=NODES, **(start | promised([-2.0, -2, -2]))).root_values
  assert np.abs(less - found).max() > 1e-3  # promises count


THIRD = [1 / 3, 1 / 3, 1 / 3]
BAD = [
  (lambda: games.make("lairs_dice"), "game='lairs_dice'.*liars_dice"),
  (lambda: games.make("liars_dice", num_dice=1.5), "num_dice=1.5 .*integer"),
  (lambda: games.make("liars_dice", num_dice=8, num_faces=8), "num_dice=8 .*at most"),
  (lambda: games.build_public_tree(KUHN, depth=0), "depth=0 .*positive"),
  (lambda: games.build_public_tree(KUHN, root=(7,)), r"root=\(7,\) .*\[0, 1\]"),
  (lambda: games.build_public_tree(KUHN, root=(0, 0)), "root=.*ends the game"),
  (lambda: games.stack_trees([TREE, DICE]), "different games"),
  (lambda: solvers.cfr_avg(solvers.fictitious_play()), "algorithm=FictitiousPlay.* CFR family"),
  (lambda: solve(num_iterations=0), "num_iterations=0 must be an integer, at least 1"),
  (lambda: solve(algorithm=AT_ONCE, num_iterations=3), "num_iterations=3 .*even"),
  (lambda: solve(tree=CUT), "leaf_values=None.*leaves"),
  (lambda: solve_batch(CUT), "leaf_values=None"),
  (lambda: solve(tree=CUT, leaf_values=one_a_leaf), r"leaf_values.*\(2,\).*\(2, 3\)"),
  (lambda: solve(tree=games.stack_trees([TREE, TREE])), "stacked"),
  (lambda: solve(beliefs=np.ones((2, 4)) / 4), r"beliefs of shape \(2, 4\).*\(2, 3\)"),
  (lambda: solve(beliefs=beliefs(THIRD, [np.nan, 0.5, 0.5])), "beliefs hold NaN"),
  (lambda: solve(beliefs=beliefs(THIRD, [-0.5, 1, 0.5])), "beliefs hold -0.5"),
  (lambda: solve(beliefs=beliefs(THIRD, [0.5, 1, 0.5])), "beliefs.*sum to"),
  (lambda: solve(beliefs=beliefs([1, 0, 0], [1, 0, 0])), "beliefs.*compatible"),
  (lambda: after_a_king(np.full((2, 6), 1 / 6)), "infostate 5 .*impossible"),
  (lambda: solve(initial_policy=POLICY[:-1]), "initial_policy of shape"),
  (lambda: solve(initial_policy=with_entry(0.9)), "initial_policy is not a distribution"),
  (lambda: solve(initial_policy=with_entry(np.inf)), "initial_policy holds NaN or infinite"),
  (lambda: solvers.discounted_cfr(alpha=float("nan")), "alpha=nan .*number"),
  (lambda: solvers.discounted_cfr(gamma=INF), "gamma=inf must be a number that is finite"),
  (lambda: solvers.warm_started(solvers.linear_cfr(), num_iterations=0), "num_iterations=0"),
  (lambda: solvers.make_algorithm("linear"), r"algorithm='linear' is unknown \(did you mean"),
  (lambda: solvers.make_algorithm("cfr_plus(gamma=1)", "rule"), "rule=.*'gamma=1'.*averaging, alt"),
  (lambda: solvers.make_algorithm("discounted_cfr(1.5)"), "has '1.5' where NAME=VALUE"),
  (lambda: solvers.make_algorithm("discounted_cfr(beta=1,beta=2)"), "'beta=2' where .* once"),
  (lambda: solvers.make_algorithm("discounted_cfr(beta=half)"), "beta=half, which must be a num"),
  (lambda: solvers.make_algorithm("linear_cfr(alternating=0)"), "alternating=0, which must be T"),
  (lambda: solvers.exploitability(TREE, POLICY[:, :2]), "policy of shape"),
  (lambda: solvers.exploitability(TREE, with_entry(0.9)), "policy is not a distribution"),
  (lambda: solvers.exploitability(CUT, POLICY[: CUT.num_nodes]), "leaves"),
  (lambda: solvers.expected_values(TREE, -POLICY), "policy holds -0"),
  (lambda: solvers.best_response(TREE, POLICY, 2), "player=2 .*0 or 1"),
  # Other kinds of objects, with the remedy.
  (lambda: solve(algorithm=solvers.linear_cfr), r"algorithm=<function .* such as .*linear_cfr\(\)"),
  (lambda: solve(algorithm="linear_cfr"), r"algorithm='linear_cfr' .*make_algorithm"),
  (lambda: solve_batch([TREE, TREE]), "trees=list .*stack_trees"),
  (lambda: games.make("liars_dice", num_die=2), "num_die.*num_dice"),
  (lambda: AFFINE.at((np.nan,)), r"theta=\(nan,\) must be a list of finite numbers"),
  (lambda: AFFINE.at((1.0, 2.0)), r"theta of shape \(2,\) must have shape \(1,\)"),
  (lambda: contrib.solve_affine(AFFINE, (np.nan,), num_iterations=2), "parameters=.*nan"),
  # What is shown of a value is short.
  (lambda: solve(algorithm="x" * 9999), r"^.{,300}$"),
  (lambda: solve(algorithm=DICE), r"^algorithm=PublicTree.{,300}$"),
  (lambda: solvers.make_algorithm(list(range(9999))), r"^algorithm=\[0, 1, .{,700}$"),
]


test_one_sentence = refused(*BAD)


@pytest.mark.parametrize(
  ("exponents", "same_as"),
  [
    ((INF, INF, 0), "vanilla_cfr"),
    ((INF, -INF, 2), "cfr_plus"),
    ((1, 1, 1), "linear_cfr"),
    ((np.float32(1.5), 0, np.int64(2)), "discounted_cfr"),
  ],
)
def test_legal_exponents(exponents, same_as):
  assert solvers.discounted_cfr(*exponents) == getattr(solvers, same_as)()


def test_numpys_integers_are_integers():
  three = np.int64(3)
  start = solvers.warm_started
  assert start(AT_ONCE, num_iterations=three) == start(AT_ONCE, num_iterations=3)
  for name, field in (("go", "size"), ("liars_dice", "num_faces"), ("coin_toss", "num_subgames")):
    assert repr(games.make(name, **{field: three})) == repr(games.make(name, **{field: 3}))


def test_algorithms_by_name_take_their_parameters():
  named = solvers.make_algorithm
  assert named("discounted_cfr") == solvers.discounted_cfr()
  assert named("discounted_cfr( beta=-inf, gamma = 4 )") == solvers.discounted_cfr(1.5, -INF, 4.0)
  # A number of numpy's would make arrays of its own type.
  assert type(solvers.discounted_cfr(np.float64(1.5)).rule.alpha) is float
  assert named("linear_cfr(alternating=False)") == solvers.linear_cfr(alternating=False)
  assert named("linear_cfr_avg(averaging=2)") == solvers.cfr_avg(solvers.linear_cfr(averaging=2.0))
  assert named("fictitious_play()") == solvers.fictitious_play()
  assert named("discounted_cfr(beta=0.5)") != solvers.discounted_cfr()


def added_one_by_one(tree, rows):
  """`sum_choices` by its definition; rows where no player moves are zero."""
  sums = np.zeros_like(rows)
  for node in range(tree.num_nodes):
    above = tree.parent[node]
    if above < 0 or tree.kind[above] > games.PLAYER_1:
      continue
    for h in range(tree.num_infostates):
      player, source = tree.kind[above], h
      if tree.infostate_parent is not None:
        source = tree.infostate_parent[node, player, h]
        if tree.possible is not None and not tree.possible[node, player, h]:
          continue
      sums[above, source] += rows[node, h]
  return sums


@pytest.mark.parametrize("name", ["leduc_poker", "rock_paper_scissors", "padded"])
def test_moves_of_a_choice_are_summed(name):
  if name == "padded":
    dice = games.make("liars_dice", num_faces=3)
    stacked = games.stack_trees([games.build_public_tree(dice, root=r) for r in ((), (3,))])
    tree = jax.tree.map(lambda x: x[1], stacked)
    assert tree.padded
  else:
    tree = games.build_public_tree(games.make(name))
  rows = np.random.default_rng(0).uniform(size=(tree.num_nodes, tree.num_infostates))
  moves = tree.kind <= games.PLAYER_1
  found = validation.sum_choices(tree, rows)[moves]
  np.testing.assert_allclose(found, added_one_by_one(tree, rows)[moves])


@pytest.mark.parametrize(
  "name",
  ["kuhn_poker", pytest.param("leduc_poker", marks=pytest.mark.slow), "rock_paper_scissors"],
)
def test_a_policy_wrong_in_one_place_is_found_there(name):
  tree = games.build_public_tree(games.make(name))
  policy = np.array(solve(tree=tree).average_policy)
  solvers.exploitability(tree, policy)
  node = int(np.flatnonzero(tree.kind[np.maximum(tree.parent, 0)] <= games.PLAYER_1)[-1])
  policy[node, 0] += 0.01
  with pytest.raises(ValueError, match=f"at node {tree.parent[node]}, infostate .*sums to 1.01"):
    solvers.exploitability(tree, policy)


def test_types_of_few_digits_may_sum_to_nearly_one():
  """In half of the digits beliefs cannot sum to one; traced ones were always taken."""
  short = jnp.asarray([[0.334, 0.333, 0.333], [0.3, 0.4, 0.302]], jnp.bfloat16)
  assert float(short.astype(float).sum(axis=1).max()) > 1.002
  outside = solve(beliefs=short).root_values
  np.testing.assert_allclose(outside, jax.jit(lambda x: solve(beliefs=x).root_values)(short))
  many = solvers.solve_batch(
    TREE, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=short[None]
  )
  np.testing.assert_allclose(many.root_values[0], outside, atol=1e-6)
  with pytest.raises(ValueError, match="beliefs rows sum to"):
    solve(beliefs=short.astype(np.float32))
