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
from benchmarks.studies import large_dice
from games.poker.lines import make_lines
from solvers import solve_boards, tuning
from solvers.contrib import TreeStrategy, local_response
from solvers.contrib.sampling.mccfr import MCCFR, solve_sampled
from solvers.contrib.sampling.public_chance import (
  SampledBoards,
  deals_of,
  solve_chance_sampled,
  update_deal,
)
from solvers.contrib.sampling.strategy import RulesStrategy, WalkedStrategy
from solvers.contrib.sampling.traversal import make_sampler, table_policy, traverse
from solvers.solve_boards import ByBoards
from solvers.sweeps.lines.parts import AXIS, make_parted_problem
from solvers.sweeps.problem import make_problem
from solvers.xla import quickly
from tests import harness
from tests.solvers import test_lines
from tests.trees import random_policy

pytestmark = pytest.mark.usefixtures("strictly")


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
    zeros = [jnp.zeros_like(x) for x in policy]
    rows = problem.where_moved(zeros, lambda i, p: problem.advantages(sweep, i, p), [player])
    # In sweeps a deal weighs the other's belief alone; a sample is dealt with its whole chance.
    weight = tree.prior[player] / problem.pair_mass()
    return jnp.concatenate(rows) * weight[None], problem.worth(sweep.root, player)

  return jax.tree.map(np.asarray, sweep_once(table))


def mean_regrets(visits, num_nodes):
  """Returns the mean of sampled regrets `[N, H]`."""
  moves = np.where(visits.moves >= 0, visits.moves, num_nodes)
  total = np.zeros((num_nodes + 1, 3))
  np.add.at(total, (moves, np.asarray(visits.infostate)[..., None]), visits.regret)
  return total[:-1] / len(moves)


CASES = [(0, 0.5), (1, None), (0, None), (1, 0.5)]


@pytest.mark.parametrize(("player", "explore"), harness.slow(CASES, *CASES[2:]))
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
      settings = {"explore": explore, "baseline": lambda nodes, hands: guesses[nodes, hands]}
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

  exact = exact_regrets(tree, table, 0)[0] / (tree.prior[0] / whole.pair_mass())[None]
  np.testing.assert_allclose(sample(trees), exact, atol=1e-12)
  # Control: without the outcome's weight.
  plain = dataclasses.replace(trees, chance_probability=np.minimum(trees.chance_probability, 0.25))
  assert abs(sample(plain) - exact).max() > 1e-2


def test_updates_of_one_deal_solve_the_game(x64):
  tree = games.build_public_tree(games.make("leduc_poker"), root=(2, 2))
  found = solve_chance_sampled(tree, num_iterations=4000, period=200)
  assert float(solvers.exploitability(tree, found.average_policy)) < 0.06


def test_sampled_boards_have_the_mean_of_all(cpu, x64, monkeypatch):
  """Over the chunks of a turn's rivers: in the round before; and in a chunk, when it is visited."""
  monkeypatch.setattr(tuning, "ON_CPU", dataclasses.replace(tuning.ON_CPU, cells=1_000))
  lines, _ = make_lines(test_lines.make("TsJh9hAs", test_lines.APART))
  problem = jax.jit(make_parted_problem)(lines)
  (part,) = problem.parts

  def regrets(algorithm):
    state = algorithm.init(problem)._replace(key=jax.random.key(0))
    found, _ = algorithm.update(problem, state, None, 0)
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


def test_other_seeds_are_no_other_programs(cpu, monkeypatch):
  monkeypatch.setattr(tuning, "ON_CPU", dataclasses.replace(tuning.ON_CPU, cells=1_000))
  lines, _ = make_lines(test_lines.make("TsJh9hAs", test_lines.APART))
  with quickly():
    first, again, other = (
      solve_chance_sampled(lines, num_iterations=6, seed=seed) for seed in (3, 3, 4)
    )
    made = len(solve_boards._calls_in_place._made)
    solve_chance_sampled(lines, num_iterations=6, seed=5)
  assert first.exploitability == again.exploitability != other.exploitability
  programs = list(solve_boards._calls_in_place._made.values())
  assert len(programs) == made
  assert [x._cache_size() for x in programs[-2:]] == [1, 1]  # one goes on, one reads


