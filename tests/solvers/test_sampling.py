"""Monte Carlo CFR: what traversals sample has CFR's regrets as its mean, to rounding."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import games
import solvers
from games.poker.lines import make_lines
from solvers import tuning
from solvers.contrib.sampling.mccfr import MCCFR, solve_sampled
from solvers.contrib.sampling.public_chance import (
  SampledBoards,
  deals_of,
  solve_chance_sampled,
  update_deal,
)
from solvers.contrib.sampling.traversal import make_sampler, table_policy, traverse
from solvers.solve_boards import ByBoards
from solvers.sweeps.lines.parts import AXIS, make_parted_problem
from solvers.sweeps.problem import choose, make_problem
from tests import harness
from tests.solvers import test_lines


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
  levels = np.cumsum(sampler.sizes(player, explore))
  slots = np.concatenate([np.arange(levels[i], levels[i + 1]) for i in range(3)])
  if explore is None:  # the traverser's nodes draw nothing
    slots = slots[1:3] if player == 0 else slots[[0, 2, 3, 4][: len(slots) - 1]]
  parts = 8 if explore is None else 16
  grid = [(np.arange(k) + 0.5) / k for k in (3, 2, *[parts] * len(slots))]
  draws = np.full((np.prod([len(x) for x in grid]), sum(sampler.sizes(player, explore))), 0.5)
  draws[:, [0, 1, *slots]] = list(itertools.product(*grid))
  return draws


def exact_regrets(tree, table, player):
  """Returns CFR's regrets `[N, H]` of `player`, and its value of the game."""

  @harness.fast_to_compile
  def sweep_once(table):
    problem = make_problem(tree, tree.prior)
    policy = problem.split(table)
    sweep = problem.values_up(policy, problem.both_reach(policy)[1 - player], None, player)
    rows = [jnp.zeros_like(policy[0])]
    for i in range(1, len(policy)):
      found, zeros = problem.advantages(sweep, i, player), jnp.zeros_like(policy[i])
      rows.append(zeros if found is None else choose(problem.moves_at(i, player), found, zeros))
    # In sweeps a deal weighs the other's belief alone; a sample is dealt with its whole chance.
    weight = tree.prior[player] / problem.pair_mass()
    return jnp.concatenate(rows) * weight, problem.worth(sweep.root, player)

  return jax.tree.map(np.asarray, sweep_once(table))


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


# NashConv after 1,000 iterations of both on Kuhn: mean of 20 seeds of OpenSpiel's solvers, and the
# error of that mean.
OPEN_SPIEL = {None: (0.0515, 0.0031), 0.6: (0.2007, 0.0114)}


@pytest.mark.parametrize("explore", OPEN_SPIEL)
def test_runs_are_those_of_open_spiel(explore, x64):
  tree = games.build_public_tree(games.make("kuhn_poker"))
  algorithm, found = MCCFR(explore=explore), []
  for seed in range(20):
    run = solve_sampled(tree, num_iterations=2000, key=jax.random.key(seed), algorithm=algorithm)
    found.append(2 * float(solvers.exploitability(tree, run.average_policy)))
  mean, error = OPEN_SPIEL[explore]
  assert np.mean(found) == pytest.approx(mean, abs=4 * np.hypot(error, np.std(found) / 20**0.5))
  assert np.std(found) < 1.5 * error * 20**0.5  # the spread is OpenSpiel's too
  # Control: a fifth of the iterations is another distribution.
  early = solve_sampled(tree, num_iterations=400, key=jax.random.key(0), algorithm=algorithm)
  assert 2 * float(solvers.exploitability(tree, early.average_policy)) > mean + 4 * error
  assert early.nodes < run.nodes


@pytest.mark.slow
def test_sampled_deals_have_the_mean_of_cfr(x64):
  """Over all deals of Leduc, where each outcome of chance weighs one over its probability."""
  tree = games.build_public_tree(games.make("leduc_poker"))
  trees, places = deals_of(tree)
  assert places.shape == (6, 90)
  table = np.random.default_rng(0).uniform(0.1, 1, (tree.num_nodes, 6))
  whole = make_problem(tree, tree.prior)
  table = whole.join(whole.normalise(whole.split(table)))

  @harness.fast_to_compile
  def sample(trees):
    problems = jax.vmap(make_problem)(trees, trees.prior)
    start = (table, jnp.zeros_like(table), jnp.zeros_like(table))
    return lax.map(lambda c: update_deal(problems, places, start, c, 0)[1], jnp.arange(6)).mean(0)

  exact = exact_regrets(tree, table, 0)[0] / (tree.prior[0] / whole.pair_mass())
  np.testing.assert_allclose(sample(trees), exact, atol=1e-12)
  # Control: without the outcome's weight.
  plain = dataclasses.replace(trees, chance_probability=np.minimum(trees.chance_probability, 0.25))
  assert abs(sample(plain) - exact).max() > 1e-2


def test_updates_of_one_deal_solve_the_game(x64):
  tree = games.build_public_tree(games.make("leduc_poker"))
  found = solve_chance_sampled(tree, num_iterations=4000, period=200)
  assert float(solvers.exploitability(tree, found.average_policy)) < 0.12


def test_sampled_boards_have_the_mean_of_all(x64, monkeypatch):
  """Over the chunks of a turn's rivers: in the round before; and in a chunk, when it is visited."""
  monkeypatch.setattr(tuning, "ON_CPU", dataclasses.replace(tuning.ON_CPU, cells=1_000))
  lines, _ = make_lines(test_lines.make("TsJh9hAs", test_lines.APART))
  problem = jax.jit(make_parted_problem)(lines)
  (part,) = problem.parts

  def regrets(algorithm):
    found, _ = algorithm.update(problem, algorithm.init(problem), None, 0)
    return found.top.regret, found.regret

  def visit(index):
    monkeypatch.setattr(jax.random, "randint", lambda *_: index)
    return regrets(SampledBoards(solvers.vanilla_cfr()))

  @functools.partial(jax.vmap, axis_name=AXIS)
  def both(_):
    return regrets(ByBoards(solvers.vanilla_cfr())), lax.map(visit, jnp.arange(part.num_chunks))

  (top, below), (tops, parts) = harness.fast_to_compile(both)(jnp.zeros(1))
  off = 0.0
  for exact, sampled in zip(jax.tree.leaves(top), jax.tree.leaves(tops), strict=True):
    np.testing.assert_allclose(sampled.mean(axis=1), exact, atol=1e-10)
    off = max(off, float(abs(sampled[:, 0] - exact).max()))
  assert off > 1e-3  # control: one chunk is not all
  for exact, sampled in zip(jax.tree.leaves(below), jax.tree.leaves(parts), strict=True):
    np.testing.assert_allclose(sampled.sum(axis=1), exact, atol=1e-10)
