"""Values of terminal nodes, by every way of computing them, against one product a node."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
from games import TreeStructure
from solvers.sweeps import levels, make_problem, pairs

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
