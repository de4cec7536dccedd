"""Chains of searches that make their trees: where they start, how games go on, whole policies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from solvers.growing.continual.chain import Left, PublicState, longest_wait, next_start
from solvers.metrics.histories import best_response_worth, exploitability_in, public_histories
from tests.hidden_moves import Solved
from tests.solvers.test_inserted import setting
from tests.trees import possible_of


def below(tree, node):
  """Says which nodes are below one, itself counted: `[N]`."""
  found = np.arange(tree.num_nodes) == node
  for child in range(node + 1, tree.num_nodes):
    found[child] = found[tree.parent[child]]
  return found


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_searches_start_at_the_last_state_of_which_the_search_before_knew_promises(name, x64):
  tree, _, table = setting(name)
  start_of = jax.jit(lambda *x: next_start(table, *x))
  rng, places = np.random.default_rng(0), jnp.asarray(table.tables.info.child)
  decisions = np.flatnonzero(tree.kind < games.CHANCE)
  last = next(n for n in decisions if (below(tree, n) & (tree.kind == tree.kind[n])).sum() > 1)
  own = below(tree, last) & (tree.kind == tree.kind[last])
  current, searcher = int(np.flatnonzero(own)[-1]), int(tree.kind[last])
  since = np.full(longest_wait(table), -1, np.int32)
  taken = list(tree.history(current)[len(tree.history(last)) :])
  since[: len(taken)] = taken
  way = [last]
  for action in taken:
    way.append(int(table.tables.info.child[way[-1], action]))
  assert way[-1] == current
  for depth, root in enumerate(way):
    known = np.zeros((2, tree.num_nodes), bool)
    known[1 - searcher, way[: depth + 1]] = known[searcher] = True
    values = rng.normal(size=(2, tree.num_nodes, tree.num_infostates))
    reach = rng.random(values.shape) * np.swapaxes(possible_of(tree), 0, 1)
    here = PublicState(jnp.array([last], jnp.int32), jnp.asarray(possible_of(tree)[last]))
    left = Left(np.int32(last), here, None, values, reach, known)
    start = start_of(left, places, here, since, searcher)
    assert int(start.root.state[0]) == root
    assert [x for x in np.asarray(start.path) if x >= 0] == taken[depth:]
    np.testing.assert_array_equal(start.root.possible, possible_of(tree)[root])
    np.testing.assert_array_equal(start.promises.given, np.arange(2) == 1 - searcher)
    np.testing.assert_allclose(start.promises.values[1 - searcher], values[1 - searcher, root])
    ranges = reach[:, root] / reach[:, root].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(start.beliefs[searcher], ranges[searcher])
    np.testing.assert_allclose(start.promises.beliefs[1 - searcher], ranges[1 - searcher])
    even = possible_of(tree)[root, 1 - searcher] / possible_of(tree)[root, 1 - searcher].sum()
    np.testing.assert_allclose(start.beliefs[1 - searcher], even)


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
      rows[histories.state[histories.child[node][there], 0]] = 1.0 / there.sum()
      for move, infostate in np.argwhere(histories.moves[node] >= 0):
        after = histories.child[node, histories.moves[node, move, infostate]]
        rows[histories.state[after, 0], infostate] = policy[node, move, infostate]
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
