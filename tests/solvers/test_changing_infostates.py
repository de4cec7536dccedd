"""Sums over infostates that come from the same one: two ways to add, and where they are needed."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import games
from games.public_tree import TreeStructure
from solvers.sweeps import levels


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
