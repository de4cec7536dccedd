"""Batches laid out over two devices, in the ways of JAX: the same, and each device its own rows."""

import json

from tests.tiny import python

PROGRAM = """
import json

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import games
import solvers

game = games.make("kuhn_poker")
cut = games.build_public_tree(game, depth=2)
trees = games.stack_trees([cut] * 4)
options = {"algorithm": solvers.linear_cfr(), "num_iterations": 8}
settings = options | {"params": cut.leaf_features[0, 0]}
beliefs = np.random.default_rng(0).dirichlet(np.ones(3), size=(4, 2)).astype(np.float32)


def leaf_values(params, query):
  return (query.features @ params)[:, None] * query.beliefs[:, query.traverser]


def one(beliefs, tree=cut):
  return solvers.solve(tree, beliefs=beliefs, leaf_values=leaf_values, **settings).root_values


def batch(beliefs):
  return solvers.solve_batch(
    cut, beliefs=beliefs, leaf_values=leaf_values, **settings
  ).root_values


alone = np.stack([one(row) for row in beliefs])
for axis in (AxisType.Explicit, AxisType.Auto):
  mesh = jax.make_mesh((2,), ("rows",), (axis,))
  laid = jax.device_put(beliefs, NamedSharding(mesh, P("rows")))
  ways = {
    "solve_batch": batch,
    "jit_vmap": jax.jit(jax.vmap(one)),
    "jit_vmap_stack": lambda x: jax.jit(jax.vmap(one))(x, jax.device_put(trees, laid.sharding)),
    "jit_solve_batch": jax.jit(batch),
    "shard_map": jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=P("rows"), out_specs=P("rows")),
  }
  for name, way in ways.items():
    found = way(laid)
    parts = {shard.device: shard.data.shape for shard in found.addressable_shards}
    row = [axis.name, name, float(np.abs(found - alone).max()), sorted(parts.values())]
    print(json.dumps(row), flush=True)
whole = games.build_public_tree(game)
solved = solvers.solve_batch(whole, beliefs=jax.device_put(beliefs, laid.sharding), **options)
gaps = solvers.exploitability(whole, solved.average_policy, beliefs=beliefs)
print(json.dumps(["", "measure", float(not (gaps > 0).all()), [[2, 2, 3], [2, 2, 3]]]))
nodes, search = solvers.node_info(game, whole), solvers.GTCFR(simulations=3)


def network(params, query):
  logits = query.features[:, :1, None] * jax.numpy.ones((game.num_moves, 3))
  return solvers.StateAnswer(query.beliefs * params, logits)


def marked(key):
  found = solvers.gt_cfr(whole, nodes, search=search, key=key, network=network, params=1.5)
  return found.root_values


def inserted(key):
  settings = {"search": search, "network": network, "params": 1.5}
  return solvers.gt_cfr(game, key=key, path=(0,), **settings).root_values


mesh = jax.make_mesh((2,), ("rows",), (AxisType.Explicit,))
keys = jax.random.split(jax.random.key(0), 4)
laid = jax.device_put(keys, NamedSharding(mesh, P("rows")))
split = [
  jax.shard_map(jax.vmap(x), mesh=mesh, in_specs=P("rows"), out_specs=P("rows"))
  for x in (marked, inserted)
]
for name, way in {"marked": split[0], "inserted": jax.vmap(inserted), "planted": split[1]}.items():
  type_of = jax.jit(way).trace(laid).out_info  # compilation would take longer
  print(json.dumps(["", name, 0.0, [type_of.sharding.shard_shape(type_of.shape)] * 2]))
"""


def test_every_way_of_laying_out_a_batch_solves_it_where_it_is():
  rows = [json.loads(line) for line in python(PROGRAM, devices=2).splitlines()]
  assert len(rows) == 14
  for axis, name, error, parts in rows:
    assert error < 1e-5, (axis, name)
    assert parts == [[2, 2, 3], [2, 2, 3]], (axis, name)
