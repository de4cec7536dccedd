"""Levelled values: what a public belief state is worth, by the average policies."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.metrics.policies import root_marginals
from solvers.search.batch import search_batch
from solvers.search.subgames import find_subgames, stack_subgames
from tests import harness

ITERATIONS = 32


def random_beliefs(table, roots, seed=0):
  prior = jnp.asarray(table.trees.prior)[roots]
  weights = jax.random.exponential(jax.random.key(seed), prior.shape) * (prior > 0)
  return weights / weights.sum(axis=-1, keepdims=True)


def worths(table, roots, beliefs, values):
  """Returns the players' values of the PBSs, `[B, P]`."""
  trees = jax.tree.map(lambda x: jnp.asarray(x)[roots], table.trees)
  return np.asarray((jax.vmap(root_marginals)(trees, beliefs) * values).sum(axis=-1))


@dataclasses.dataclass(frozen=True)
class OfAverage(solvers.CFR):
  """CFR whose root values are those of the average policies."""

  uses_average = True


def search(table, roots, beliefs, iterations=ITERATIONS, of_average=False, **settings):
  algorithm = solvers.discounted_cfr()
  if of_average:
    algorithm = OfAverage(algorithm.rule, algorithm.averaging)
  return search_batch(
    table.trees_at(roots), beliefs, np.zeros(len(roots), np.int32), iterations,
    algorithm=algorithm, params=None, **settings,
  ).root_values  # fmt: skip


def not_quite_opposite(params, query):
  """Leaf values as a network's: not quite opposite for the two players."""
  own = query.beliefs[:, query.traverser]
  ranks = jnp.arange(own.shape[-1], dtype=own.dtype)
  other = query.beliefs[:, 1 - query.traverser] @ ranks
  return jnp.tanh(ranks - other[:, None] + 0.1)


@pytest.mark.slow
def test_the_sum_of_both_players_values_is_zero_and_each_is_shifted_alone():
  table = stack_subgames(find_subgames(games.make("liars_dice", num_dice=1, num_faces=3), depth=2))
  roots = np.arange(table.num_subgames)
  beliefs = random_beliefs(table, roots)
  rows = int(table.num_live.sum())
  settings = {"leaf_values": not_quite_opposite, "num_rows": rows}
  means = search(table, roots, beliefs, **settings)
  averages = search(table, roots, beliefs, of_average=True, **settings)
  levelled = search(table, roots, beliefs, levelled=True, **settings)

  found = worths(table, roots, beliefs, levelled)
  np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-6)
  expected = worths(table, roots, beliefs, averages)
  np.testing.assert_allclose(found[:, 0], (expected[:, 0] - expected[:, 1]) / 2, atol=1e-6)
  shift = np.asarray(levelled - means)
  np.testing.assert_allclose(shift, np.broadcast_to(shift[..., :1], shift.shape), atol=1e-6)
  # There was something to do: means are not opposite, nor the averages'.
  assert np.abs(worths(table, roots, beliefs, means).sum(axis=1)).max() > 0.01
  assert np.abs(expected.sum(axis=1)).max() > 0.01


def game_tree(name):
  parameters = {"num_dice": 1, "num_faces": 3} if name == "liars_dice" else {}
  return games.build_public_tree(games.make(name, **parameters)).astype(np.float64)


def solved(tree, beliefs):
  found = solvers.solve(
    tree, algorithm=solvers.discounted_cfr(), num_iterations=6_000, beliefs=beliefs
  )
  return np.asarray(found.root_values)


def tangent(tree, beliefs, player):
  """Returns the function of beliefs that is one number a PBS: planes through solved values."""
  step, size = 1e-3, tree.num_infostates
  around = [beliefs]
  for infostate in range(size):
    near = np.array(beliefs)
    near[player, infostate] += step
    near[player] /= near[player].sum()
    around.append(near)
  worth = [
    float((solvers.root_marginals(tree, near)[player] * solved(tree, near)[player]).sum())
    for near in around
  ]
  weight = [mass(tree, near, player) for near in around]
  sums = np.array([w * (near[player] * m).sum() for w, near, m in zip(worth, around, weight)])
  plane = np.linalg.lstsq(np.stack([near[player] for near in around]), sums, rcond=None)[0]
  other = weight[0]
  return lambda at: (jnp.asarray(plane) * at[player]).sum() / (at[player] * other).sum()


def mass(tree, beliefs, player):
  """Returns the other's mass that is compatible with each infostate, from the pairs' weights."""
  weights = np.asarray(tree.pair_weights[tree.root_pair_index])
  return weights @ beliefs[1] if player == 0 else beliefs[0] @ weights


@pytest.mark.parametrize(("name", "player"), [("kuhn_poker", 0), ("liars_dice", 1)])
def test_slopes_of_a_pbs_value_are_infostate_values(name, player, x64):
  tree = game_tree(name)
  beliefs = harness.random_beliefs(np.random.default_rng(5), harness.root_possible(tree))
  value = tangent(tree, beliefs, player)
  found = solvers.contrib.infostate_values(tree, value, beliefs, player=player)
  expected = solved(tree, beliefs)[player]
  np.testing.assert_allclose(found, expected, atol=0.02)
  assert np.ptp(expected) > 0.1  # control: they are not all the value of the PBS


def test_blocked_hands_are_weighed(x64):
  """Any fixed policy's PBS value is linear in beliefs, and its slopes are exact."""
  tree = game_tree("kuhn_poker")
  beliefs = harness.random_beliefs(np.random.default_rng(2), harness.root_possible(tree))
  policy = np.asarray(
    solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=20).average_policy
  )

  def value(beliefs):
    worth = solvers.expected_values(tree, policy, beliefs=beliefs)
    return (solvers.root_marginals(tree, beliefs)[1] * worth[1]).sum()

  found = solvers.contrib.infostate_values(tree, value, beliefs, player=1)
  expected = solvers.expected_values(tree, policy, beliefs=beliefs)[1]
  np.testing.assert_allclose(found, expected, atol=1e-12)
  unweighed = np.asarray(found) * mass(tree, beliefs, 1)
  assert np.abs(unweighed - expected).max() > 0.05
