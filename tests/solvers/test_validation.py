"""Bad input: one sentence that names the field, the value and what is allowed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import games
import solvers
from solvers import validation

KUHN = games.make("kuhn_poker")
TREE = games.build_public_tree(KUHN)
CUT = games.build_public_tree(KUHN, depth=1)
POLICY = np.asarray(solvers.solve(TREE, algorithm=solvers.linear_cfr(), num_iterations=2)[0])


def solve(tree=TREE, algorithm=None, num_iterations=2, **options):
  algorithm = solvers.linear_cfr() if algorithm is None else algorithm
  return solvers.solve(tree, algorithm=algorithm, num_iterations=num_iterations, **options)


def solve_batch(trees):
  return solvers.solve_batch(trees, algorithm=solvers.linear_cfr(), num_iterations=2)


def beliefs(*rows):
  return np.array(rows, np.float32)


THIRD = [1 / 3, 1 / 3, 1 / 3]
BAD = [
  (lambda: games.make("lairs_dice"), "game='lairs_dice'.*liars_dice"),
  (lambda: games.make("liars_dice", num_dice=0), "num_dice=0 .*positive"),
  (lambda: games.make("liars_dice", num_faces=-3), "num_faces=-3 .*positive"),
  (lambda: games.make("liars_dice", num_dice=1.5), "num_dice=1.5 .*integer"),
  (lambda: games.make("liars_dice", num_dice=8, num_faces=8), "num_dice=8 .*at most"),
  (lambda: games.build_public_tree(KUHN, depth=0), "depth=0 .*positive"),
  (lambda: games.build_public_tree(KUHN, depth=-1), "depth=-1 .*positive"),
  (lambda: games.build_public_tree(KUHN, root=(7,)), r"root=\(7,\) .*\[0, 1\]"),
  (lambda: games.build_public_tree(KUHN, root=(0, 0)), "root=.*ends the game"),
  (lambda: games.build_public_tree(KUHN, root=(0, 0, 0)), "root=.*ended"),
  (lambda: games.stack_trees([]), "at least one tree"),
  (
    lambda: solvers.cfr_avg(solvers.fictitious_play()),
    "algorithm=FictitiousPlay.* CFR family",
  ),
  (
    lambda: solvers.warm_started(solvers.fictitious_play()),
    "algorithm=FictitiousPlay.* CFR family",
  ),
  (
    lambda: games.stack_trees([TREE, games.build_public_tree(games.make("liars_dice"))]),
    "different games",
  ),
  (lambda: solve(num_iterations=0), "num_iterations=0 .*positive"),
  (lambda: solve(num_iterations=-2), "num_iterations=-2 .*positive"),
  (lambda: solve(num_iterations=2.5), "num_iterations=2.5 .*integer"),
  (
    lambda: solve(algorithm=solvers.linear_cfr(alternating=False), num_iterations=3),
    "num_iterations=3 .*even",
  ),
  (lambda: solve(tree=CUT), "leaf_values=None.*leaves"),
  (lambda: solve(tree=CUT, leaf_values=3), "leaf_values=3 .*function"),
  (lambda: solve(tree=games.stack_trees([TREE, TREE])), "stacked"),
  (lambda: solve(beliefs=np.ones((2, 4)) / 4), r"beliefs of shape \(2, 4\).*\(2, 3\)"),
  (lambda: solve(beliefs=beliefs(THIRD, [np.nan, 0.5, 0.5])), "beliefs hold NaN"),
  (lambda: solve(beliefs=beliefs(THIRD, [-0.5, 1, 0.5])), "beliefs hold -0.5"),
  (lambda: solve(beliefs=beliefs(THIRD, [0.5, 1, 0.5])), "beliefs.*sum to"),
  (lambda: solve(beliefs=beliefs([1, 0, 0], [1, 0, 0])), "beliefs.*compatible"),
  (lambda: solve(initial_policy=POLICY[:-1]), "initial_policy of shape"),
  (lambda: solve(initial_policy=POLICY * 2), "initial_policy .*distribution"),
  (lambda: solvers.discounted_cfr(alpha=float("nan")), "alpha=nan .*number"),
  (lambda: solvers.discounted_cfr(beta="low"), "beta='low' .*number"),
  (lambda: solvers.discounted_cfr(gamma=-1.0), "gamma=-1.0 .*at least 0"),
  (lambda: solvers.cfr_plus(averaging=float("inf")), "averaging=inf .*finite"),
  (lambda: solvers.warm_started(solvers.linear_cfr(), num_iterations=0), "num_iterations=0"),
  (lambda: solvers.exploitability(TREE, POLICY[:, :2]), "policy of shape"),
  (lambda: solvers.exploitability(TREE, POLICY * np.nan), "policy holds NaN"),
  (lambda: solvers.exploitability(TREE, POLICY / 2), "policy is not a distribution"),
  (lambda: solvers.exploitability(CUT, POLICY[: CUT.num_nodes]), "leaves"),
  (lambda: solvers.expected_values(TREE, -POLICY), "policy holds -0"),
  (lambda: solvers.best_response(TREE, POLICY, 2), "player=2 .*0 or 1"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message for _, message in BAD])
def test_one_sentence(call, message):
  with pytest.raises(ValueError, match=message) as caught:
    call()
  assert "\n" not in str(caught.value)


OTHER_KINDS = [
  (lambda: solve(algorithm=solvers.linear_cfr), r"algorithm=<function .* such as .*linear_cfr\(\)"),
  (lambda: solve(algorithm="linear_cfr"), r"algorithm='linear_cfr' .*make_algorithm"),
  (lambda: solve(algorithm=solvers.CFR), "algorithm=<class .* must be an algorithm"),
  (lambda: solve_batch([TREE, TREE]), "trees=list .*stack_trees"),
  (lambda: solve(tree="kuhn_poker"), "tree=str must be a PublicTree"),
  (lambda: solve(tree=None), "tree=NoneType must be a PublicTree"),
  (lambda: solve(beliefs="uniform"), r"beliefs=str must be an array of shape \(2, 3\)"),
  (lambda: solve(initial_policy={}), "initial_policy=dict must be an array"),
  (lambda: solvers.exploitability(TREE, None), "policy=NoneType must be an array"),
  (lambda: solvers.exploitability(POLICY, TREE), "tree=.*must be a PublicTree"),
  (lambda: solvers.best_response(TREE, "best", 0), "policy=str must be an array"),
  (lambda: solvers.expected_values(TREE, TREE), "policy=PublicTree must be an array"),
  (lambda: games.build_public_tree("kuhn_poker"), "game='kuhn_poker' must be a games.Game"),
  (lambda: games.build_public_tree(None), "game=None must be a games.Game"),
  (lambda: games.stack_trees([None]), "trees hold NoneType"),
  (lambda: solve_batch("trees"), "trees=str .*stack_trees"),
]


@pytest.mark.parametrize(("call", "message"), OTHER_KINDS, ids=[x for _, x in OTHER_KINDS])
def test_another_kind_of_object_is_a_type_error(call, message):
  with pytest.raises(TypeError, match=message) as caught:
    call()
  assert "\n" not in str(caught.value)


def test_unknown_parameters_are_type_errors():
  with pytest.raises(TypeError, match="num_die.*num_dice"):
    games.make("liars_dice", num_die=2)
  with pytest.raises(TypeError):
    solvers.linear_cfr(weight=2)


def test_infinite_exponents_are_legal():
  rule = solvers.discounted_cfr(alpha=float("inf"), beta=-float("inf"))
  assert float(solvers.exploitability(TREE, solve(algorithm=rule, num_iterations=64)[0])) < 0.05


def test_beliefs_on_impossible_infostates():
  """After a king is dealt to the board nobody may hold it."""
  tree = games.build_public_tree(games.make("leduc_poker"), root=(1, 1, 8))
  uniform = np.full((2, 6), 1 / 6)
  with pytest.raises(ValueError, match="infostate 5 .*impossible"):
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=2, beliefs=uniform)


@given(st.lists(st.floats(width=32), min_size=6, max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_beliefs_give_an_error_or_finite_values(entries):
  rows = np.array(entries, np.float32).reshape(2, 3)
  try:
    solution = solve(beliefs=rows)
  except ValueError as error:
    assert "beliefs" in str(error)
  else:
    assert np.isfinite(solution.root_values).all()
    assert np.isfinite(solution.average_policy).all()


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


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker", "rock_paper_scissors", "padded"])
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


@pytest.mark.parametrize(
  "metric",
  [
    solvers.exploitability,
    solvers.expected_values,
    lambda tree, policy: solvers.best_response(tree, policy, 0),
  ],
)
def test_metrics_check_a_policy_once(metric, monkeypatch):
  checked = []
  real = validation.check_policy

  def counted(name, *arguments):
    checked.append(name)
    real(name, *arguments)

  monkeypatch.setattr(validation, "check_policy", counted)
  metric(TREE, POLICY)
  assert checked == ["policy"]


def test_transformations_take_what_they_cannot_check():
  many = np.stack([TREE.prior, beliefs([1, 0, 0], [0, 1, 0]), beliefs([0, 0.5, 0.5], THIRD)])
  batched = jax.jit(jax.vmap(lambda b: solve(beliefs=b, num_iterations=8)))(many)
  for i, row in enumerate(many):
    alone = solve(beliefs=row, num_iterations=8)
    np.testing.assert_allclose(batched.root_values[i], alone.root_values, atol=1e-5)
    np.testing.assert_allclose(batched.average_policy[i], alone.average_policy, atol=1e-5)

  def step(carry, b):
    return carry + solve(beliefs=b, num_iterations=8).root_values, None

  total, _ = jax.lax.scan(step, jnp.zeros((2, 3)), many)
  np.testing.assert_allclose(total, batched.root_values.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize(
  ("name", "parameters", "roots"),
  [
    ("liars_dice", {"num_faces": 2}, [(), (0,), (1, 2)]),
    pytest.param("leduc_poker", {}, [(1,), (1, 1, 4), (1, 1, 3, 1)], marks=pytest.mark.slow),
  ],
)
def test_stacked_roots_give_what_each_gives_alone(name, parameters, roots):
  game = games.make(name, **parameters)
  trees = [games.build_public_tree(game, root=root) for root in roots]
  stacked = games.stack_trees(trees)
  run = lambda tree: solve(tree=tree, num_iterations=16).root_values  # noqa: E731
  together = jax.jit(jax.vmap(run))(stacked)
  for tree, values in zip(trees, together):
    np.testing.assert_allclose(values, run(tree), atol=2e-4)


def test_export():
  def values(b):
    return solve(beliefs=b, num_iterations=8).root_values

  exported = jax.export.export(jax.jit(values))(jax.ShapeDtypeStruct((2, 3), jnp.float32))
  np.testing.assert_allclose(exported.call(TREE.prior), values(TREE.prior), atol=1e-6)
