"""Public trees: their size and layout, depth limits, stacks, and what the check must see."""

import dataclasses

import numpy as np
import pytest

import games
from games.testing import check_public_tree, enumerate_histories
from games.testing.rules import unstack
from tests import harness


@pytest.mark.parametrize(
  ("num_dice", "num_faces", "num_nodes"),
  [(1, 4, 511), (1, 5, 2_047), (1, 6, 8_191), (2, 3, 8_191)],
)
def test_liars_dice_has_one_node_for_every_sequence_of_bids(num_dice, num_faces, num_nodes):
  game = games.make("liars_dice", num_dice=num_dice, num_faces=num_faces)
  tree = games.build_public_tree(game)
  num_bids = 2 * num_dice * num_faces
  assert tree.num_nodes == num_nodes == 2**num_bids + 2**num_bids - 1  # called or not
  assert tree.num_infostates == num_faces**num_dice


# Controls: one array changed in one place must fail the comparison with the histories.


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


def shift(runs):
  return tuple((start + 1, stop + 1) for start, stop in runs)


def other_table(runs):
  (table, start, stop), *rest = runs
  return ((1 - table, start, stop), *rest)


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
  "runs": change_level(2, runs=shift),
  "payoff_runs": change_level(2, payoff_runs=other_table),
  "parent_actor": change_level(2, parent_actor=lambda actor: 1 - actor),
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
  histories = enumerate_histories(game)
  tree = games.build_public_tree(game)
  check_public_tree(game, tree, histories)
  with pytest.raises(AssertionError):
    check_public_tree(game, CHANGES[name](tree), histories)


@pytest.mark.parametrize("name", ["leaf_features", "leaf_actor", "leaf_nodes", "kind"])
def test_control_changed_leaves_are_refused(name):
  game = games.make("kuhn_poker")
  histories = enumerate_histories(game)
  tree = games.build_public_tree(game, depth=1)
  check_public_tree(game, tree, histories, depth=1)
  places = {"leaf_features": (0, 0, 0), "kind": -1}
  changed = change(name, places.get(name, 0), lambda x: x + 1 if name != "kind" else x - 1)(tree)
  with pytest.raises(AssertionError):
    check_public_tree(game, changed, histories, depth=1)
  with pytest.raises(AssertionError):  # the depth is part of what is checked
    check_public_tree(game, tree, histories, depth=2)


def test_control_a_tree_of_another_root_is_refused():
  game = games.make("liars_dice", num_dice=1, num_faces=3)
  histories = enumerate_histories(game)
  stacked = games.stack_trees(
    [games.build_public_tree(game, root=root, depth=1) for root in ((0,), (1,))]
  )
  check_public_tree(game, unstack(stacked, 1), histories, root=(1,), depth=1)
  with pytest.raises(AssertionError):
    check_public_tree(game, unstack(stacked, 0), histories, root=(1,), depth=1)
