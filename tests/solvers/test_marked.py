"""Problems of marked nodes of a tree are those of trees of those nodes alone."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from games.tabulate import node_info
from solvers import loop
from solvers.growing.marked import marked_problem
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem
from tests import harness
from tests.random_game import RandomGame

ITERATIONS = 5
# Of each game a few nodes: what is computed outside of programs is compiled shape by shape.
KUHN = games.make("kuhn_poker")
DICE = games.make("liars_dice", num_dice=1, num_faces=2)
LEDUC, AFTER_CHECKS = games.make("leduc_poker"), (1, 1)
CASES = {
  "kuhn": (KUHN, (), 1, solvers.linear_cfr()),
  "leduc": (LEDUC, AFTER_CHECKS, 2, solvers.linear_cfr()),
  "dice": (DICE, (), 2, solvers.cfr_avg(solvers.discounted_cfr())),
  "dice, simultaneous": (DICE, (), 4, solvers.cfr_plus(alternating=False)),
  "random": (RandomGame(7), (), 2, solvers.predictive_cfr_plus()),
}


def leaf_values(query):
  """Values that depend on features and on both beliefs, row by row and entry by entry."""
  own = query.beliefs[:, query.traverser]
  other = query.beliefs[:, 1 - query.traverser]
  ranks = jnp.arange(own.shape[-1], dtype=own.dtype)
  where = (query.features * jnp.arange(1.0, query.features.shape[-1] + 1)).sum(-1, keepdims=True)
  seat = (-1.0) ** query.traverser
  return seat * jnp.sin(where) + ranks - other[:, ::-1] * own


def depths(tree):
  return np.repeat(np.arange(tree.structure.depth + 1), [x.size for x in tree.structure.levels])


def places(whole, part):
  """Returns where the nodes of `part` lie in `whole`, by their histories."""
  known = {whole.history(node): node for node in range(whole.num_nodes)}
  return np.array([known[part.history(node)] for node in range(part.num_nodes)])


def run_problem(problem, algorithm):
  end = loop.run(problem, algorithm, leaf_values, ITERATIONS)
  return (
    join_levels(algorithm.current_policy(problem, end.state)),
    join_levels(algorithm.average_policy(problem, end.state)),
    algorithm.root_values(problem, end.state),
  )


run_jitted = jax.jit(run_problem, static_argnames="algorithm")
# Else every operation on every level is a program of its own, a hundred in all.
make_part = jax.jit(make_problem)
make_marked = jax.jit(
  lambda tree, beliefs, *rest: marked_problem(tree, rest[0], 0, beliefs, rest[1])
)


def results(problem, algorithm):
  return [np.asarray(x) for x in run_jitted(problem, algorithm)]


@pytest.mark.parametrize("case", harness.slow(CASES, "dice", "kuhn"))
def test_marks_give_what_a_tree_of_those_nodes_gives(case, x64):
  game, root, depth, algorithm = CASES[case]
  game = harness.jitter_payoffs(copy.copy(game))
  whole = games.build_public_tree(game, root=root)
  part = games.build_public_tree(game, root=root, depth=depth)
  beliefs = harness.random_beliefs(np.random.default_rng(0), harness.root_possible(whole))
  info = node_info(game, whole)
  present, at = depths(whole) <= depth, places(whole, part)
  expected = results(make_part(part, beliefs), algorithm)
  found = results(make_marked(whole, beliefs, info, present), algorithm)
  for ours, theirs in zip(found[:2], expected[:2]):
    np.testing.assert_allclose(ours[at], theirs, rtol=0, atol=1e-12)
    assert not ours[depths(whole) > depth].any()
  np.testing.assert_allclose(found[2], expected[2], rtol=0, atol=1e-12)
  # Control: one node less shows.
  last = np.flatnonzero(depths(whole) == depth)[-1]
  less = make_marked(whole, beliefs, info, present & (np.arange(whole.num_nodes) != last))
  assert np.abs(results(less, algorithm)[1][at] - expected[1]).max() > 1e-6


def test_of_the_whole_tree_nothing_is_frontier(x64):
  tree = games.build_public_tree(LEDUC, root=AFTER_CHECKS)
  everywhere = np.ones(tree.num_nodes, bool)
  marked = make_marked(tree, tree.prior, node_info(LEDUC, tree), everywhere)
  assert not np.asarray(marked.frontier).any()
  found = results(marked, solvers.linear_cfr())
  solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
  np.testing.assert_allclose(found[1], solved.average_policy, rtol=0, atol=1e-12)