@pytest.fixture(scope="module")
def learned():
  """Kuhn poker after a check, outcome sampling with a baseline, a state after some updates."""
  with jax.enable_x64():
    tree = games.build_public_tree(games.make("kuhn_poker"), root=(0,))
    algorithm = MCCFR(explore=0.6, baseline=0.1, period=1_000)
    run = solve_sampled(tree, num_iterations=2_000, key=jax.random.key(0), algorithm=algorithm)
    return make_sampler(tree), algorithm, run


@functools.partial(harness.fast_to_compile, static_argnames="algorithm")
def added(sampler, algorithm, state, seed):
  """Returns what updates of player 0 add to regrets and policies: `[K, N, H]` each."""
  keys = jax.random.split(jax.random.key(seed), 10_000)
  found = jax.vmap(lambda key: algorithm.update(sampler, state, key, 0))(keys)
  return found.regret - state.regret[None], found.average - state.average[None]


def test_periods_weigh_updates(learned, x64):
  sampler, algorithm, run = learned
  assert run.nodes == int(run.state.periods) * 1_000 + int(run.state.nodes) > 4_000
  settings = {"num_iterations": 200, "key": jax.random.key(1), "algorithm": algorithm}
  start = jax.tree.map(jnp.copy, run.state)
  assert solve_sampled(sampler, state=start, **settings).nodes > run.nodes
  assert start.regret.is_deleted()  # tables are not copied
  once, often = (
    added(sampler, algorithm, run.state._replace(periods=jnp.int32(n)), 1) for n in (0, 6)
  )
  for one, other in zip(once, often, strict=True):
    np.testing.assert_allclose(other, 7 * one, atol=1e-9)
    assert float(abs(one).max()) > 0.1
  # Control: without a period all updates weigh one.
  plain = dataclasses.replace(algorithm, period=None, deals=8)
  one, other = (
    added(sampler, plain, run.state._replace(periods=jnp.int32(n)), 1)[0] for n in (0, 6)
  )
  np.testing.assert_allclose(other, one, atol=1e-9)


def test_learned_baselines_leave_the_mean_and_take_variance(learned, x64):
  sampler, algorithm, run = learned
  nothing = run.state._replace(baseline=jnp.zeros_like(run.state.baseline), periods=jnp.int32(0))
  with_, without = (
    np.asarray(added(sampler, algorithm, state, 2)[0])
    for state in (run.state._replace(periods=jnp.int32(0)), nothing)
  )
  error = np.sqrt((with_.var(axis=0) + without.var(axis=0)) / len(with_))
  assert (abs(with_.mean(axis=0) - without.mean(axis=0)) <= 5 * error + 1e-9).all()
  assert with_.var(axis=0).sum() < 0.8 * without.var(axis=0).sum()
  # Control: guesses of the other player are none.
  swapped = nothing._replace(baseline=run.state.baseline[::-1])
  off = np.asarray(added(sampler, algorithm, swapped, 2)[0])
  assert off.var(axis=0).sum() > 1.2 * with_.var(axis=0).sum()


def test_deals_side_by_side_add_up(learned, x64):
  sampler, algorithm, run = learned
  state = run.state._replace(periods=jnp.int32(0))
  single = np.asarray(added(sampler, algorithm, state, 3)[0])
  several = dataclasses.replace(algorithm, period=None, deals=8)
  many = np.asarray(added(sampler, several, state, 4)[0])
  error = np.sqrt((8**2 * single.var(axis=0) + many.var(axis=0)) / len(many))
  assert (abs(many.mean(axis=0) - 8 * single.mean(axis=0)) <= 5 * error + 1e-9).all()
  assert (abs(many.mean(axis=0) - single.mean(axis=0)) > 5 * error).any()  # control
  # They are independent: their variances add up, too.
  assert many.var(axis=0).sum() == pytest.approx(8 * single.var(axis=0).sum(), rel=0.2)


def test_nodes_beyond_the_width_are_kept_fairly(x64):
  tree = games.build_public_tree(games.make("kuhn_poker"))
  sampler, table = make_sampler(tree, width=1), eighths(tree, np.random.default_rng(0))
  exact, value = exact_regrets(tree, table, 0)

  @harness.fast_to_compile
  def sample(draws):
    policy = table_policy(sampler, table)
    return jax.vmap(lambda x: traverse(sampler, policy, x, 0))(draws)

  visits = sample(np.random.default_rng(0).random((40_000, sum(sampler.sizes(0)))))
  assert (np.asarray(visits.node) >= 0).sum(axis=1).max() <= len(sampler.capacity[0])
  spread = 5 * np.asarray(visits.regret).std() * 3 / 40_000**0.5
  np.testing.assert_allclose(mean_regrets(visits, tree.num_nodes), exact, atol=spread)
  assert np.mean(visits.value[:, 0]) == pytest.approx(value, abs=spread)
  off = visits._replace(regret=visits.regret * visits.sampled[..., None])  # control: as if all were
  assert abs(mean_regrets(off, tree.num_nodes) - exact).max() > 2 * spread


