"""One search of a subgame, as agents keep it, and the compiled call that makes several."""

import dataclasses
from typing import Any

import jax
import numpy as np

from games import PublicTree
from solvers.search.batch import node_beliefs, search_batch
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem
from solvers.xla.compiler_options import Programs


@dataclasses.dataclass(frozen=True)
class Search:
  """One search of a subgame.

  Attributes:
    tree: the subgame in its common shape, arrays of numpy.
    successor: `[L, ...]` the root that each leaf is.
    policy: `[n, H]` of a random iteration, both players'.
    beliefs: `[n, P, H]` at every node under that policy.
    leaf_beliefs: `[L, P, H]` from which searches go on: under that policy, or under the average
      until its iteration if the algorithm says so (CFR-AVG; ReBeL, appendix I).
    root_values: `[P, H]`.
  """

  tree: PublicTree
  successor: np.ndarray
  policy: np.ndarray
  beliefs: np.ndarray
  leaf_beliefs: np.ndarray
  root_values: np.ndarray


def search_and_describe(
  trees, features, beliefs, stop, active, num_iterations, params, algorithm, leaf_values, network,
  num_rows, average=False,
):  # fmt: skip
  """Searches `[B]` trees; returns policies, beliefs at nodes and at leaves, and root values.

  With `average` these are of the average policy instead of the sampled iteration's.
  """
  initial = None if network is None else network.start(trees, features, beliefs, params)
  result = search_batch(
    trees, beliefs, stop, num_iterations, algorithm=algorithm, leaf_values=leaf_values,
    params=params, num_rows=num_rows, active=active, initial_policy=initial,
  )  # fmt: skip

  policy = result.average_policy if average else result.policy
  found, at_nodes = jax.vmap(describe)(trees, beliefs, policy)
  below = result.leaf_beliefs
  if average:
    below = jax.vmap(lambda nodes, leaves: nodes[leaves])(at_nodes, trees.leaf_nodes)
  return found, at_nodes, below, result.root_values


def describe(tree: PublicTree, beliefs: Any, policy: Any) -> tuple[jax.Array, jax.Array]:
  """Returns a policy `[n, H]` and the beliefs that it leads to at every node, `[n, P, H]`."""
  return join_levels(policy), node_beliefs(make_problem(tree, beliefs), policy)


searches = Programs(
  search_and_describe,
  static_argnames=("algorithm", "leaf_values", "network", "num_rows", "average"),
)
