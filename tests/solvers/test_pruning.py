"""Regret-based pruning: skips of Theorem 7 leave positive regrets alone (thesis, section 3.3)."""

import jax.numpy as jnp
import numpy as np
from jax import lax

import games
from benchmarks.studies import pruning
from solvers import loop
from solvers.sweeps.problem import make_problem
from tests import harness


def test_a_skip_of_theorem_7_changes_no_positive_regret(x64):
  tree = games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3))
  problem = make_problem(tree, tree.prior)
  bounds = [pruning.regret_bounds(problem, p) for p in (0, 1)]
  nothing = tuple(jnp.zeros(shape) for shape in problem.shapes)

  @harness.fast_to_compile
  def go(state, skips, number):
    """Goes on with `skips` of player 0 alone; `number` of both."""

    def both(_, carry):
      state, skips = carry
      state, skips, _ = pruning.step(problem, bounds, state, skips, 0, 0.0)
      return pruning.step(problem, bounds, state, nothing, 1, 0.0)[0], skips

    return lax.fori_loop(0, number, both, (state, skips))[0]

  start = go(loop.begin(problem, pruning.ALGORITHM), nothing, 200)
  regrets = [jnp.zeros(shape) if x is None else x for x, shape in zip(start.regret, problem.shapes)]
  lengths = [np.floor(-x / np.maximum(y, 1e-30)) for x, y in zip(regrets, bounds[0])]
  level = 1  # the opening bids, below which nearly the whole tree is
  node, hand = np.unravel_index(lengths[level].argmax(), lengths[level].shape)
  length = int(lengths[level][node, hand])
  assert length >= 2

  def difference(longer):
    """Returns by how much positive regrets differ that are not below the move."""
    skips = list(nothing)
    skips[level] = skips[level].at[node, hand].set(longer * length)
    alive = problem.own_reach(tuple((x == 0) * 1.0 for x in skips), 0)
    one, other = (go(start, x, longer * length).regret for x in (tuple(skips), nothing))
    return max(
      float((jnp.abs(jnp.maximum(x, 0) - jnp.maximum(y, 0)) * (z if i % 2 else 1.0)).max())
      for i, (x, y, z) in enumerate(zip(one, other, alive))
      if x is not None
    )

  assert difference(1) == 0
  assert difference(30) > 1e-3  # control: longer than the regret can be trusted to stay below zero
