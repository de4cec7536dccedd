"""CFR-AVG (ReBeL, appendix I), both forms, update by update in float64."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import solvers
from solvers.algorithms.wrappers import CFRAvg
from tests import brute_force, harness
from tests.solvers.test_cfr import matrix_values, scene

# Where leaves are worth fixed payoff matrices, the difference of two averages is this iteration's
# value, and the modified form is CFR. The sound form is CFR over histories with moving payoffs.
NUM_UPDATES = 12
TOLERANCE = 1e-9
ALGORITHMS = {
  "uniform": solvers.vanilla_cfr,
  "linear": solvers.linear_cfr,
  "quadratic": solvers.cfr_plus,
}


@dataclasses.dataclass(frozen=True)
class Snapped:
  """A regret rule that takes rounding for zero."""

  rule: Any

  def init(self, zeros):
    return self.rule.init(zeros)

  def update(self, state, regret, k):
    snap = functools.partial(jax.tree.map, lambda x: jnp.where(jnp.abs(x) < 1e-13, 0.0, x))
    return snap(self.rule.update(state, regret, k))

  def match(self, state, siblings, k):
    return self.rule.match(state, siblings, k)


def difference(case, plain, other, leaf_values=matrix_values):
  """Returns the largest difference between two algorithms' policies over all updates."""
  tree, _, params, beliefs, _ = scene(case)
  found = []
  snapped = dataclasses.replace(plain, rule=Snapped(plain.rule))
  if other is not plain:
    other = dataclasses.replace(other, algorithm=snapped)
  for algorithm in (snapped, other):
    how = {"algorithm": algorithm, "leaf_values": leaf_values}
    found.append(harness.iterates(tree, beliefs, params, pairs=NUM_UPDATES // 2 + 1, **how))
  return max(float(np.abs(x - y).max()) for x, y in zip(*found))


@pytest.mark.parametrize(
  ("case", "name", "alternating"),
  [
    ("kuhn", "uniform", True),
    ("kuhn", "linear", False),
    ("random_5", "linear", True),
    ("liars_dice_1x3f", "quadratic", True),
    pytest.param("leduc", "linear", True, marks=pytest.mark.slow),
  ],
)
def test_modified_form_is_cfr_where_leaves_are_payoff_matrices(case, name, alternating, x64):
  plain = ALGORITHMS[name](alternating=alternating)
  assert difference(case, plain, solvers.cfr_avg(plain)) < TOLERANCE


def best_answer(params, query):
  """Leaves where the opponent answers the beliefs: convex, not linear, in its reach."""
  values = matrix_values(params, query)
  return values + jnp.abs(values)


class KeepsNoMemory(CFRAvg):
  """The values at the averages stand in for this iteration's."""

  def _weigh(self, problem, state, values, player):
    return super()._weigh(problem, state._replace(known=jnp.zeros(2, bool)), values, player)


class ForgetsTheDecay(CFRAvg):
  """The difference of two averages as under uniform weights."""

  def _weigh(self, problem, state, values, player):
    uniform = CFRAvg(dataclasses.replace(self.algorithm, averaging=0.0))
    return uniform._weigh(problem, state, values, player)


class IsNotPrimed(CFRAvg):
  """Player 1 does not know what player 0's first policy was worth."""

  primed = ()


def test_control_leaves_that_are_not_linear_differ(x64):
  plain = solvers.linear_cfr()
  assert difference("liars_dice_1x3f", plain, solvers.cfr_avg(plain), best_answer) > 1e-3


@pytest.mark.parametrize(
  ("kind", "name"),
  [(KeepsNoMemory, "uniform"), (ForgetsTheDecay, "linear"), (IsNotPrimed, "linear")],
)
def test_control_a_mistake_in_the_modified_form_is_seen(kind, name, x64):
  plain = ALGORITHMS[name]()
  assert difference("liars_dice_1x3f", plain, kind(plain)) > 1e-3


def moving_payoffs(payoffs, beliefs):
  """Returns payoff matrices `[L, H, H]` that depend on the beliefs `[L, 2, H]`: "subgames"."""
  slope = jnp.arange(1.0, payoffs.shape[-1] + 1)
  lean = (beliefs[:, 0] - 0.5 * beliefs[:, 1]) @ slope
  return payoffs * (1.0 + jnp.sin(3.0 * lean))[:, None, None]


def subgame_values(params, query):
  """Solves at `beliefs` and values at `value_beliefs`, as an oracle does."""
  payoffs, weights = params
  given = query.beliefs if query.value_beliefs is None else query.value_beliefs
  solved = moving_payoffs(payoffs, query.beliefs)
  return matrix_values((solved, weights), query._replace(beliefs=given))


def beliefs_at(referee, policy, history):
  """Returns both players' beliefs `[2, H]` after `history`, walking one path for each infostate."""
  rows = np.zeros((2, referee.h))
  for player in (0, 1):
    reach = {h: p for h, p in enumerate(referee.beliefs[player]) if p > 0}
    node = referee.root
    for action in history[len(node.history) :]:
      child, below = node.children[action], {}
      for h, probability in reach.items():
        for new in child.successors[player].get(h, ()):
          played = 1.0
          if node.actor == player:
            played = policy.get((player, node.history, h), {}).get((action, new), 0.0)
          below[new] = below.get(new, 0.0) + probability * played
      node, reach = child, below
    for h, probability in reach.items():
      rows[player, h] = probability
  return rows / rows.sum(axis=1, keepdims=True)


def sound_steps(case, linear):
  """Yields the policy and the average after each update of CFR-AVG over histories."""
  tree, _, (payoffs, _), _, referee = scene(case)
  histories = [referee.root.history + tree.history(int(leaf)) for leaf in tree.leaf_nodes]
  steps, average = referee.cfr(NUM_UPDATES, linear=linear), referee.uniform()
  for _ in range(NUM_UPDATES):
    beliefs = np.stack([beliefs_at(referee, average, history) for history in histories])
    for history, table in zip(histories, np.asarray(moving_payoffs(payoffs, beliefs)).tolist()):
      node = referee.root
      for action in history[len(referee.root.history) :]:
        node = node.children[action]
      node.payoffs = table
    step = next(steps)
    average = step.average
    yield step.policy, average


def sound_error(case, linear, algorithm):
  """Returns the largest difference to CFR-AVG over histories."""
  tree, edges, params, beliefs, _ = scene(case)
  how = {"algorithm": algorithm, "leaf_values": subgame_values}
  found = harness.iterates(tree, beliefs, params, pairs=NUM_UPDATES // 2 + 1, **how)
  found = [x[1:] for x in found]  # after no update
  pairs = list(sound_steps(case, linear))[1::2]
  return max(
    brute_force.worst_difference(edges, array, policy)
    for arrays, policies in zip(zip(*found), pairs, strict=True)
    for array, policy in zip(arrays, policies)
  )


@pytest.mark.parametrize("name", ["uniform", "linear"])
@pytest.mark.parametrize("case", ["kuhn", "liars_dice_1x3f"])
def test_sound_form_solves_at_the_averages_and_values_at_this_iteration(case, name, x64):
  algorithm = solvers.cfr_avg(ALGORITHMS[name](), sound=True)
  assert sound_error(case, name == "linear", algorithm) < TOLERANCE


def test_control_other_beliefs_are_seen(x64):
  plain = solvers.linear_cfr()
  for wrong in (plain, solvers.cfr_avg(plain)):
    assert sound_error("kuhn", True, wrong) > 1e-3
