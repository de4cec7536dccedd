"""Pairs of infostates against tables, and values of terminal nodes against one product a node."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games import TreeStructure
from games.pairs import DensePairs, HoleCards
from solvers.sweeps import levels, make_problem, pairs
from tests.harness import random_beliefs
from tests.sentences import sentence_of

TREES = {
  "liars_dice": games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3)),
  "leduc_poker": games.build_public_tree(games.make("leduc_poker"), root=(1, 1)),
}
# (entries of a level multiplied node by node, infostates that are spelled out, size of a loop)
ROUTES = {
  "node by node": (10**9, 16, 8192),
  "node by node, many infostates": (10**9, 0, 8192),
  "run by run": (0, 16, 8192),
  "run by run, in pieces": (0, 16, 72),
  "table by table": (0, 0, 8192),
}


def ours(tree, reach, beliefs, player):
  @jax.jit  # a program of its own each time: the settings of a route are read while tracing
  def run(tree, reach, beliefs):
    problem = make_problem(tree, beliefs)
    tree, reach = problem.tree, problem.split(reach)
    return problem.pairs.terminal_values(tree, reach, player)

  return np.concatenate([v for v in run(tree, reach[1 - player], beliefs) if v is not None])


def expected(tree, reach, beliefs, player):
  """One product for each terminal node, nothing shared."""
  sizes = [(level.size, tree.num_infostates) for level in tree.structure.levels]
  nature = jax.jit(make_problem)(tree, beliefs).nature[1 - player]
  nature = np.concatenate([np.broadcast_to(x, size) for x, size in zip(nature, sizes)])
  rows = []
  for k, node in enumerate(tree.terminal_nodes):
    table = tree.payoffs[tree.payoff_index[k]] * tree.payoff_scale[k]
    table = table if player == 0 else -table.T
    rows.append(table @ (reach[1 - player][node] * nature[node]))
  return np.stack(rows)


@pytest.mark.parametrize(("name", "player"), [("liars_dice", 0), ("leduc_poker", 1)])
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_gives_the_product_of_each_node(name, route, player, x64, monkeypatch):
  small, few, loop = ROUTES[route]
  monkeypatch.setattr(pairs, "_SMALL_LEVEL", small)
  monkeypatch.setattr(pairs, "_FEW_INFOSTATES", few)
  monkeypatch.setattr(pairs, "_LOOP_SIZE", loop)
  tree = jax.tree.map(
    lambda x: np.asarray(x, float) if np.asarray(x).dtype.kind == "f" else np.asarray(x),
    TREES[name],
  )
  rng = np.random.default_rng(0)
  reach = rng.uniform(size=(2, tree.num_nodes, tree.num_infostates))
  beliefs = rng.dirichlet(np.ones(tree.num_infostates), size=2)
  wanted = expected(tree, reach, beliefs, player)
  np.testing.assert_allclose(ours(tree, reach, beliefs, player), wanted, rtol=0, atol=1e-12)
  # The control: the other player's values, or another node's table, would be noticed.
  assert np.abs(ours(tree, reach, beliefs, 1 - player) - wanted).max() > 1e-3
  assert np.abs(wanted - np.roll(wanted, 1, axis=0)).max() > 1e-3


@pytest.mark.parametrize("maximum", [False, True])
def test_one_by_one_is_by_pairs(maximum, x64):
  rng = np.random.default_rng(0)
  parents = jnp.asarray(rng.integers(5, size=(4, 9)))
  rows = jnp.asarray(rng.normal(size=(4, 9)))
  one, other = (
    add(parents, rows, maximum=maximum)
    for add in (levels._lower_one_by_one, levels._lower_by_pairs)
  )
  np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
  assert np.isneginf(one[:, 5:]).all() if maximum else (one[:, 5:] == 0).all()


def _with_changed(tree, change):
  shape = [dataclasses.replace(x, changed=change(x.changed)) for x in tree.structure.levels]
  return dataclasses.replace(tree, structure=TreeStructure(tuple(shape)))


def _swept(tree, maximum):
  rng, found = np.random.default_rng(0), []
  for index, level in enumerate(tree.structure.levels):
    start = tree.structure.offsets[index]
    possible = tree.possible[start : start + level.size]
    rows = jnp.asarray(rng.normal(size=(level.size, tree.num_infostates)))
    for player in (0, 1):
      lifted = levels.lift(tree, index, player, rows)
      found.append(np.where(possible[:, player], lifted, 0.0))
      found.append(levels.lower(tree, index, player, rows, maximum=maximum))
  return np.concatenate(found)


@pytest.mark.parametrize("maximum", [False, True])
def test_nodes_where_infostates_change_are_all_that_need_it(maximum, x64):
  tree = games.build_public_tree(games.make("scotland_yard", rounds=2))
  noted = [level.changed for level in tree.structure.levels]
  assert all(detectives == (0, 0) for _, detectives in noted)
  assert sum(last - first for (first, last), _ in noted) < tree.num_nodes / 5
  whole = _with_changed(tree, lambda _: None)
  np.testing.assert_allclose(_swept(tree, maximum), _swept(whole, maximum), rtol=0, atol=1e-12)
  # A control: without one of the nodes the answer is another.
  less = _with_changed(tree, lambda x: ((x[0][0], max(x[0][0], x[0][1] - 1)), x[1]))
  assert not np.allclose(_swept(less, maximum), _swept(whole, maximum))


@pytest.fixture(scope="module")
def made():
  """Returns the pairs of a game of hole cards, and the same written out."""
  game = games.make("small_holdem", ranks="JQKA", suits="sh", stack=300)
  return game.pairs(), DensePairs(game.pair_weights(), game.payoffs())


def assert_alike(cards, tables):
  """Checks that every operation of two kinds of pairs gives the same."""
  rng = np.random.default_rng(0)
  h = len(cards.hands)
  weights = tables.weight_table(0)
  np.testing.assert_array_equal(cards.weight_table(0), weights)
  for index in range(len(tables.payoffs)):
    table = tables.payoff_table(index)
    np.testing.assert_array_equal(cards.payoff_table(index), table * weights)
    for pair in np.argwhere(weights)[::7].tolist():
      assert cards.payoff(index, tuple(pair)) == tables.payoff(index, tuple(pair))
  for number in (1, 2, h // 2):
    possible = np.zeros((2, h), bool)
    for row in possible:
      row[rng.choice(h, number, replace=False)] = True
    met = np.stack([weights @ possible[1], possible[0] @ weights]) > 0
    for each in (cards, tables):
      np.testing.assert_array_equal(each.matched(possible, 0), met)
  for _ in range(3):
    beliefs = random_beliefs(rng, np.ones((2, h)), h // 2)
    both = beliefs[0] @ weights @ beliefs[1]
    found = [x.joint_mass(beliefs, 0) for x in (cards, tables)]
    assert found == pytest.approx([both, both], abs=1e-12)


def test_hole_cards_are_their_tables(made):
  cards, tables = made
  assert isinstance(cards, HoleCards)
  assert_alike(cards, tables)
  same = np.zeros((2, len(cards.hands)))
  same[:, 3] = 1
  assert cards.joint_mass(same, 0) == 0  # both cannot hold it


def test_control_other_pairs_are_not_alike(made):
  cards, tables = made
  best = cards.strengths == cards.strengths.max()
  with pytest.raises(AssertionError):
    assert_alike(dataclasses.replace(cards, strengths=np.where(best, 0, cards.strengths)), tables)
  with pytest.raises(AssertionError):
    assert_alike(cards, dataclasses.replace(tables, weights=np.ones_like(tables.weights)))


@pytest.mark.parametrize("kind", [0, 1], ids=["cards", "tables"])
def test_deals_come_as_often_as_the_prior_says(made, kind):
  beliefs = random_beliefs(np.random.default_rng(5), np.ones((2, len(made[0].hands))), 14)
  joint = beliefs[0][:, None] * beliefs[1] * made[1].weight_table(0)
  joint /= joint.sum()
  number, rng = 4000, np.random.default_rng(1)
  drawn = collections.Counter(made[kind].deal(beliefs, 0, rng) for _ in range(number))
  found = np.zeros_like(joint)
  for pair, count in drawn.items():
    found[pair] = count / number
  assert found[joint == 0].sum() == 0
  error = 5 * np.sqrt(joint / number) + 5 / number
  assert (np.abs(found - joint) <= error).all()
  independent = np.outer(beliefs[0], beliefs[1])
  assert (np.abs(found - independent) > error).any()  # control: cards do block


def test_hands_in_another_order_are_refused(made):
  said = sentence_of(dataclasses.replace, made[0], hands=made[0].hands[::-1])
  assert "hands() must be pairs of cards, each once" in said
