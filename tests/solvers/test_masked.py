"""Problems whose nodes are some of a tree's: equal to trees of those nodes, and able to grow."""

import copy
import dataclasses
import functools
import platform

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import games
import solvers
from solvers import loop
from solvers.sweeps.levels import join_levels
from solvers.sweeps.masked import (
  MaskedProblem,
  make_masked_problem,
  with_nodes,
)
from solvers.sweeps.problem import Problem, make_problem
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
  "random": (RandomGame(7), (), 2, solvers.linear_optimistic_fictitious_play()),
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


# In two programs XLA contracts products and sums differently: compiled for a processor that
# cannot, or one operation at a time, they are the same bit for bit.
run_alike = functools.partial(
  jax.jit, compiler_options={"xla_cpu_max_isa": "SSE4_2"}, static_argnames="algorithm"
)(run_problem)
# Else every operation on every level is a program of its own, a hundred in all.
make_part, make_masked = jax.jit(make_problem), jax.jit(make_masked_problem)


def results(problem, algorithm):
  if platform.machine() in ("x86_64", "AMD64") and jax.default_backend() == "cpu":
    return [np.asarray(x) for x in run_alike(problem, algorithm)]
  with jax.disable_jit():
    return [np.asarray(x) for x in run_problem(problem, algorithm)]


@pytest.mark.parametrize("case", harness.slow(CASES, "dice"))
def test_a_mask_gives_what_a_tree_of_those_nodes_gives(case, x64):
  game, root, depth, algorithm = CASES[case]
  game = harness.jitter_payoffs(copy.copy(game))
  whole = games.build_public_tree(game, root=root)
  part = games.build_public_tree(game, root=root, depth=depth)
  beliefs = harness.random_beliefs(np.random.default_rng(0), harness.root_possible(whole))
  info = solvers.node_info(game, whole)
  present, at = depths(whole) <= depth, places(whole, part)
  expected = results(make_part(part, beliefs), algorithm)
  found = results(make_masked(whole, beliefs, info, present), algorithm)
  for ours, theirs in zip(found[:2], expected[:2]):
    np.testing.assert_array_equal(ours[at], theirs)
    assert not ours[depths(whole) > depth].any()
  np.testing.assert_array_equal(found[2], expected[2])
  # Control: one node less shows.
  last = np.flatnonzero(depths(whole) == depth)[-1]
  less = make_masked(whole, beliefs, info, present & (np.arange(whole.num_nodes) != last))
  assert np.abs(results(less, algorithm)[1][at] - expected[1]).max() > 1e-6


def test_of_the_whole_tree_nothing_is_frontier(x64):
  tree = games.build_public_tree(LEDUC, root=AFTER_CHECKS)
  everywhere = np.ones(tree.num_nodes, bool)
  masked = make_masked(tree, tree.prior, solvers.node_info(LEDUC, tree), everywhere)
  assert not np.asarray(masked.is_frontier()).any()
  found = results(masked, solvers.linear_cfr())
  solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
  np.testing.assert_allclose(found[1], solved.average_policy, rtol=0, atol=1e-12)


def breadth_first(tree, sweeps, present):
  """Adds the children of all nodes: a level after each pair of updates."""
  del sweeps
  return present | present[jnp.maximum(jnp.asarray(tree.parent), 0)]


def by_values(tree, sweeps, present):
  """Adds the children of the frontier nodes that the mover finds best, seen from its sweep."""
  worth = jnp.stack([join_levels(sweep.nodes).sum(axis=-1) for sweep in sweeps])
  parent = jnp.maximum(jnp.asarray(tree.parent), 0)
  joins = present[parent] & (worth.max(axis=0)[parent] >= jnp.median(worth))
  return present | joins


def grown(game, algorithm, grow, num_iterations, start_depth=1):
  tree = games.build_public_tree(game)
  start, info = depths(tree) <= start_depth, solvers.node_info(game, tree)

  @jax.jit
  def run(tree):
    problem = make_masked_problem(tree, tree.prior, info, start)

    def step(_, carry):
      present, state = carry
      now = with_nodes(problem, present)

      def answer(state, player):
        return leaf_values(algorithm.leaf_query(now, state, player))

      state, sweeps = loop.update_both(now, algorithm, state, answer)
      present = grow(tree, sweeps, present)
      return present, algorithm.extend(with_nodes(problem, present), state)

    first = jnp.asarray(start), loop.begin(problem, algorithm, leaf_values)
    present, state = lax.fori_loop(0, num_iterations // 2, step, first)
    return join_levels(algorithm.average_policy(with_nodes(problem, present), state)), present

  return tree, *run(tree)


class NeverExtends(solvers.CFR):
  """Nodes that join a problem do not become choices until the player's next update."""

  def extend(self, problem, state):
    del problem
    return state


@pytest.mark.parametrize(
  "algorithm",
  [solvers.cfr_plus(averaging=1.0, alternating=False), solvers.linear_fictitious_play()],
  ids=["cfr_plus", "fictitious_play"],
)
def test_a_growing_tree_ends_at_an_equilibrium_of_the_game(algorithm):
  tree, average, present = grown(KUHN, algorithm, breadth_first, 2_000)
  assert np.asarray(present).all()
  assert solvers.exploitability(tree, average) < 0.02


def test_nodes_join_as_they_are_marked_and_become_choices_at_once():
  tree, average, present = grown(DICE, solvers.linear_cfr(), by_values, 4)
  present = np.asarray(present)
  assert 0.1 < present.mean() < 1.0
  rows = np.asarray(average)
  assert not rows[~present].any()
  sums = np.zeros_like(rows)
  np.add.at(sums, np.asarray(tree.parent)[1:], rows[1:])
  inner = np.unique(np.asarray(tree.parent)[present & (np.asarray(tree.parent) >= 0)])
  decided = inner[np.asarray(tree.kind)[inner] < games.CHANCE]
  np.testing.assert_allclose(sums[decided], 1.0, atol=1e-5)


def test_control_a_state_that_is_not_extended_shows(x64):
  right = solvers.linear_cfr()
  wrong = NeverExtends(right.rule, right.averaging)
  found = [np.asarray(grown(DICE, x, breadth_first, 6)[1]) for x in (right, wrong)]
  assert np.abs(found[0] - found[1]).max() > 1e-3


def test_a_masked_problem_differs_from_a_sliced_one_in_leaves_alone():
  names = {field.name for field in dataclasses.fields(MaskedProblem)}
  shared = {field.name for field in dataclasses.fields(Problem)}
  assert names - {"frontier", "rows", "features"} == shared
