"""Levelled values: what a public belief state is worth, by the average policies."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.metrics.exploitability import root_marginals
from solvers.search.batch import search_batch
from solvers.search.find import find_subgames
from solvers.search.tables import stack_subgames

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
