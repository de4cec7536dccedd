"""Hidden moves in trees by insertion: stations against paths, and against independent programs."""

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import games
import solvers
from games import ScotlandYard
from games.rules.scotland_yard_maps import GLASSES, GLASSES_HEXAGONS
from solvers import loop
from solvers.growing.insertion.problem import inserted_problem
from solvers.growing.insertion.tree import insert, plant
from solvers.sweeps import join_levels, make_problem
from tests import harness
from tests.brute_force import Referee
from tests.trees import possible_of

NEAR = dataclasses.replace(GLASSES, detectives=(2, 10))
CASES = {
  "near": (NEAR, 3),
  "glasses": (GLASSES, 3),
  "one": (dataclasses.replace(GLASSES, detectives=(2,)), 2),
  "hexagons": (GLASSES_HEXAGONS, 3),
}


@functools.partial(harness.fast_to_compile, static_argnames=("game", "capacity"))
def whole_tree(game, state, possible, capacity):
  """Returns the tree of all that can follow a public state."""
  tree = plant(game, state, possible, capacity, jnp.zeros(()).dtype)

  def expand(carry):
    node, tree = carry
    tree, _ = insert(tree, node, tree.legal[node], game.num_children)
    return node + 1, tree

  return lax.while_loop(lambda x: x[0] < x[1].count, expand, (jnp.asarray(0), tree))[1]


class Solved:
  """What simultaneous CFR+ finds in a whole tree, and what answers to it are worth."""

  def __init__(self, game, beliefs, updates, *, state=None, possible=None, capacity=200):
    state = game.initial_state() if state is None else state
    possible = game.prior() > 0 if possible is None else possible
    self.tree = whole_tree(game, jnp.asarray(state), jnp.asarray(possible), capacity)
    assert int(self.tree.lost) == 0
    found = _solve(game, self.tree, jnp.asarray(beliefs, float), 2 * updates)
    self.root_values, self.policy, self.best = (np.asarray(x) for x in found)


@functools.partial(harness.fast_to_compile, static_argnames="game")
def _solve(game, tree, beliefs, num_iterations):
  problem = inserted_problem(tree, beliefs)
  algorithm = solvers.cfr_plus(averaging=1, alternating=False)
  nothing = jnp.zeros((tree.capacity, game.num_infostates))
  end = loop.run(problem, algorithm, lambda query: nothing, num_iterations)
  average = algorithm.average_policy(problem, end.state)
  best = []
  for player in (0, 1):
    reach = problem.own_reach(average, 1 - player)
    sweep = problem.values_up(None, reach, nothing, player)
    best.append((beliefs[player] * sweep.root).sum())
  values = algorithm.root_values(problem, end.state)
  return values, tree.by_move(join_levels(average)), jnp.stack(best)


@pytest.fixture
def no_ties(monkeypatch):
  """Makes ends worth something between: where moves tie, rounding parts correct programs."""
  plain = ScotlandYard.payoff_scale

  def payoff_scale(self, states):
    xp = states.__array_namespace__()
    weights = xp.asarray(np.random.default_rng(0).normal(size=states.shape[1]))
    return plain(self, states) + 0.3 * xp.sin((states * weights).sum(axis=1))

  monkeypatch.setattr(ScotlandYard, "payoff_scale", payoff_scale)


def path_game(city, rounds, root=()):
  """Returns the game on paths and its tree."""
  game = games.make("scotland_yard", map_name=city, rounds=rounds)
  return game, games.build_public_tree(game, root=root)


@harness.fast_to_compile
def on_paths(tree, beliefs, updates):
  """Returns what CFR+ finds in a tree, `[P, H]`, and what answers to it are worth, `[P]`."""
  algorithm = solvers.cfr_plus(averaging=1, alternating=False)
  problem = make_problem(tree, beliefs)
  state = loop.run(problem, algorithm, None, 2 * updates).state
  average = join_levels(algorithm.average_policy(problem, state))
  best = solvers.best_response_values(tree, average, beliefs=beliefs)
  return algorithm.root_values(problem, state), best


def stations(game, moved):
  """Returns where Mr. X is with each path after so many moves, `[H]`."""
  names = [game.infostate_name(0, h) for h in range(game.num_infostates)]
  return np.array([int(name.split("-")[moved]) - 1 for name in names])


def on_referee(paths, solved, referee):
  """Returns a policy on stations as the referee's on paths."""
  tree, policy = solved.tree, {}
  child, leads_to, by_action = (np.asarray(x) for x in (tree.child, tree.leads_to, tree.by_action))
  for (player, history, held), moves in referee.infosets.items():
    n = functools.reduce(lambda n, action: child[n, action], history, 0)
    policy[player, history, held] = row = {}
    at = stations(paths, tree.state[n, 0])[held] if player == 0 else 0
    for action, after in moves:
      to = stations(paths, tree.state[child[n, action], 0])[after] if player == 0 else 0
      (m,) = np.flatnonzero((leads_to[n, :, at] == to) & (by_action[n, :, at] == action))
      row[action, after] = solved.policy[n, m, at]
  return policy


@pytest.mark.parametrize("case", harness.slow(CASES, "near", "glasses", "hexagons"))
def test_stations_are_as_good_as_paths(case, x64, no_ties):
  city, rounds = CASES[case]
  game = games.make("scotland_yard", map_name=city, rounds=rounds, remembers=False)
  paths, tree = path_game(city, rounds)
  referee = Referee(paths)
  for updates in (1, 30):
    values, best = on_paths(tree, tree.prior, updates)
    solved = Solved(game, game.prior(), updates, capacity=tree.num_nodes)
    assert int(solved.tree.count) == tree.num_nodes
    own = solved.root_values[0, city.mister_x - 1], solved.root_values[1, 0]
    np.testing.assert_allclose(own, values[:, 0], atol=1e-10)
    np.testing.assert_allclose(solved.best, best, atol=1e-10)
    policy = on_referee(paths, solved, referee)
    answers = [referee.best_response_value(policy, player) for player in (0, 1)]
    np.testing.assert_allclose(answers, solved.best, atol=1e-10)


@pytest.mark.slow
def test_beliefs_about_stations_weigh_what_meets_there(x64, no_ties):
  """Within a game, from random beliefs about paths; control: what paths weigh is forgotten."""
  paths, whole = path_game(NEAR, 3)
  root = whole.history(64)  # ten paths to seven stations, four of them to one
  game = games.make("scotland_yard", map_name=NEAR, rounds=3, remembers=False)
  _, tree = path_game(NEAR, 3, root)
  moved = int(tree.state[0, 0])
  ends = stations(paths, moved)
  there = possible_of(tree)[0]
  assert np.unique(ends[there[0]], return_counts=True)[1].max() == 4  # paths that meet
  beliefs = harness.random_beliefs(np.random.default_rng(1), there, num_zeros=0)
  merged = np.zeros((2, game.num_infostates))
  np.add.at(merged[0], ends, beliefs[0])
  merged[1, 0] = 1.0
  values, best = on_paths(tree, beliefs, 20)
  given = dict(
    state=np.asarray(tree.state[0], np.int32), possible=merged > 0, capacity=tree.num_nodes
  )
  solved = Solved(game, merged, 20, **given)
  np.testing.assert_allclose(solved.root_values[0, ends[there[0]]], values[0][there[0]], atol=1e-10)
  np.testing.assert_allclose(solved.best, best, atol=1e-10)
  even = merged > 0
  wrong = Solved(game, even / even.sum(axis=1, keepdims=True), 20, **given)
  assert np.abs(wrong.best - best).max() > 1e-4
