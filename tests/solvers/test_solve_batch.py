"""Batches of subgames against the same subgames solved one at a time."""

import jax
import numpy as np
import pytest

import games
import solvers
from solvers.sweeps import pairs
from tests import harness
from tests.sentences import refused

ITERATIONS = 16
LEDUC_ROOTS = ((1, 1, 3), (1, 1, 5), (1, 1, 8), (1, 1, 3, 2))


def kuhn():
  game = games.make("kuhn_poker")
  return game, games.build_public_tree(game)


def beliefs_for(tree, size, seed=0):
  rng = np.random.default_rng(seed)
  possible = harness.root_possible(tree)
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
  _, tree = kuhn()
  beliefs, algorithm = beliefs_for(tree, size), solvers.linear_cfr()
  settings, policies = {"algorithm": algorithm, "num_iterations": ITERATIONS}, [None] * size
  if starts:
    policies = solvers.solve_batch(tree, beliefs=beliefs, **settings).average_policy
    settings["algorithm"] = solvers.warm_started(algorithm)
  first = {"initial_policy": policies} if starts else {}
  batch = solvers.solve_batch(tree, beliefs=beliefs, batch_size=batch_size, **first, **settings)
  singles = [
    solvers.solve(tree, beliefs=b, initial_policy=p, **settings) for b, p in zip(beliefs, policies)
  ]
  assert worst(batch, singles) < 1e-12
  if size > 1:  # control: subgames that took one another's place would be noticed
    assert worst(batch, singles[::-1]) > 1e-3


@pytest.mark.parametrize(
  ("roots", "small_level"),
  [(LEDUC_ROOTS[1:], 0), pytest.param(LEDUC_ROOTS[:3], 8192, marks=pytest.mark.slow)],
)
def test_stacked_trees(roots, small_level, x64, monkeypatch):
  monkeypatch.setattr(pairs, "_SMALL_LEVEL", small_level)
  jax.clear_caches()
  game = games.make("leduc_poker")
  trees = [games.build_public_tree(game, root=root) for root in roots]
  settings = {"algorithm": solvers.discounted_cfr(), "num_iterations": ITERATIONS}
  batch = solvers.solve_batch(games.stack_trees(trees), batch_size=2, **settings)
  singles = [solvers.solve(tree, **settings) for tree in trees]
  values = np.stack([single.root_values for single in singles])
  np.testing.assert_allclose(batch.root_values, values, rtol=0, atol=1e-12)
  assert np.abs(values - values[::-1]).max() > 0.1
  jax.clear_caches()


def of_features(params, query):
  return (query.features @ params)[:, None] * query.beliefs[:, query.traverser]


@pytest.mark.parametrize("oracle", [False, True])
def test_leaf_values_see_each_subgame_of_a_batch(oracle, x64):
  game = games.make("kuhn_poker") if oracle else games.make("liars_dice", num_dice=1, num_faces=2)
  roots = ((), (0,)) if oracle else ((), (1,), (1,))
  trees = [games.build_public_tree(game, root=root, depth=2 - oracle) for root in roots]
  stacked, beliefs = games.stack_trees(trees), beliefs_for(trees[0], len(trees))
  settings = {"algorithm": solvers.linear_cfr(), "num_iterations": ITERATIONS}
  if oracle:
    settings["leaf_values"] = solvers.exact_leaf_values(game, num_iterations=ITERATIONS)
  else:
    params = np.linspace(-1, 1, stacked.leaf_features.shape[-1])
    settings |= {"leaf_values": of_features, "params": params}
  batch = solvers.solve_batch(stacked, beliefs=beliefs, batch_size=2, **settings)
  singles = [solvers.solve(tree, beliefs=b, **settings) for tree, b in zip(trees, beliefs)]
  values = np.stack([single.root_values for single in singles])
  np.testing.assert_allclose(batch.root_values, values, rtol=0, atol=1e-12)
  assert np.abs(values - values[::-1]).max() > 1e-2


def solve_two(tree=None, change=lambda b: {}):
  tree = kuhn()[1] if tree is None else tree
  given = {"beliefs": beliefs_for(kuhn()[1], 2)}
  given |= change(given["beliefs"])
  solvers.solve_batch(tree, algorithm=solvers.linear_cfr(), num_iterations=2, **given)


test_mistakes_are_named = refused(
  (lambda: solve_two(change=lambda b: {"beliefs": None}), "beliefs=None"),
  (lambda: solve_two(change=lambda b: {"beliefs": b[0]}), r"\(2, 3\).*\(B, P, H\)"),
  (lambda: solve_two(change=lambda b: {"beliefs": b * [[[1]], [[2]]]}), "subgame 1: beliefs"),
  (lambda: solve_two(change=lambda b: {"initial_policy": np.ones((9, 3))}), r"\(B, N, H\)"),
  (lambda: solve_two(games.stack_trees([kuhn()[1]] * 3)), "2 subgames, but trees for 3"),
)
