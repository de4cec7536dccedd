"""Public trees: their size and layout, depth limits, stacks, and what the check must see."""

import dataclasses
import operator
import re
import time

import jax
import numpy as np
import pytest

import games
from games.testing import check_game, check_public_tree, check_rules, enumerate_histories
from tests import harness
from tests.games.test_games import SMALL
from tests.sentences import sentence_of


def change(name, where, to):
  def changed(tree):
    array = np.array(getattr(tree, name))
    array[where] = to(array[where])
    return dataclasses.replace(tree, **{name: array})

  return changed


def change_level(index, **changes):
  """Changes the static shape of a level; the values are functions of the old ones."""

  def changed(tree):
    levels = list(tree.structure.levels)
    new = {name: to(getattr(levels[index], name)) for name, to in changes.items()}
    levels[index] = dataclasses.replace(levels[index], **new)
    return dataclasses.replace(tree, structure=games.TreeStructure(tuple(levels)))

  return changed


CHANGES = {
  "parent": change("parent", 4, lambda x: x - 1),
  "action": change("action", 2, lambda x: x - 1),
  "kind": change("kind", 1, lambda x: 1 - x),
  "state": change("state", (5, 0), lambda x: x + 1),
  "prior": change("prior", (1, 0), lambda x: x / 2),
  "possible": change("possible", (0, 0, 0), np.logical_not),
  "chance_probability": change("chance_probability", -1, lambda x: x / 2),
  "infostate_parent": change("infostate_parent", (1, 0, 1), lambda x: 2 - x),
  "pair_weights": change("pair_weights", (0, 0, 0), lambda x: 1 - x),
  "payoffs": change("payoffs", (0, 0, 1), lambda x: x + 1),
  "payoff_scale": change("payoff_scale", 0, lambda x: -x),
  "payoff_index": change("payoff_index", 0, lambda x: 1 - x),
  "root_features": change("root_features", (0, 0), lambda x: x + 1),
  "terminal_nodes": change("terminal_nodes", 0, lambda x: x + 1),
  "runs": change_level(2, runs=lambda x: tuple((start + 1, stop + 1) for start, stop in x)),
  "payoff_runs": change_level(2, payoff_runs=lambda x: ((1 - x[0][0], *x[0][1:]), *x[1:])),
  "parent_actor": change_level(2, parent_actor=lambda actor: 1 - actor),
  "leaf_features": change("leaf_features", (0, 0, 0), lambda x: x + 1),
  "leaf_actor": change("leaf_actor", 0, lambda x: x + 1),
  "leaf_nodes": change("leaf_nodes", 0, lambda x: x + 1),
  "leaf's kind": change("kind", -1, lambda x: x - 1),
  "num_inner": change_level(2, num_inner=lambda n: n - 1, num_terminals=lambda n: n + 1),
}
NEEDS = {
  "possible": "leduc",
  "chance_probability": "leduc",
  "infostate_parent": "random_5",
}


@pytest.mark.parametrize("name", CHANGES)
def test_control_a_changed_tree_is_refused(name):
  game, _ = harness.make_case(NEEDS.get(name, "kuhn"))
  histories, depth = enumerate_histories(game), 1 if name.startswith("leaf") else None
  tree = games.build_public_tree(game, depth=depth)
  check_public_tree(game, tree, histories, depth=depth)
  with pytest.raises(AssertionError):
    check_public_tree(game, CHANGES[name](tree), histories, depth=depth)
  with pytest.raises(AssertionError):  # the depth is part of what is checked
    check_public_tree(game, tree, histories, depth=2)


class Endless(games.KuhnPoker):
  """Kuhn poker in which nobody may stop; `branches` moves lead on."""

  def __init__(self, branches):
    self.num_actions = branches

  def actor(self, states):
    return states[:, 0] * 0

  def legal_actions(self, states):
    return np.ones((len(states), self.num_actions), bool)

  def next_states(self, states, actions):
    return (states * 7 + actions[:, None]) % 10_007


