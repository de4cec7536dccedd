"""Monte Carlo CFR: what traversals sample has CFR's regrets as its mean, to rounding."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from solvers.contrib.sampling.traversal import make_sampler, table_policy, traverse
from solvers.sweeps.problem import choose, make_problem
from tests import harness


def eighths(tree, rng):
  """Returns a policy `[N, H]` on Kuhn's tree, in eighths, so that a grid of draws weighs evenly."""
  table = np.ones((tree.num_nodes, tree.num_infostates))
  sampler = make_sampler(tree)
  for moves in sampler.child[(sampler.child >= 0).sum(axis=1) == 2]:
    first, second = moves[moves >= 0]
    table[first] = rng.integers(1, 8, size=table.shape[1]) / 8
    table[second] = 1 - table[first]
  return table


def all_draws(sampler, player, explore):
  """Returns every sample of Kuhn once, as evenly likely draws `[K, num_draws]`."""
  levels = np.cumsum((2, *sampler.sizes(player, explore)))
  slots = np.concatenate([np.arange(levels[i], levels[i + 1]) for i in range(3)])
  if explore is None:  # the traverser's nodes draw nothing
    slots = slots[1:3] if player == 0 else slots[[0, 2, 3, 4][: len(slots) - 1]]
  parts = 8 if explore is None else 16
  grid = [(np.arange(k) + 0.5) / k for k in (3, 2, *[parts] * len(slots))]
  draws = np.full((np.prod([len(x) for x in grid]), sampler.num_draws(player, explore)), 0.5)
  draws[:, [0, 1, *slots]] = list(itertools.product(*grid))
  return draws


def exact_regrets(tree, table, player):
  """Returns CFR's regrets `[N, H]` of `player`, and its value of the game."""
  problem = make_problem(tree, tree.prior)
  policy = problem.split(jnp.asarray(table))
  sweep = problem.values_up(policy, problem.both_reach(policy)[1 - player], None, player)
  rows = [jnp.zeros_like(policy[0])]
  for i in range(1, len(policy)):
    found = problem.advantages(sweep, i, player)
    zeros = jnp.zeros_like(policy[i])
    rows.append(zeros if found is None else choose(problem.moves_at(i, player), found, zeros))
  # In sweeps a deal weighs the other's belief alone; a sample has been dealt with its whole chance.
  weight = tree.prior[player] / problem.pair_mass()
  return np.concatenate(rows) * weight, float(problem.worth(sweep.root, player))


def mean_regrets(visits, num_nodes):
  """Returns the mean of sampled regrets `[N, H]`."""
  moves = np.where(visits.moves >= 0, visits.moves, num_nodes)
  total = np.zeros((num_nodes + 1, 3))
  np.add.at(total, (moves, np.asarray(visits.infostate)[..., None]), visits.regret)
  return total[:-1] / len(moves)


@pytest.mark.parametrize("explore", [None, 0.5])
@pytest.mark.parametrize("player", [0, 1])
def test_sampled_regrets_have_the_mean_of_cfr(player, explore):
  """Lemma 1 of Lanctot et al. (thesis, (2.24)), over all samples; with a baseline too."""
  with jax.enable_x64():
    tree = games.build_public_tree(games.make("kuhn_poker"))
    rng, sampler = np.random.default_rng(player), make_sampler(tree)
    table = eighths(tree, rng)
    exact, value = exact_regrets(tree, table, player)

    @harness.fast_to_compile
    def sample(draws, guesses):
      policy = table_policy(sampler, table)
      settings = {"explore": explore, "baseline": guesses}
      return jax.vmap(lambda x: traverse(sampler, policy, x, player, **settings))(draws)

    draws = all_draws(sampler, player, explore)
    for guesses in (np.zeros_like(table), rng.normal(size=table.shape)):
      visits = sample(draws, guesses)
      found = mean_regrets(visits, tree.num_nodes)
      np.testing.assert_allclose(found, exact, atol=1e-12)
      assert np.mean(visits.value[:, 0]) == pytest.approx(value, abs=1e-12)
    if player == 0:  # Control: weighed by own reach too. Player 1 moves once, and its reach is one.
      off = visits._replace(regret=visits.regret * visits.reach[..., None])
      assert abs(mean_regrets(off, tree.num_nodes) - exact).max() > 1e-3
