"""Values of terminal nodes, by every way of computing them, against one product a node."""

import jax
import numpy as np
import pytest

import games
from solvers.sweeps import dense_pairs
from solvers.sweeps.problem import make_problem

TREES = {
  "liars_dice": games.build_public_tree(games.make("liars_dice", num_dice=1, num_faces=3)),
  "leduc_poker": games.build_public_tree(games.make("leduc_poker"), root=(1, 1)),
}
# (entries of a level multiplied node by node, infostates that are spelled out, size of a loop, runs
# that are cut out one by one)
ROUTES = {
  "node by node": (10**9, 16, 8192, 256),
  "node by node, many infostates": (10**9, 0, 8192, 256),
  "run by run": (0, 16, 8192, 256),
  "run by run, in pieces": (0, 16, 72, 256),
  "table by table": (0, 0, 8192, 256),
  "table by table, rows in order": (0, 0, 8192, 0),
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
  nature = jax.jit(make_problem)(tree, beliefs).pairs.nature[1 - player]
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
  small, few, loop, runs = ROUTES[route]
  monkeypatch.setattr(dense_pairs, "_SMALL_LEVEL", small)
  monkeypatch.setattr(dense_pairs, "_FEW_INFOSTATES", few)
  monkeypatch.setattr(dense_pairs, "_LOOP_SIZE", loop)
  monkeypatch.setattr(dense_pairs, "_MANY_RUNS", runs)
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
