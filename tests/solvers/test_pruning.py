"""Regret-based pruning: skips of Theorem 7 leave positive regrets alone (thesis, section 3.3)."""

import jax.numpy as jnp
import pytest
from jax import lax

import games
import solvers
from benchmarks.studies import pruning
from solvers import loop
from solvers.sweeps.problem import make_problem
from tests import harness


@pytest.mark.slow
def test_a_skip_of_theorem_7_changes_no_positive_regret(x64):
  tree = games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3))
  problem = make_problem(tree, tree.prior)
  bounds = [pruning.regret_bounds(problem, p) for p in (0, 1)]
  nothing = tuple(jnp.zeros(shape) for shape in problem.shapes)

  @harness.fast_to_compile
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

  @harness.fast_to_compile
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
