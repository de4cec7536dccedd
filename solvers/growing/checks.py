"""Checks of what growing searches are given."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.node_info import NodeInfo, children_of
from games.public_tree import PublicTree
from solvers import validation


def check_nodes(tree: PublicTree, nodes: Any) -> None:
  """Checks that `nodes` is what `node_info` returns for `tree`."""
  if not isinstance(nodes, NodeInfo) or not isinstance(nodes.pair_index, np.ndarray | jax.Array):
    raise TypeError(f"nodes={type(nodes).__name__} must be what solvers.node_info returned")
  if len(nodes.pair_index) != tree.num_nodes:
    raise ValueError(f"nodes are those of {len(nodes.pair_index)}, but tree has {tree.num_nodes}")
  if validation.is_concrete(tree, nodes):
    number = nodes.child.shape[1]
    if tree.action.max() >= number or (children_of(tree, number) != nodes.child).any():
      raise ValueError("nodes are those of another tree; solvers.node_info(game, tree) makes them")


def check_key(key: Any) -> None:
  """Checks that `key` is one random key."""
  typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
  if not typed or key.ndim:
    raise TypeError(f"key={type(key).__name__} must be one key, such as jax.random.key(0)")


def check_function(name: str, function: Any) -> None:
  """Checks that leaves are valued by a function, or by none."""
  if function is not None and not callable(function):
    raise TypeError(
      f"{name}={validation.short(function)} must be a function of (params, query), or None"
    )


def check_node(name: str, tree: PublicTree, node: Any) -> jax.Array:
  """Returns one node, which may be traced."""
  if isinstance(node, jax.core.Tracer):
    return node
  if np.ndim(node) == 0 and isinstance(node, int | np.integer | np.ndarray | jax.Array):
    number = validation.check_integer(name, node if isinstance(node, int) else node.item(), least=0)
    if number < tree.num_nodes:
      return jnp.asarray(number)
  raise ValueError(
    f"{name}={validation.short(node)} must be a node of the tree, 0 to {tree.num_nodes - 1}"
  )


def check_seeds(seeds: Any) -> tuple[int, ...]:
  """Returns seeds as integers, one at least."""
  if not isinstance(seeds, Sequence) or isinstance(seeds, str) or not len(seeds):
    raise TypeError(f"seeds={validation.short(seeds)} must be a list of integers, one at least")
  return tuple(validation.check_integer("seeds", seed, least=0) for seed in seeds)
