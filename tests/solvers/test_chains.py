"""Chains of searches that make their trees: where they start, how games go on, whole policies."""

import numpy as np
import pytest

import games
import solvers
from solvers.metrics.histories import best_response_worth, exploitability_in, public_histories
from tests.hidden_moves import Solved
from tests.solvers.test_inserted import setting


def random_policy(histories, rng):
  weights = rng.random(histories.moves.shape) * (histories.moves >= 0)
  return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)


@pytest.mark.parametrize(
  "name", ["kuhn_poker", pytest.param("leduc_poker", marks=pytest.mark.slow)]
)
def test_best_responses_are_those_in_the_tree(name, x64):
  """Control: the same answers to another policy."""
  tree, _, table = setting(name)
  histories, rng = public_histories(table), np.random.default_rng(0)
  assert len(histories.kind) == tree.num_nodes
  found = []
  for _ in range(2):
    policy = random_policy(histories, rng)
    rows = np.ones((tree.num_nodes, tree.num_infostates))
    for node in np.flatnonzero(histories.kind < games.CHANCE):
      there = histories.child[node] >= 0
      held = (histories.moves[node] >= 0).any(axis=0)
      known = np.where(held, policy[node][there], 1.0 / there.sum())
      rows[histories.state[histories.child[node][there], 0]] = known
    found.append((exploitability_in(histories, policy), float(solvers.exploitability(tree, rows))))
  assert found[0][0] == pytest.approx(found[0][1], abs=1e-9)
  assert found[1][0] == pytest.approx(found[1][1], abs=1e-9)
  assert abs(found[0][0] - found[1][0]) > 1e-3


def test_best_responses_to_hidden_moves(x64):
  game = games.RockPaperScissors()
  histories = public_histories(game)
  assert len(histories.kind) == 5
  policy = np.zeros(histories.moves.shape)
  policy[0, :, 0] = [0.5, 0.25, 0.25]  # where player 0 moves, unseen
  policy[1, :, 0] = [1.0, 0.0, 0.0]
  worth = [best_response_worth(histories, policy, p) for p in (0, 1)]
  # Against rock, paper wins 1. Against the others, each answer wins what its column says.
  assert worth[0] == pytest.approx(game.matrix[:, 0].max())
  assert worth[1] == pytest.approx((-policy[0, :, 0] @ game.matrix).max())
  solved = Solved(game, game.prior(), 50)
  whole = np.zeros(histories.moves.shape)
  for node in range(int(solved.tree.count)):
    place = np.flatnonzero((histories.state == np.asarray(solved.tree.state)[node]).all(axis=1))
    whole[place[0]] = solved.policy[node]
  found = [best_response_worth(histories, whole, p) for p in (0, 1)]
  np.testing.assert_allclose(found, solved.best, atol=1e-9)
  assert abs(found[0] - worth[0]) > 1e-3
