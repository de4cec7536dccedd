"""Searching many different subgames at once gives what searching them one by one gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.search.batch import beliefs_at_leaves, sample_stop, search_batch, spread_stops
from solvers.search.starts import explore, leaf_probabilities, searched_starts
from solvers.search.subgames import find_subgames, stack_subgames
from solvers.sweeps.levels import join_levels, split_levels
from solvers.sweeps.problem import make_problem
from tests import harness
from tests.trees import possible_of

ITERATIONS = 16


def row_values(params, query):
  """Any function of features and beliefs that treats each leaf by itself."""
  own, other = query.beliefs[:, query.traverser], query.beliefs[:, 1 - query.traverser]
  mix = jnp.sin(query.features @ params["features"])[:, None]
  return mix + own @ params["own"] + jnp.cos(other @ params["other"])


def make_params(tree, seed=0):
  rng = np.random.default_rng(seed)
  h, f = tree.num_infostates, tree.root_features.shape[-1]
  return {
    "features": rng.normal(size=f).astype(tree.dtype),
    "own": rng.normal(size=(h, h)).astype(tree.dtype),
    "other": rng.normal(size=(h, h)).astype(tree.dtype),
  }


def setting(name):
  """Returns subgames, which of them are searched, and these stacked."""
  parameters = {"num_dice": 1, "num_faces": 3} if name == "liars_dice" else {}
  subgames = find_subgames(games.make(name, **parameters), depth=2)
  entries = sorted({0, 1, len(subgames.trees) // 2, len(subgames.trees) - 1})
  return subgames, entries, stack_subgames(subgames, entries)


ALGORITHMS = {
  "linear": solvers.linear_cfr(),
  "modified-avg": solvers.cfr_avg(solvers.linear_cfr()),
  "simultaneous": solvers.discounted_cfr(alternating=False),
  "fictitious-play": solvers.fictitious_play(),
}


@pytest.mark.parametrize("algorithm", harness.slow(ALGORITHMS, *list(ALGORITHMS)[1:]))
@pytest.mark.parametrize("name", ["liars_dice", "leduc_poker"])
def test_packed_search_equals_solving_one_by_one(name, algorithm, x64):
  """In float64: CFR-AVG takes differences of sums, which float32 blurs."""
  subgames, entries, table = setting(name)
  algorithm = ALGORITHMS[algorithm]
  rng = np.random.default_rng(1)
  params = make_params(subgames.trees[0])
  roots = np.array([2, 0, 1, 3, 0])
  possible = [possible_of(subgames.trees[entries[i]])[0] for i in roots]
  beliefs = np.stack([harness.random_beliefs(rng, x, num_zeros=0) for x in possible])
  result = jax.jit(
    lambda: search_batch(
      table.trees_at(np.asarray(entries)[roots]), beliefs, np.zeros(5, int), ITERATIONS,
      algorithm=algorithm, leaf_values=row_values, params=params,
      num_rows=int(table.num_live[roots].sum()),
    )
  )()  # fmt: skip
  for lane, root in enumerate(roots):
    tree = subgames.trees[entries[root]]
    leaf_values = row_values if tree.depth_limited else None
    alone = solvers.solve(
      tree,
      algorithm=algorithm,
      num_iterations=ITERATIONS,
      beliefs=beliefs[lane],
      leaf_values=leaf_values,
      params=params,
    )
    # CFR-AVG's differences vanish where the opponent stopped going; rounding then breaks the tie
    # between actions that are worth nothing, one way here and another there.
    atol = 2e-2 if algorithm == solvers.cfr_avg(solvers.linear_cfr()) else 1e-8
    np.testing.assert_allclose(result.root_values[lane], alone.root_values, atol=atol)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_spread_stops_have_the_same_weights_and_are_even(exponent):
  weights = np.arange(1, 9) ** exponent
  keys = jax.random.split(jax.random.key(0), 4_000)
  stops = np.asarray(jax.vmap(lambda key: spread_stops(key, 10, 16, exponent))(keys))
  for column in stops.T[:2]:  # each by itself, wherever it stands
    counts = np.bincount(column, minlength=8) / len(column)
    np.testing.assert_allclose(counts, weights / weights.sum(), atol=0.03)
  expected = 10 * weights.cumsum() / weights.sum()

  def unevenness(stops):
    below = (stops[:, :, None] <= np.arange(8)).sum(axis=1)
    return np.abs(below - expected).max()

  assert unevenness(stops) < 1 + 1e-4
  # Control: drawn one by one they are not even.
  apart = np.asarray(jax.vmap(lambda key: sample_stop(key, (10,), 16, exponent))(keys))
  assert unevenness(apart) > 2


def test_leaf_probabilities_against_enumeration():
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game, root=(1,), depth=2)
  beliefs = jnp.asarray(tree.prior)
  weights = np.random.default_rng(0).exponential(size=(tree.num_nodes, 6)).astype(np.float32)

  @jax.jit
  def computed(explorer, epsilon):
    """Returns the policy, its leaves' probabilities, and player 1's reach of its nodes."""
    here = make_problem(tree, beliefs)
    policy = here.normalise(split_levels(tree, weights))
    policy = explore(here, policy, explorer, epsilon)
    leaves = leaf_probabilities(here, policy, beliefs)
    return join_levels(policy), leaves, join_levels(here.own_reach(policy, 1))

  rows, got, reach = (np.asarray(x) for x in computed(0, 0.0))
  kind, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  expected = np.zeros(tree.num_leaves)
  for place, leaf in enumerate(np.asarray(tree.leaf_nodes)):
    for first in range(6):
      for second in set(range(6)) - {first}:
        probability, node, card = 1 / 30, leaf, (first, second)
        while parent[node] >= 0:
          mover = kind[parent[node]]
          if mover == games.CHANCE:
            dealt = int(tree.action[node]) - 3
            probability *= 0.0 if dealt in card else 1 / 4
          else:
            probability *= rows[node, card[mover]]
          node = parent[node]
        expected[place] += probability
  np.testing.assert_allclose(got, expected, atol=1e-6)
  # Exploring changes what is sampled, for the explorer alone.
  _, mixed, mixed_reach = computed(0, 0.25)
  assert not np.allclose(mixed, expected, atol=1e-4)
  np.testing.assert_allclose(mixed_reach, reach)


@pytest.mark.parametrize(
  "algorithm",
  [
    pytest.param(solvers.linear_cfr(), marks=pytest.mark.slow),
    pytest.param(solvers.linear_cfr(alternating=False), marks=pytest.mark.slow),
    solvers.cfr_avg(solvers.linear_cfr()),
  ],
  ids=["d", "simultaneous", "avg"],
)
def test_shared_start_gives_the_iterates_of_a_search_of_its_own(algorithm, x64):
  table = stack_subgames(find_subgames(games.make("liars_dice", num_dice=1, num_faces=2), depth=1))
  tree = jax.tree.map(lambda x: np.asarray(x)[0], table.trees)
  params = make_params(tree)
  _, _, iterates = searched_starts(
    table, np.zeros(1, int), algorithm, ITERATIONS, row_values, params
  )
  iterates = jax.tree.map(lambda x: np.asarray(x)[0], iterates)
  assert iterates.policies.shape[0] == ITERATIONS // 2

  @jax.jit
  def search_until(stop, iterations):
    return search_batch(
      table.trees_at(np.zeros(1, int)), np.asarray(tree.prior)[None], stop[None], iterations,
      algorithm=algorithm, leaf_values=row_values, params=params,
      num_rows=table.trees.num_leaves,
    )  # fmt: skip

  def search(stop, iterations=ITERATIONS):
    return search_until(jnp.int32(stop), iterations)

  def join(levels):
    return np.concatenate([np.asarray(level)[0] for level in levels])

  @jax.jit
  def at_leaves(policy):
    return beliefs_at_leaves(make_problem(tree, tree.prior), split_levels(tree, policy))

  for stop in (0, 3, 7):
    result = search(stop)
    np.testing.assert_allclose(iterates.policies[stop], join(result.policy), atol=1e-9)
    believed = at_leaves(iterates.believed[stop])
    np.testing.assert_allclose(believed, result.leaf_beliefs[0], atol=1e-9)
    if stop == 0:
      continue
    # CFR-AVG passes on the beliefs of the average until then, CFR-D those of the policy itself.
    until = join(search(0, 2 * stop).average_policy)
    believed = until if algorithm.uses_average else iterates.policies[stop]
    np.testing.assert_allclose(iterates.believed[stop], believed, atol=1e-9)
    assert np.abs(until - iterates.policies[stop]).max() > 0.01
  np.testing.assert_allclose(iterates.average_policy, join(search(0).average_policy), atol=1e-9)
