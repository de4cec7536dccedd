"""Sums over infostates that come from the same one: two ways to add, and where they are needed."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.public_tree import TreeStructure
from solvers.sweeps import levels
from tests import harness


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
@pytest.mark.parametrize("rounds", harness.slow([2, 3], 3))  # 12 and 36 infostates
def test_nodes_where_infostates_change_are_all_that_need_it(rounds, maximum, x64):
  tree = games.build_public_tree(games.make("scotland_yard", rounds=rounds))
  noted = [level.changed for level in tree.structure.levels]
  assert all(detectives == (0, 0) for _, detectives in noted)
  assert sum(last - first for (first, last), _ in noted) < tree.num_nodes / 5
  whole = _with_changed(tree, lambda _: None)
  np.testing.assert_allclose(_swept(tree, maximum), _swept(whole, maximum), rtol=0, atol=1e-12)
  # A control: without one of the nodes the answer is another.
  less = _with_changed(tree, lambda x: ((x[0][0], max(x[0][0], x[0][1] - 1)), x[1]))
  assert not np.allclose(_swept(less, maximum), _swept(whole, maximum))


def test_stacks_note_the_changes_of_all_their_trees():
  game = games.make("scotland_yard", rounds=3)
  first = games.build_public_tree(game)
  nodes = np.flatnonzero(first.kind == 0)[1:4]
  trees = [games.build_public_tree(game, root=first.history(n)) for n in nodes]
  stacked = games.stack_trees(trees)
  moved = (stacked.infostate_parent != np.arange(game.num_infostates)) & stacked.possible
  moved = moved.any(axis=(0, 3))
  assert moved.any()
  for level, start in zip(stacked.structure.levels, stacked.structure.offsets):
    for player in (0, 1):
      rows = np.flatnonzero(moved[start : start + level.size, player])
      bounds = (rows[0], rows[-1] + 1) if len(rows) else (0, 0)
      assert level.changed[player] == bounds


def test_stacks_of_many_infostates_keep_one_payoff_table():
  """A table of `[H, H]` for each terminal node would be gigabytes."""
  game = games.make("scotland_yard", rounds=3)
  tree = games.build_public_tree(game)
  nodes = np.flatnonzero(tree.kind == 0)[1:4]
  stacked = games.stack_trees([games.build_public_tree(game, root=tree.history(n)) for n in nodes])
  ends = [level.num_terminals for level in stacked.structure.levels]
  runs = [level.payoff_runs for level in stacked.structure.levels]
  assert runs == [((0, 0, number),) if number else None for number in ends]
  few = games.make("scotland_yard", rounds=2)  # 12 infostates
  tree = games.build_public_tree(few)
  nodes = np.flatnonzero(tree.kind == 0)[1:3]
  stacked = games.stack_trees([games.build_public_tree(few, root=tree.history(n)) for n in nodes])
  assert {level.payoff_runs for level in stacked.structure.levels if level.num_terminals} != set(
    runs
  )
