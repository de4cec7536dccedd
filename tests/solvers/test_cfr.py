"""CFR update by update against the referee that walks over histories, in float64."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from tests import brute_force, harness

NUM_UPDATES = 16
TOLERANCE = 1e-10
ALGORITHMS = {"vanilla": solvers.vanilla_cfr(), "linear": solvers.linear_cfr()}


# Each case compiles twice a rule: by default those of a kind that are the smallest.
QUICK = [("kuhn", "vanilla"), ("leduc_after_a_card", "vanilla"), ("liars_dice_1x3f", "linear"),
         ("random_5", "linear")]  # fmt: skip
OTHERS = [("rock_paper_scissors", "vanilla"), ("random_2", "vanilla"), ("leduc", "linear"),
          ("liars_dice_2x2f_after_a_bid", "linear")]  # fmt: skip
CASES = [*QUICK, *(pytest.param(*x, marks=pytest.mark.slow) for x in OTHERS)]


def build(case, *, jitter=False):
  """Returns game, root and tree of a case, and random root beliefs with zeros among them."""
  game, root = harness.make_case(case)
  if jitter:
    harness.jitter_payoffs(game)
  tree = games.build_public_tree(game, root=root)
  rng = np.random.default_rng(len(case))
  return game, root, tree, harness.random_beliefs(rng, harness.root_possible(tree))


def errors(steps, algorithm, tree, edges, beliefs):
  """Returns the largest errors of policies, averages and root values over all updates."""
  worst = np.zeros(3)
  for t, step in enumerate(steps):
    current, average, values = harness.run(tree, beliefs, t + 1, algorithm=algorithm)
    worst = np.maximum(
      worst,
      [
        brute_force.worst_difference(edges, current, step.policy),
        brute_force.worst_difference(edges, average, step.average),
        np.abs(values - step.root_values).max(),
      ],
    )
  return worst


@pytest.mark.parametrize(("case", "name"), CASES)
def test_every_update_matches_the_referee(case, name, x64):
  """Policies, averages and root values after each update, from beliefs with zeros.

  Payoffs are jittered: where moves are worth exactly the same, rounding decides between them.
  """
  game, root, tree, beliefs = build(case, jitter=True)
  referee = brute_force.Referee(game, root, beliefs)
  steps = list(referee.cfr(NUM_UPDATES, linear=name == "linear"))
  assert (
    errors(steps, ALGORITHMS[name], tree, brute_force.tree_edges(tree, root), beliefs).max()
    < TOLERANCE
  )


@pytest.mark.parametrize(("case", "name"), CASES)
def test_every_update_follows_from_the_one_before(case, name, x64):
  """As above with the games' own payoffs and priors, where ties do occur.

  The referee answers each of the solver's policies, so that a tie broken otherwise is no error,
  but all that follows from it must be right.
  """
  game, root, tree, _ = build(case)
  beliefs = np.asarray(tree.prior)
  referee = brute_force.Referee(game, root, beliefs)
  trajectory = [
    harness.run(tree, beliefs, t + 1, algorithm=ALGORITHMS[name]) for t in range(NUM_UPDATES)
  ]
  edges = brute_force.tree_edges(tree, root)
  follow = [brute_force.from_array(edges, current) for current, _, _ in trajectory]
  steps = referee.cfr(NUM_UPDATES, linear=name == "linear", follow=follow)
  num_decided = 0
  for step, (current, average, values) in zip(steps, trajectory, strict=True):
    num_decided += len(step.decided)
    error = brute_force.worst_difference(edges, current, step.policy, step.decided)
    assert error < TOLERANCE
    assert brute_force.worst_difference(edges, average, step.average) < TOLERANCE
    np.testing.assert_allclose(values, step.root_values, rtol=0, atol=TOLERANCE)
  assert num_decided > 0.2 * len(referee.infosets) * NUM_UPDATES / 2


@pytest.mark.parametrize(
  ("case", "name", "num_iterations"),
  [("kuhn", "linear", 7), ("rock_paper_scissors", "vanilla", 9)],
)
def test_solve_runs_the_updates_in_turn(case, name, num_iterations, x64):
  game, root, tree, beliefs = build(case, jitter=True)
  referee = brute_force.Referee(game, root, beliefs)
  step = list(referee.cfr(num_iterations, linear=name == "linear"))[-1]
  solution = solvers.solve(
    tree, algorithm=ALGORITHMS[name], num_iterations=num_iterations, beliefs=beliefs
  )
  edges = brute_force.tree_edges(tree, root)
  for policy, expected in (
    (solution.current_policy, step.policy),
    (solution.average_policy, step.average),
  ):
    assert brute_force.worst_difference(edges, policy, expected) < TOLERANCE
  np.testing.assert_allclose(solution.root_values, step.root_values, rtol=0, atol=TOLERANCE)


# Controls: mistakes that the comparison above must see.


class WeighsRootValuesByBelief(solvers.CFR):
  """Own reach starts at the root belief rather than at one: 0 / 0 where that is zero."""

  def root_values(self, problem, state):
    own = jnp.stack([problem.pairs.nature[player][0][0] for player in (0, 1)])
    total, weight = state.values.total * own, state.values.weight[:, None] * problem.root_mass * own
    return jnp.where(weight > 0, total / jnp.where(weight > 0, weight, 1.0), 0.0)


class UpdatesFromStaleReach(solvers.CFR):
  """Player 1 responds to the policy that player 0 had before its update of the same pair."""

  def update(self, problem, state, values, player):
    new, sweep = super().update(problem, state, values, player)
    return new if player else new._replace(reach=state.reach), sweep


def broken(kind):
  """Returns Linear CFR with the mistake of `kind`."""
  right = solvers.linear_cfr()
  return kind(**{field.name: getattr(right, field.name) for field in dataclasses.fields(right)})


# Which of (current policy, average policy, root values) each mistake shows in.
MISTAKES = {
  "root values weighted by root belief": (broken(WeighsRootValuesByBelief), 2),
  "quadratic average": (solvers.linear_cfr(averaging=2.0), 1),
  "stale opponent": (broken(UpdatesFromStaleReach), 0),
  "regrets not discounted": (solvers.vanilla_cfr(averaging=1.0), 0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_control_a_mistake_is_seen(mistake, x64):
  algorithm, shows_in = MISTAKES[mistake]
  game, root, tree, beliefs = build("kuhn", jitter=True)
  edges = brute_force.tree_edges(tree, root)
  steps = list(brute_force.Referee(game, root, beliefs).cfr(NUM_UPDATES, linear=True))
  assert errors(steps, solvers.linear_cfr(), tree, edges, beliefs).max() < TOLERANCE
  assert errors(steps, algorithm, tree, edges, beliefs)[shows_in] > 1e-3