MADE = (
  "kuhn", "leduc", "liars_dice_1x3f", "rock_paper_scissors", "small_holdem", "turn_endgame_holdem",
  "random_5",
)  # fmt: skip


def nodes_of(game, **options):
  """Returns how many nodes the count says that a tree has."""
  sentence = sentence_of(games.build_public_tree, game, max_bytes=1, **options)
  return int(re.search(r"tree of (\d+) nodes", sentence)[1])


@pytest.mark.parametrize("depth", [None, 1, 3, "stage"])
@pytest.mark.parametrize("name", MADE)
def test_the_count_is_that_of_the_tree(name, depth):
  game = SMALL[name]()
  assert nodes_of(game, depth=depth) == games.build_public_tree(game, depth=depth).num_nodes


def test_a_tree_that_is_too_large_is_told_at_once():
  for dice, faces in ((1, 4), (1, 5), (1, 6), (2, 3), (3, 6)):
    game = games.make("liars_dice", num_dice=dice, num_faces=faces)
    # As many as sets of bids, and a call after each but the first.
    assert nodes_of(game) == 2 ** (2 * dice * faces + 1) - 1
  start = time.monotonic()
  sentence = sentence_of(games.build_public_tree, game)
  assert "public tree of 137438953471 nodes" in sentence
  assert "4294967296 are allowed: take a smaller game, cut its tree off" in sentence
  assert time.monotonic() - start < 1
  assert games.build_public_tree(game, depth=2).num_nodes == 703


def test_a_game_without_end_is_refused():
  for branches, said in ((1, "has not ended after 10000 public actions"), (300, "more than")):
    assert said in sentence_of(games.build_public_tree, Endless(branches))
    assert games.build_public_tree(Endless(branches), depth=1).num_nodes == 1 + branches


def assert_same_trees(game, tabulated, **options):
  expected = games.build_public_tree(game, **options)
  tree = games.build_public_tree(tabulated, **options)
  np.testing.assert_array_equal(tabulated.states[tree.state[:, 0]], expected.state)
  tree = dataclasses.replace(tree, state=expected.state, origin=expected.origin)
  assert jax.tree.structure(tree) == jax.tree.structure(expected)
  jax.tree.map(np.testing.assert_array_equal, tree, expected)


@pytest.mark.parametrize("name", MADE)
def test_trees_are_those_of_the_game(name):
  game = SMALL[name]()
  tabulated = games.tabulate(game)
  assert_same_trees(game, tabulated)
  assert_same_trees(game, tabulated, depth="stage")
  whole = games.build_public_tree(game)
  root = whole.history(int(np.flatnonzero(whole.kind < games.TERMINAL)[1]))
  assert_same_trees(game, tabulated, root=root, depth=2)


@pytest.mark.parametrize(
  ("table", "place"), [("actor", 1), ("info.child", 1), ("payoff_index", -1), ("probability", 0)]
)
def test_control_a_wrong_table_shows(table, place):
  game = SMALL["leduc"]()
  tabulated = games.tabulate(game)
  values = operator.attrgetter(table)(tabulated.tables)
  values.flat[np.flatnonzero(values > 0)[place]] -= 1
  with pytest.raises(AssertionError):
    assert_same_trees(game, tabulated)


class OnlyNumpy(games.LeducPoker):
  """Rules that assign to rows that a mask chooses, which no tracer allows."""

  def next_states(self, states, actions):
    new = np.array(super().next_states(states, actions))
    new[actions == games.rules.leduc_poker.FOLD, 0] = 0
    return new


def test_rules_for_numpy_run_in_tables_only():
  with pytest.raises(AssertionError, match=r"next_states\(\) fails under jax.jit"):
    check_rules(OnlyNumpy())
  check_game(games.tabulate(OnlyNumpy()))


def test_too_many_public_states_are_refused():
  kuhn = games.make("kuhn_poker")
  assert len(games.tabulate(kuhn, max_states=9).states) == 9
  assert "more than 8 public states" in sentence_of(games.tabulate, kuhn, max_states=8)
