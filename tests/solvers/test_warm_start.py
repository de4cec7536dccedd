"""Warm starting (ReBeL, appendix J) against a computation over histories, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.algorithms.wrappers import WarmStarted
from tests import brute_force, harness
from tests.solvers.test_cfr import matrix_values, scene

ITERATIONS = 15
NUM_UPDATES = 6
TOLERANCE = 1e-9
ALGORITHMS = {"vanilla": solvers.vanilla_cfr(), "linear": solvers.linear_cfr()}


def regrets_of(referee, policy, player):
  """Returns each infoset's instantaneous regrets under `policy`."""
  regrets = {i: dict.fromkeys(m, 0.0) for i, m in referee.infosets.items() if i[0] == player}
  referee.root_values(policy, player, regrets)
  return regrets


def regrets_against_best_response(referee, policy, player):
  """Returns what each move is worth if `player` responds best afterwards, less `policy`'s mix."""
  response = dict(policy)
  for _ in range(20):  # policy iteration, from the bottom up
    gains = regrets_of(referee, response, player)
    best = {i: max(moves, key=moves.get) for i, moves in gains.items()}
    chosen = {i: {m: float(m == best[i]) for m in moves} for i, moves in gains.items()}
    if all(response[i] == moves for i, moves in chosen.items()):
      break
    response.update(chosen)
  else:
    raise AssertionError("the best response did not settle")
  regrets = {}
  for infoset, moves in gains.items():
    mix = sum(policy[infoset][m] * worth for m, worth in moves.items())
    regrets[infoset] = {m: worth - mix for m, worth in moves.items()}
  return regrets


def matched(sums):
  norm = sum(max(r, 0.0) for r in sums.values())
  return {m: max(r, 0.0) / norm if norm > 0 else 1 / len(sums) for m, r in sums.items()}


def expected_steps(referee, start, power):
  """Yields the policy and the average after the warm start and after each pair of updates."""
  weight = sum(k**power for k in range(1, ITERATIONS + 1))
  regrets = {}
  for player in (0, 1):
    regrets |= {
      i: {m: weight * r for m, r in moves.items()}
      for i, moves in regrets_against_best_response(referee, start, player).items()
    }
  policy = {i: matched(sums) for i, sums in regrets.items()}
  total = {i: dict.fromkeys(moves, 0.0) for i, moves in start.items()}

  def count(played, player, weight):
    reach = referee.own_reach(played, player)
    for i, moves in total.items():
      for m in moves if i[0] == player else ():
        moves[m] += weight * reach[i] * played[i][m]

  for player in (0, 1):
    count(start, player, weight)
    count(policy, player, (ITERATIONS + 1) ** power)
  for k in range(ITERATIONS + 1, ITERATIONS + 2 + NUM_UPDATES // 2):
    average = {i: {m: x / sum(mv.values()) for m, x in mv.items()} for i, mv in total.items()}
    yield policy, average
    for player in (0, 1):
      new = regrets_of(referee, policy, player)
      for i, moves in new.items():
        for m, r in moves.items():
          regrets[i][m] += k**power * r
      policy = {**policy, **{i: matched(regrets[i]) for i in new}}
      count(policy, player, (k + 1) ** power)


def whole_scene(case):
  """Returns a whole game's tree, edges, no params, random beliefs and the referee."""
  game, root = harness.make_case(case)
  harness.jitter_payoffs(game)
  tree = games.build_public_tree(game, root=root)
  beliefs = harness.random_beliefs(np.random.default_rng(3), harness.root_possible(tree))
  referee = brute_force.Referee(game, root, beliefs)
  return tree, brute_force.tree_edges(tree, root), None, beliefs, referee


SCENES = {
  "kuhn": lambda: whole_scene("kuhn"),
  "liars_dice_1x3f": lambda: whole_scene("liars_dice_1x3f"),
  "hidden moves and chance": lambda: whole_scene("random_5"),
  "cut off": lambda: scene("liars_dice_1x3f"),
}


def errors(name, algorithm, power):
  """Returns the largest errors of current and of average policies over all steps."""
  tree, edges, params, beliefs, referee = SCENES[name]()
  start = referee.random(np.random.default_rng(5))
  array = brute_force.to_array(tree, start)
  how = {"algorithm": algorithm, "leaf_values": matrix_values, "pairs": 1 + NUM_UPDATES // 2}
  found = harness.iterates(tree, beliefs, params, array, **how)
  steps = expected_steps(referee, start, power)
  return np.max(
    [
      [brute_force.worst_difference(edges, a, p) for a, p in zip(arrays, policies)]
      for arrays, policies in zip(zip(*found), steps, strict=True)
    ],
    axis=0,
  )


@pytest.mark.parametrize(
  ("case", "name"), [("kuhn", "vanilla"), *((case, "linear") for case in SCENES)]
)
def test_regrets_average_and_what_follows(case, name, x64):
  algorithm = solvers.warm_started(ALGORITHMS[name], num_iterations=ITERATIONS)
  assert errors(case, algorithm, power=name == "linear").max() < TOLERANCE


class SeedsRegretsOnly(solvers.CFR):
  """The average holds the policy once, not as if it had been played all the while."""

  def count(self, problem, state, reach, player, decay):
    return super().count(problem, state, reach, player, jnp.minimum(decay, 1.0))


class StartsAtOne(WarmStarted):
  """Goes on as if no iterations had passed."""

  def prime(self, problem, state, values, player):
    state = super().prime(problem, state, values, player)
    return state._replace(updates=jax.tree.map(jnp.zeros_like, state.updates))


def test_control_a_mistake_is_seen(x64):
  right = solvers.linear_cfr()
  once = SeedsRegretsOnly(right.rule, right.averaging)
  assert errors("kuhn", solvers.warm_started(once), 1)[1] > 1e-3
  assert errors("kuhn", StartsAtOne(right), 1)[1] > 1e-3
  fewer = solvers.warm_started(solvers.linear_cfr(), num_iterations=ITERATIONS - 5)
  assert errors("kuhn", fewer, 1).min() > 1e-3
