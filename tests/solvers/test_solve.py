"""Solves to a target, in batches, of traced arguments, and around what a lock keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers import loop
from solvers.sweeps import pairs
from tests import harness
from tests.brute_force import Referee
from tests.sentences import refused
from tests.trees import children_of, possible_of, random_policy

GAME = games.make("kuhn_poker")
TREE = games.build_public_tree(GAME)
CUT = games.build_public_tree(GAME, depth=2)
LINEAR = solvers.linear_cfr()
ITERATIONS = 16
LEDUC_ROOTS = ((1, 1, 3), (1, 1, 5, 2), (1, 1, 8, 2), (1, 1, 3, 2, 2))


ALGORITHMS = {
  "dcfr": solvers.discounted_cfr(),
  "pcfr+": solvers.predictive_cfr_plus(),
  "fp": solvers.linear_fictitious_play(),
}


@pytest.mark.parametrize("name", harness.slow(ALGORITHMS, "pcfr+"))
def test_it_goes_on_where_it_was(name):
  beliefs, looks = np.random.default_rng(0).dirichlet(np.ones(3), 2), []

  def run(number, **options):
    how = {"algorithm": ALGORITHMS[name], "num_iterations": number, "beliefs": beliefs}
    return solvers.solve(TREE, **how, **options)

  found = run(150, target=0.0, progress=looks.append)
  assert [look.iterations for look in looks] == [32, 64, 96, 128, 150]
  whole, first = run(150), run(32)
  np.testing.assert_allclose(found.average_policy, whole.average_policy, atol=2e-4)
  gap = solvers.exploitability(TREE, first.average_policy, beliefs=beliefs)
  assert looks[0].exploitability == pytest.approx(float(gap), abs=1e-4)
  assert run(150, target=looks[1].exploitability).iterations == 64
  assert looks[1].exploitability < looks[0].exploitability
  # Started anew, it would be what 32 iterations give.
  assert np.abs(whole.average_policy - first.average_policy).max() > 0.01


def test_a_long_solve_comes_back_every_few_seconds_and_stops_at_looks_alone(monkeypatch):
  """Each iteration seems to take a tenth of a second, and each run is done at once."""
  now, runs, seen = [0.0], [], []
  monkeypatch.setattr(loop.time, "monotonic", lambda: now[0])

  def run(number):
    now[0] += 0.1 * number
    runs.append(number)
    return solvers.Solution(None, exploitability=0.5 if sum(runs) < 260 else 0.0)

  found = loop.until(run, 0.0, 1_000, lambda found: seen.append(found.iterations))
  # Looks are after 160, 200, 250 and 312; three seconds are 30 iterations, and 32 are the least.
  assert seen == [32, 64, 96, 128, 160, 192, 200, 232, 250, 282, 312]
  assert found.iterations == 312 == sum(runs)  # it was good enough at 282, between two looks
  # Where iterations are slow, the first two measure how slow.
  runs.clear()
  assert loop.until(run, 0.0, 200, None, 2**30).iterations == 200
  assert runs[:4] == [2, 30, 30, 2]
  runs.clear()
  ended = loop.until(run, 0.0, 1_000, lambda found: found.iterations >= 64)
  assert ended.iterations == 64


def beliefs_for(tree, size, seed=0):
  rng = np.random.default_rng(seed)
  possible = possible_of(tree)[0]
  return np.stack([harness.random_beliefs(rng, possible) for _ in range(size)])


def worst(batch, singles):
  """Returns the largest difference between row i of `batch` and `singles[i]`."""
  rows = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(len(singles))]
  differences = jax.tree.map(lambda x, y: float(np.abs(x - y).max()), rows, list(singles))
  assert len(batch.root_values) == len(singles)
  return max(jax.tree.leaves(differences))


@pytest.mark.parametrize(
  ("size", "batch_size", "starts"), [(1, 4, False), (5, 1, False), (7, 3, True), (6, None, False)]
)
def test_one_tree_at_many_beliefs_and_first_policies(size, batch_size, starts, x64):
  tree, beliefs = TREE.astype(np.float64), beliefs_for(TREE, size)
  settings, policies = {"algorithm": LINEAR, "num_iterations": ITERATIONS}, [None] * size
  if starts:
    policies = np.stack([random_policy(tree, np.random.default_rng(i)) for i in range(size)])
    settings["algorithm"] = solvers.warm_started(LINEAR)
  first = {"initial_policy": policies} if starts else {}
  batch = solvers.solve_batch(tree, beliefs=beliefs, batch_size=batch_size, **first, **settings)
  singles = [
    solvers.solve(tree, beliefs=b, initial_policy=p, **settings) for b, p in zip(beliefs, policies)
  ]
  assert worst(batch, singles) < 1e-12
  if size > 1:  # control: subgames that took one another's place would be noticed
    assert worst(batch, singles[::-1]) > 1e-3


def of_features(params, query):
  return (query.features @ params)[:, None] * query.beliefs[:, query.traverser]


STACKS = {  # a game, roots of its trees and where they are cut off
  "leduc": (games.make("leduc_poker"), LEDUC_ROOTS[1:], None),
  "leduc, multiplied node by node": (games.make("leduc_poker"), LEDUC_ROOTS[:3], None),
  "leaves by features": (games.LiarsDice(1, 2), ((1,), (2,)), 1),
  "exact leaves": (games.LiarsDice(1, 2), ((1,), (2,)), 1),
}


@pytest.mark.parametrize("name", harness.slow(STACKS, "leduc, multiplied node by node"))
def test_stacked_trees_and_leaf_values_of_each(name, x64, monkeypatch):
  if name.startswith("leduc"):
    monkeypatch.setattr(pairs, "_SMALL_LEVEL", 0 if name == "leduc" else 8192)
    jax.clear_caches()
  game, roots, depth = STACKS[name]
  trees = [games.build_public_tree(game, root=root, depth=depth) for root in roots]
  stacked, beliefs = games.stack_trees(trees), np.stack([tree.prior for tree in trees])
  settings = {"algorithm": LINEAR, "num_iterations": ITERATIONS}
  if depth:
    beliefs = beliefs_for(trees[0], len(trees))
    settings["leaf_values"] = of_features
    settings["params"] = np.linspace(-1, 1, stacked.leaf_features.shape[-1])
  if name == "exact leaves":
    settings = {"algorithm": LINEAR, "num_iterations": ITERATIONS}
    settings["leaf_values"] = solvers.exact_leaf_values(game, **settings)
  batch = solvers.solve_batch(stacked, beliefs=beliefs, batch_size=2, **settings)
  singles = [solvers.solve(tree, beliefs=b, **settings) for tree, b in zip(trees, beliefs)]
  values = np.stack([single.root_values for single in singles])
  np.testing.assert_allclose(batch.root_values, values, rtol=0, atol=1e-12)
  assert np.abs(values - values[::-1]).max() > (1e-2 if depth else 0.1)
  if name.startswith("leduc"):
    jax.clear_caches()


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


def test_a_curve_compiles_once(cpu, compiled):
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
  inside = jax.jit(
    lambda scale: solve(8, CUT, leaf_values=made_anew(scale), params=params).root_values
  )
  np.testing.assert_allclose(inside(1.0), first, atol=1e-6)  # a closure over what is traced
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
  tree = games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3), root=(2,))
  policies = [random_policy(tree, np.random.default_rng(i)) for i in range(3)]
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
  # Rows of nodes that are not there do not count.
  other = np.where(np.asarray(stack.parent)[:, :, None] >= 0, batch.average_policy, 1.0)
  np.testing.assert_allclose(solvers.exploitability(stack, other, beliefs=beliefs), free, atol=1e-6)
  held = solvers.exploitability(stack, batch.average_policy, locked=kept)
  np.testing.assert_allclose(held, np.zeros(3), atol=1e-6)
  wrong = np.array(batch.average_policy)
  wrong[1] *= 0.5
  with pytest.raises(ValueError, match="row 1: policy is not a distribution"):
    solvers.exploitability(stack, wrong)
  with pytest.raises(ValueError, match="different numbers of rows"):
    solvers.exploitability(stack, wrong[:2])


def solve_to(**changes):
  solve(**({"number": 32, "target": 1.0} | changes))


def solve_two(trees=TREE, change=lambda b: {}):
  beliefs = beliefs_for(TREE, 2)
  given = {"beliefs": beliefs} | change(beliefs)
  solvers.solve_batch(trees, algorithm=LINEAR, num_iterations=2, **given)


test_mistakes_are_named = refused(
  (lambda: solve_to(number=33), "num_iterations=33 must be even"),
  *((lambda x=x: solve_to(target=x), f"target={x} finite") for x in (-1.0, np.nan, np.inf)),
  (lambda: solve_to(beliefs=np.ones((2, 3))), "beliefs"),
  (lambda: solve_two(change=lambda b: {"beliefs": None}), "beliefs=None"),
  (lambda: solve_two(change=lambda b: {"beliefs": b[0]}), r"\(2, 3\).*\(B, P, H\)"),
  (lambda: solve_two(change=lambda b: {"beliefs": b * [[[1]], [[2]]]}), "subgame 1: beliefs"),
  (lambda: solve_two(change=lambda b: {"initial_policy": np.ones((9, 3))}), r"\(B, N, H\)"),
  (lambda: solve_two(games.stack_trees([TREE] * 3)), "2 subgames, but trees for 3"),
)


# Locked policies: part of a policy is kept, and the rest is solved, or answered, around it.


root_marginals = jax.jit(solvers.root_marginals)


def value_of(tree, **arguments):
  settings = {"algorithm": solvers.cfr_plus(), "num_iterations": 2000} | arguments
  solution = solvers.solve(tree, **settings)
  prior = np.asarray(root_marginals(tree, tree.prior))
  return float((prior[0] * solution.root_values[0]).sum()), solution


def kuhn_lock(call):
  """Returns the tree, a policy that calls a bet with the queen so often, and the lock on that."""
  tree = TREE.astype(np.float64)
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
  assert value == pytest.approx(Referee(GAME).equilibrium_value(held), abs=1e-3)
  found = np.asarray(solution.average_policy)
  np.testing.assert_allclose(found[locked], policy[locked], atol=1e-12)
  gap = solvers.exploitability(tree, found, locked=locked)
  assert float(gap) == pytest.approx(0, abs=1e-3)
  # Controls: whoever may answer freely gains, and without the lock the game is what it was.
  assert float(solvers.exploitability(tree, found)) > 0.01
  free, _ = value_of(tree, initial_policy=policy)
  assert free == pytest.approx(Referee(GAME).equilibrium_value(), abs=1e-3)
  assert abs(value - free) > 0.01


@pytest.mark.parametrize("name", ["cfr_plus", "linear_fictitious_play"])
def test_a_least_frequency(name, x64):
  """At least half the time a bet with the queen first, which no equilibrium of Kuhn poker has."""
  tree = TREE.astype(np.float64)
  held = solvers.lock(tree, (), {1: (0.5, 1.0)}, infostates=[1])
  value, solution = value_of(tree, locked=held, algorithm=solvers.make_algorithm(name))
  bets = {(0, (), 1): (0.5, {(1, 1): 1.0})}
  assert value == pytest.approx(Referee(GAME).equilibrium_value(bets), abs=3e-3)
  policy = np.asarray(solution.average_policy)
  assert policy[children_of(tree)[0, 1], 1] == pytest.approx(0.5, abs=0.02)
  assert float(solvers.exploitability(tree, policy, locked=held)) < 3e-3
  assert float(solvers.exploitability(tree, policy)) > 0.01
  assert value < -1 / 18 - 0.01


def test_bounds_of_one_of_three_moves(x64):
  tree = games.build_public_tree(games.make("leduc_poker"), root=(1, 2, 1, 5, 1))
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
    found = np.asarray(solvers.best_response(tree, policy, 0, locked=held).policy)
    assert check(found[moves]), frequencies


LEDUC = games.build_public_tree(games.make("leduc_poker"))
test_frequencies_that_cannot_be_are_refused = refused(
  (lambda: solvers.lock(LEDUC, (2,), {0: 0.7, 1: 0.7}), "cannot be kept together"),
  (lambda: solvers.lock(LEDUC, (2,), {7: 0.2}), "name action 7; those that exist there are"),
  (lambda: solvers.lock(LEDUC, (2,), {2: (0.1, 0.3)}), "bound a move from above that several"),
  (lambda: solvers.lock(LEDUC, (0,), {1: 1.0}), "leaves the tree: node 0 lacks 0"),
)
