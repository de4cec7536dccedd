"""Payoffs that depend on parameters: gradients, the best bets of Leduc, regrets carried over."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from benchmarks.studies import bet_sizes
from solvers import contrib
from solvers.contrib.parameters.optimise import value_gradient
from solvers.sweeps.levels import split_levels

AT_ONCE = dataclasses.replace(solvers.vanilla_cfr(), alternating=False)


def leduc(first, second):
  return games.build_public_tree(games.make("leduc_poker", bets=((first,), (second,))))


def matrix_family(size, spread, seed=0):
  """Returns two matrices, and the trees whose payoffs are the first plus t times the other."""
  rng = np.random.default_rng(seed)
  first, change = rng.uniform(-1, 1, (size, size)), rng.uniform(-spread, spread, (size, size))

  def build(t):
    game = games.make("matrix_game", payoffs=(first + t * change).tolist())
    return games.build_public_tree(game).astype(np.float64)

  return first, change, contrib.affine_trees(build, (0.0,))


def test_trees_of_a_family_are_those_of_the_game():
  trees = contrib.affine_trees(leduc, (2.0, 4.0))
  found, built = trees.at((3.5, 9.25)), leduc(3.5, 9.25)
  np.testing.assert_allclose(found.payoff_scale, built.payoff_scale, rtol=1e-6)
  assert found.origin is None
  far = trees.at((2.0, 4.0))
  assert np.abs(np.asarray(far.payoff_scale) - built.payoff_scale).max() > 1


def test_the_gradient_is_that_of_the_value(x64):
  _, _, trees = matrix_family(4, 0.5)
  algorithm = solvers.discounted_cfr()

  def solve(theta):
    solved = solvers.solve(trees.at((theta,)), algorithm=algorithm, num_iterations=8192)
    return float(solved.root_values[0, 0]), solved.average_policy

  @functools.partial(jax.jit, static_argnums=1)
  def slope(policy, player):
    return value_gradient(trees, split_levels(trees.tree, policy), player)[0]

  _, policy = solve(1.0)
  slopes = [float(slope(policy, p)) for p in (0, 1)]
  assert slopes[0] == pytest.approx(-slopes[1])
  between = (solve(1.01)[0] - solve(0.99)[0]) / 0.02
  assert slopes[0] == pytest.approx(between, abs=3e-3)
  uniform = jnp.full(np.shape(policy), 0.25)
  assert abs(float(slope(uniform, 0)) - between) > 0.02


def test_the_best_payoff_of_a_matrix_game():
  """Worth t (3 - t) / 3, most to player 0 at the middle, and to the other at either bound."""
  trees = contrib.affine_trees(
    lambda t: games.build_public_tree(games.make("matrix_game", payoffs=((t, 0), (0, 3 - t)))),
    (1.0,),
  )
  found = [
    contrib.optimise(
      trees, player=player, start=(0.9,), bounds=[(0.2, 2.6)], num_iterations=512, num_steps=16
    )
    for player in (0, 1)
  ]
  assert abs(float(found[0].parameters[0]) - 1.5) < 0.05
  assert abs(float(found[0].value) - 0.75) < 0.002
  assert float(found[1].parameters[0]) == pytest.approx(0.2)
  assert abs(float(found[1].value) + 0.2 * 2.8 / 3) < 0.002


@pytest.mark.slow
def test_the_best_second_bet_of_leduc():
  """9.75 by the thesis (section 4.2.6), worth .1611 within .002."""
  found = contrib.optimise(
    bet_sizes.leduc(both=False),
    player=1,
    start=(8.0,),
    bounds=[(0.5, 14.0)],
    num_iterations=768,
    num_steps=16,
  )
  assert abs(float(found.parameters[0]) - 9.75) < 0.15
  assert abs(float(found.value) - 0.1611) < 0.002


def test_regrets_are_those_of_the_same_policies(x64):
  first, change, trees = matrix_family(5, 0.3)
  solved = contrib.solve_affine(trees, (0.0,), num_iterations=40, algorithm=AT_ONCE)
  usual = solvers.solve(trees.at((0.0,)), algorithm=AT_ONCE, num_iterations=40)
  np.testing.assert_allclose(solved.average_policy, usual.average_policy, atol=1e-12)

  regrets, counted = [np.zeros(5), np.zeros(5)], np.zeros(5)
  for _ in range(20):
    rows, columns = (
      np.maximum(r, 0) / np.maximum(r, 0).sum() if (r > 0).any() else np.full(5, 0.2)
      for r in regrets
    )
    for worth, own, total in (
      (first @ columns, rows, regrets[0]),
      (-(rows @ first), columns, regrets[1]),
    ):
      total += worth - own @ worth
    there = (first + 0.7 * change) @ columns
    counted += there - rows @ there
  parts = np.asarray(solved.state.regret[1])[:, 0]
  np.testing.assert_allclose(parts[0], regrets[0], atol=1e-12)
  np.testing.assert_allclose(parts[0] + 0.7 * parts[1], counted, atol=1e-12)
  assert np.abs(parts[0] - counted).max() > 0.1


@pytest.mark.slow
def test_carried_over_regrets_help_and_do_no_harm(x64):
  """A head start of some updates; unweighed, what was learned elsewhere is in the way for long."""
  _, _, trees = matrix_family(20, 0.2)
  there, error = trees.at((1.0,)), {}
  known = contrib.solve_affine(trees, (0.0,), num_iterations=2_000, algorithm=AT_ONCE)
  for name, weight in (
    ("scratch", None),
    ("potential", "potential"),
    ("bound", "bound"),
    ("all", 1),
  ):
    for updates in (2, 20, 2_000):
      solved = contrib.solve_affine(
        trees,
        (1.0,),
        num_iterations=updates,
        start=known if weight is not None else None,
        weight=weight or "bound",
        algorithm=AT_ONCE,
      )
      error[name, updates] = float(solvers.exploitability(there, solved.average_policy))
  for name in ("potential", "bound"):
    assert error[name, 2] < 0.8 * error["scratch", 2]
    assert error[name, 20] < error["scratch", 20]
    assert error[name, 2_000] < 1.1 * error["scratch", 2_000]
  assert error["all", 2_000] > 1.5 * error["scratch", 2_000]
