"""Every named algorithm: its steps and its exploitability curves."""

import dataclasses
import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import games
import solvers
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.algorithms.regret_rules import at_horizon, decay
from solvers.loop import merged
from solvers.search.batch import _stop_logits
from solvers.sweeps import join_levels, make_problem
from tests import brute_force, harness
from tests.solvers import test_cfr

INF = math.inf
# How each is made, given `alternating`.
FAMILY = {
  "vanilla_cfr": solvers.vanilla_cfr,
  "cfr_plus": solvers.cfr_plus,
  "linear_cfr": solvers.linear_cfr,
  "discounted_cfr": solvers.discounted_cfr,
  "discounted_cfr_floored": functools.partial(solvers.discounted_cfr, 1.5, -INF, 2),
  "discounted_cfr_pruning": functools.partial(solvers.discounted_cfr, 1.5, 0.5, 2),
  "predictive_cfr_plus": solvers.predictive_cfr_plus,
  "fictitious_play": solvers.fictitious_play,
  "linear_fictitious_play": solvers.linear_fictitious_play,
  "linear_optimistic_fictitious_play": solvers.linear_optimistic_fictitious_play,
}
LENGTH = 12  # updates of each player in the tests of steps
RECENT = {
  name: lambda name=name: at_horizon(solvers.make_algorithm(name), LENGTH)
  for name in (
    "predictive_discounted_cfr_plus",
    "asymmetric_predictive_cfr_plus",
    "scheduled_discounted_cfr",
    "scheduled_predictive_cfr_plus",
    "magnetic_mirror_descent",
  )
}
ALIKE = ("discounted_cfr_floored", "discounted_cfr_pruning")
FICTITIOUS = {name for name in FAMILY if "fictitious" in name}
GAMES = ("kuhn", "liars_dice_1x4f", "leduc")
CHECKPOINTS = (16, 64, 256, 1024)