@pytest.mark.parametrize(
  "name", [pytest.param("leduc_poker", marks=pytest.mark.slow), "kuhn_poker"]
)
def test_rules_are_walked_as_their_tree(name, x64):
  game, width = games.make(name), 3 if name == "leduc_poker" else 1
  tree = games.build_public_tree(game)
  rules = make_sampler(game, rows=4 * tree.num_nodes, width=width)
  written = dataclasses.replace(make_sampler(tree, width=width), capacity=rules.capacity)
  algorithm, draws = MCCFR(), np.random.default_rng(0).random((200, sum(rules.sizes(1))))

  @harness.fast_to_compile
  def sample():
    def visits(sampler):
      policy = algorithm.policy(sampler, algorithm.init(sampler))
      return jax.vmap(lambda x: traverse(sampler, policy, x, 1))(draws)

    return visits(rules), visits(written)

  walked, known = sample()
  for field in ("player", "infostate", "policy", "value", "regret", "reach", "probability"):
    np.testing.assert_allclose(getattr(walked, field), getattr(known, field), atol=1e-12)
  assert np.asarray(walked.probability)[np.asarray(walked.node) >= 0].sum() > 0
  numbers = {}  # each node has a number, and each number a node
  pairs = np.stack([np.ravel(walked.moves), np.ravel(known.moves)], axis=1)
  for number, node in np.unique(pairs, axis=0).tolist():
    assert numbers.setdefault(number, node) == node


@pytest.mark.slow
def test_rules_learn_as_their_tree_and_full_tables_stay_even(x64):
  game = games.LiarsDice(1, 2)
  tree = games.build_public_tree(game)
  runs = {}
  for rows in (2**18, 8):
    sampler = make_sampler(game, rows=rows, width=3)
    runs[rows] = solve_sampled(sampler, num_iterations=400, key=jax.random.key(0)), sampler
  written = dataclasses.replace(make_sampler(tree, width=3), capacity=sampler.capacity)
  known = solve_sampled(written, num_iterations=400, key=jax.random.key(0)).average_policy
  off = {}
  for rows, (run, sampler) in runs.items():
    strategy = WalkedStrategy(sampler, MCCFR(), run.state)
    table = large_dice.tabulated(strategy, tree)
    off[rows] = float(abs(table - known).max())
    assert run.nodes > 2_000
  assert off[2**18] < 1e-9
  assert off[8] > 0.1  # control: rows for eight nodes
  assert (np.asarray(runs[8][0].state.holds) >= 0).all()


def test_a_strategy_makes_each_move_once(monkeypatch):
  game, made = games.LiarsDice(1, 3), []
  after, line = game.next_states, [0, 2, 4, 5] + [-1] * (game.max_moves - 4)
  monkeypatch.setattr(game, "next_states", lambda *move: made.append(move) or after(*move))
  strategy = RulesStrategy(game, lambda state, line: np.append(state, line))
  for action in (0, 2, 4):
    strategy.observe(action)
    found = strategy.rows((5,))
  assert len(made) == 6
  np.testing.assert_array_equal(found, [*game.state_after((0, 2, 4, 5)), *line])


def test_a_local_response_that_looks_to_the_end_is_a_best_response(x64):
  game = games.LiarsDice(1, 2)
  tree = games.build_public_tree(game)
  policy = random_policy(tree, np.random.default_rng(0))
  gap = float(solvers.exploitability(tree, policy))
  strategy, settings = TreeStrategy(tree, policy), {"num_plays": 300, "seed": 1}
  far, near = (
    local_response(game, strategy, lambda _: game.liar, depth=depth, **settings) for depth in (8, 1)
  )
  assert far[0] == pytest.approx(gap, abs=1.5 * far[1])
  assert far[1] < gap
  assert near[0] < far[0] - 0.05  # control: a response that asks for no policy
