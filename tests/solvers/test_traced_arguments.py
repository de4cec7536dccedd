"""Arguments that are traced, and closures made anew: one program where one will do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers

GAME = games.make("kuhn_poker")
TREE = games.build_public_tree(GAME)
CUT = games.build_public_tree(GAME, depth=2)
LINEAR = solvers.linear_cfr()


@pytest.fixture
def compiled():
  """Returns a function that says how many programs were compiled since its last call."""
  seen = []

  def listen(name, *_, **__):
    if name.endswith("backend_compile_duration"):
      seen.append(name)

  jax.monitoring.register_event_duration_secs_listener(listen)

  def count():
    number = len(seen)
    seen.clear()
    return number

  yield count
  jax.monitoring.unregister_event_duration_listener(listen)


def solve(number, tree=TREE, **options):
  return solvers.solve(tree, algorithm=LINEAR, num_iterations=number, **options)


def test_a_curve_compiles_once(compiled):
  first = solve(2)
  compiled()
  curve = [solve(number) for number in (4, 16, 64)]
  assert compiled() == 0
  solve(5)  # the control: an odd number ends with player 0 and is a program of its own
  assert compiled() == 1
  inside = jax.jit(lambda: jax.tree.map(jnp.asarray, solve(64)))()
  np.testing.assert_array_equal(curve[-1].average_policy, inside.average_policy)
  assert np.abs(first.average_policy - inside.average_policy).max() > 0.1


def test_numbers_of_iterations_are_traced_and_batched():
  numbers = jnp.array([4, 16, 64])
  curve = jax.vmap(lambda number: solve(number).root_values)(numbers)
  alone = np.stack([solve(number).root_values for number in (4, 16, 64)])
  np.testing.assert_allclose(curve, alone, atol=1e-6)
  beliefs = np.stack([TREE.prior] * 3)
  options = {"algorithm": LINEAR, "beliefs": beliefs, "batch_size": 1}
  batch = jax.jit(lambda n: solvers.solve_batch(TREE, num_iterations=n, **options).root_values)
  np.testing.assert_allclose(batch(16), np.stack([alone[1]] * 3), atol=1e-6)
  with pytest.raises(ValueError, match="integer"):
    jax.jit(solve)(16.0)
  with pytest.raises(ValueError, match="before tracing"):
    jax.jit(lambda n: solve(n, target=0.1))(16)


def made_anew(scale, call_back=False):
  """Returns a closure, as running a notebook's cell again does."""

  def leaf_values(params, query):
    values = scale * (query.features @ params["w"])[:, None] * query.beliefs[:, query.traverser]
    if call_back:
      values = jax.pure_callback(lambda x: np.asarray(x) * scale, values, values)
    return values

  return leaf_values


def test_closures_of_one_program_share_it(compiled):
  params = {"w": np.linspace(-1, 1, CUT.leaf_features.shape[-1], dtype=np.float32)}

  def values(scale, params=params, **options):
    solution = solve(8, CUT, leaf_values=made_anew(scale, **options), params=params)
    return np.asarray(solution.root_values)

  first = values(1.0)
  compiled()
  np.testing.assert_array_equal(values(1.0), first)
  assert np.abs(values(1.0, {"w": -params["w"]}) - first).max() > 0.01
  assert compiled() == 0
  # The controls: another constant is another program, and a callback is told by the function alone.
  assert np.abs(values(2.0) - first).max() > 0.01
  assert compiled() == 1
  callbacks = [values(scale, call_back=True) for scale in (1.0, 2.0)]
  np.testing.assert_allclose(callbacks[0], first, atol=1e-6)
  assert np.abs(callbacks[1] - callbacks[0]).max() > 0.01


def test_a_closure_is_asked_with_and_without_beliefs_of_values():
  sound, steps = solvers.cfr_avg(LINEAR, sound=True), np.linspace(-1, 1, CUT.num_infostates)

  def leaf_values(scale, query):
    at = query.beliefs if query.value_beliefs is None else query.value_beliefs
    return scale * at[:, query.traverser] * steps + query.beliefs[:, 1 - query.traverser]

  def values(scale):
    options = {"leaf_values": lambda *asked: leaf_values(*asked), "params": scale}
    return solvers.solve(CUT, algorithm=sound, num_iterations=8, **options).root_values

  # Inside of `jit` parameters are traced: the closure itself is called.
  np.testing.assert_allclose(values(jnp.asarray(2.0)), jax.jit(values)(2.0), atol=1e-6)
  assert np.abs(values(jnp.asarray(2.0)) - jax.jit(values)(1.0)).max() > 0.01


MEASURES = {
  "exploitability": solvers.exploitability,
  "expected_values": solvers.expected_values,
  "best_response": lambda tree, policy, **given: solvers.best_response(tree, policy, 1, **given),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)
def test_a_measure_is_one_program_and_takes_a_batch(measure, compiled):
  # A shape that no other test measures, as programs of one process are shared.
  tree = games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3), root=(1,))
  policies = [np.asarray(solve(number, tree).average_policy) for number in (2, 8, 64)]
  compiled()
  alone = [measure(tree, policy) for policy in policies]
  assert compiled() == 1
  together = measure(tree, np.stack(policies))
  assert compiled() == 1
  rows = jax.tree.map(lambda *x: np.stack(x), *alone)
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), together, rows)
  # The control: rows in another order are other results.
  first, last = jax.tree.leaves(together)[0][0], jax.tree.leaves(alone[-1])[0]
  assert np.abs(np.asarray(first) - last).max() > 0.01


def test_measures_of_stacked_trees_at_beliefs():
  trees = [games.build_public_tree(GAME, root=root) for root in ((0,), (1,), (0, 1))]
  stack = games.stack_trees(trees)
  beliefs = np.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]], np.float32)
  batch = solvers.solve_batch(stack, algorithm=LINEAR, num_iterations=2)
  kept = np.ones((3, stack.num_nodes), bool)
  found = solvers.exploitability(stack, batch.average_policy, beliefs=beliefs)
  free = [
    solvers.exploitability(games.take(stack, i), batch.average_policy[i], beliefs=beliefs)
    for i in range(3)
  ]
  np.testing.assert_allclose(found, free, atol=1e-6)
  assert found.min() > 0.01
  held = solvers.exploitability(stack, batch.average_policy, locked=kept)
  np.testing.assert_allclose(held, np.zeros(3), atol=1e-6)
  wrong = np.array(batch.average_policy)
  wrong[1] *= 0.5
  with pytest.raises(ValueError, match="row 1: policy is not a distribution"):
    solvers.exploitability(stack, wrong)
  with pytest.raises(ValueError, match="different numbers of rows"):
    solvers.exploitability(stack, wrong[:2])


def test_a_closure_over_what_is_traced_still_works():
  params = {"w": jnp.linspace(-1, 1, CUT.leaf_features.shape[-1])}
  outside = solve(8, CUT, leaf_values=made_anew(1.0), params=params).root_values

  @jax.jit
  def inside(scale):
    return solve(8, CUT, leaf_values=made_anew(scale), params=params).root_values

  np.testing.assert_allclose(inside(1.0), outside, atol=1e-6)