@functools.partial(harness.fast_to_compile, static_argnames=("algorithm",))
def trajectory(tree, updates, simultaneous, averaging=None, *, algorithm):
  """Runs an algorithm and reads it at some numbers of updates."""
  tree = jax.tree.map(jnp.asarray, tree)
  if averaging is not None:
    algorithm = dataclasses.replace(algorithm, averaging=averaging)
  problem = make_problem(tree, tree.prior)
  state = algorithm.init(problem)

  def both(_, state):
    first, _ = algorithm.update(problem, state, None, 0)
    seen = jax.tree.map(lambda x, y: jnp.where(simultaneous, x, y), state, first)
    second, _ = algorithm.update(problem, seen, None, 1)
    together = merged(state, first, second)
    return jax.tree.map(lambda x, y: jnp.where(simultaneous, x, y), together, second)

  def read(carry, stop):
    state, done = carry
    state = lax.fori_loop(done, stop // 2, both, state)
    current = join_levels(algorithm.current_policy(problem, state))
    average = join_levels(algorithm.average_policy(problem, state))
    return (state, stop // 2), (current, average)

  return lax.scan(read, (state, jnp.zeros((), updates.dtype)), updates)[1]


def run(name, tree, updates, alternating):
  """Returns `trajectory` of a member of the family; FP and linear FP share a program."""
  algorithm, averaging = (FAMILY | RECENT)[name](), None
  if name in FICTITIOUS:
    averaging = algorithm.averaging
    algorithm = FictitiousPlay(optimistic=algorithm.optimistic)
  updates = np.asarray(updates, np.int32)
  return trajectory(tree, updates, not alternating, averaging, algorithm=algorithm)


def closed_form(name, matrix, num_updates, alternating):
  """Yields both players' strategies and averages after each pair of updates on a matrix game."""
  payoffs = [matrix, -matrix.T]
  x = [np.full(3, 1 / 3), np.full(3, 1 / 3)]
  gammas = {"vanilla_cfr": 0, "linear_cfr": 1, "fictitious_play": 0}
  gamma = (gammas | {"predictive_discounted_cfr_plus": 5}).get(name, 2)
  share = {"asymmetric_predictive_cfr_plus": 1 / 3}.get(name, float("predictive" in name))
  gamma = 1 if name in FICTITIOUS - {"fictitious_play"} else gamma
  first_weight = 2.0**gamma if name in FICTITIOUS else 1.0
  sums = [first_weight * x[p] for p in (0, 1)]
  regret, means = [np.zeros(3), np.zeros(3)], list(x)

  def target(p, k):
    """What the other responds to after k updates of p in fictitious play."""
    extra = (k + 2.0) ** gamma * x[p] if "optimistic" in name else 0.0
    return (sums[p] + extra) / (sums[p] + extra).sum()

  def positive(total):
    total = np.maximum(total, 0.0)
    return total / total.sum() if total.sum() > 0 else np.full(3, 1 / 3)

  def respond(p, k, other):
    worth = payoffs[p] @ other
    if name in FICTITIOUS:
      return np.eye(3)[worth.argmax()]
    new = worth - x[p] @ worth
    if name == "linear_cfr":
      regret[p] += k * new
    elif name == "predictive_discounted_cfr_plus":
      old, now = ((j**2.3 / (j**2.3 + 1)) for j in (k - 1, k))
      regret[p] = np.maximum(old * regret[p] + new, 0.0)
      return positive(now * regret[p] + new)
    elif "plus" in name:
      regret[p] = np.maximum(regret[p] + new, 0.0)
    elif name == "magnetic_mirror_descent":
      regret[p] = (regret[p] + 30 / k**0.5 * new) / (1 + 30 * 0.1 / k)
      return np.exp(regret[p]) / np.exp(regret[p]).sum()
    elif "discounted" in name:
      # As in the thesis: what was there before the k-th iteration is discounted by k - 1.
      beta = {"discounted_cfr_floored": -INF, "discounted_cfr_pruning": 0.5}.get(name, 0.0)
      alpha, run = 1.5, (k - 1) / LENGTH
      if name == "scheduled_discounted_cfr":
        alpha, beta = 1 + 3 * run, -1 - 2 * run
      if k > 1:
        up, down = ((k - 1.0) ** alpha, (k - 1.0) ** beta if beta > -INF else 0.0)
        old = regret[p]
        regret[p] = np.where(old > 0, old * up / (up + 1), old * down / (down + 1))
      regret[p] = regret[p] + new
    else:
      regret[p] += new
    return positive(regret[p] + share * new)

  for k in range(1, num_updates // 2 + 1):
    others = [target(1, k - 1), target(0, k - 1)] if name in FICTITIOUS else [x[1], x[0]]
    for p in (0, 1):
      if p == 1 and alternating:
        others[1] = target(0, k) if name in FICTITIOUS else x[0]
      x[p] = respond(p, k, others[p])
      sums[p] = sums[p] + (k + 1.0) ** gamma * x[p]
      if "scheduled" in name:  # policy k + 1 joins a sum that has just been discounted
        means[p] = means[p] * (k / (k + 1)) ** (30 - 5 * k / LENGTH) + x[p]
        sums[p] = means[p]
      elif name == "magnetic_mirror_descent":
        sums[p] = x[p]
    averages = [target(p, k) if name in FICTITIOUS else sums[p] / sums[p].sum() for p in (0, 1)]
    yield list(x), averages


def step_error(name, steps_of, alternating, num_updates=24):
  """Returns the largest difference of averages, and of current policies but in FP.

  On rock-paper-scissors with random payoffs.
  """
  game = harness.jitter_payoffs(games.make("rock_paper_scissors"))
  tree = games.build_public_tree(game)
  tables = np.asarray(tree.payoffs)[np.asarray(tree.payoff_index)]  # [3, H, H], by the answer
  scale = np.asarray(tree.payoff_scale)
  matrix = (tables[:, :, 0] * scale[:, None]).T
  updates = np.arange(2, num_updates + 1, 2)
  current, average = map(np.asarray, run(name, tree, updates, alternating))
  worst = 0.0
  for i, (now, mean) in enumerate(closed_form(steps_of, matrix, num_updates, alternating)):
    pairs = [(average[i], mean)] + ([] if name in FICTITIOUS else [(current[i], now)])
    for ours, theirs in pairs:
      worst = max(worst, np.abs(ours[1] - theirs[0]).max(), np.abs(ours[2:, 0] - theirs[1]).max())
  return worst


@pytest.mark.parametrize("alternating", [True, False])
@pytest.mark.parametrize("name", [*FAMILY, *RECENT])
def test_steps(name, alternating, x64):
  assert step_error(name, name, alternating) < 1e-12


def test_control_other_steps_are_seen(x64):
  names = [*FAMILY, *RECENT]
  for name, other in zip(names, names[1:] + names[:1]):
    assert step_error(name, other, True) > 1e-4, (name, other)


def test_a_run_knows_its_length(x64):
  """Independent figures on Kuhn, 500 updates of each: HS-DCFR(30) 1.04e-3, HS-PCFR+(30) 6e-17."""
  tree = build("kuhn")

  def score(name, number, length=None, **options):
    algorithm = solvers.make_algorithm(name)
    algorithm = algorithm if length is None else at_horizon(algorithm, length)
    found = solvers.solve(tree, algorithm=algorithm, num_iterations=number, **options)
    return float(solvers.exploitability(tree, found.average_policy))

  # The other program has not counted the last policies: ours after an update of each less.
  assert score("scheduled_discounted_cfr", 998, 500) == pytest.approx(1.04e-3, abs=1e-5)
  assert score("scheduled_predictive_cfr_plus", 998, 500) < 1e-15
  whole = score("scheduled_discounted_cfr", 1000)
  assert whole == pytest.approx(score("scheduled_discounted_cfr", 1000, target=0.0), rel=1e-9)
  assert whole == pytest.approx(score("scheduled_discounted_cfr", 1000, 500), rel=1e-9)
  assert abs(whole - score("scheduled_discounted_cfr", 1000, 700)) > 1e-5


def test_stops_weigh_what_averages_do():
  for name in ("scheduled_discounted_cfr", "magnetic_mirror_descent"):
    weights = np.exp(_stop_logits(2 * LENGTH, solvers.make_algorithm(name).averaging, 0))
    sums = np.zeros(LENGTH)
    for k in range(LENGTH):
      sums = sums * (decay(k, RECENT[name]().averaging) if k else 1) + np.eye(LENGTH)[k]
    np.testing.assert_allclose(weights / weights.sum(), sums / sums.sum(), rtol=1e-5)


@functools.cache
def build(game):
  with jax.enable_x64(True):
    return games.build_public_tree(harness.make_case(game)[0])


@functools.cache
def curve(name, game, alternating):
  """Returns the exploitability at `CHECKPOINTS`, in float64."""
  with jax.enable_x64(True):
    average = run(name, build(game), CHECKPOINTS, alternating)[1]
    return solvers.exploitability(build(game), average).tolist()


@pytest.mark.parametrize("name", harness.slow(FAMILY, *ALIKE))
@pytest.mark.parametrize("game", harness.slow(GAMES, "liars_dice_1x4f", "leduc"))
def test_exploitability_falls(game, name):
  """Ever lower from 16 to 1,024 updates, by a factor of 64 in their number."""
  alternating, simultaneous = curve(name, game, True), curve(name, game, False)
  for values in (alternating, simultaneous):
    assert all(later < earlier for earlier, later in itertools.pairwise(values)), values
    assert values[-1] < values[0] / 5
  assert alternating[-1] < alternating[0] / (9 if name in FICTITIOUS else 20)
  if name not in FICTITIOUS | {"vanilla_cfr", "linear_cfr"}:
    assert alternating[-1] < alternating[0] / (35 if game == "kuhn" else 200)
    # Taking turns is what makes these algorithms fast.
    assert alternating[-1] < simultaneous[-1] / 1.5


def test_control_a_curve_that_does_not_fall_is_seen(x64):
  """A policy that is averaged alone does not converge: the current one stays exploitable."""
  tree = build("kuhn")
  current, average = run("vanilla_cfr", tree, CHECKPOINTS, True)
  stays, falling = (solvers.exploitability(tree, x) for x in (current, average))
  assert stays.min() > 10 * float(falling[-1])


def depth_limited_error(name, params_of=lambda params: params):
  """Returns how far a tree cut off at payoff matrices is from the game that ends with them."""
  case, member = "liars_dice_1x3f", FAMILY[name]()
  tree, edges, params, beliefs, referee = test_cfr.scene(case)
  whole = games.build_public_tree(referee.game)
  how = {"algorithm": member, "leaf_values": test_cfr.matrix_values, "pairs": 13}
  ours, theirs = (
    harness.iterates(each, beliefs, params_of(params), **how)[1][-1] for each in (tree, whole)
  )
  expected = brute_force.from_array(brute_force.tree_edges(whole), theirs)
  return brute_force.worst_difference(edges, ours, expected)


@pytest.mark.parametrize("name", harness.slow(sorted(FICTITIOUS), *sorted(FICTITIOUS)[:2]))
def test_depth_limited_fictitious_play_is_that_of_the_game_that_ends_there(name, x64):
  assert depth_limited_error(name) < 1e-12
  # The control: leaves that are worth the opposite.
  assert depth_limited_error(name, lambda params: (-params[0], *params[1:])) > 1e-3
