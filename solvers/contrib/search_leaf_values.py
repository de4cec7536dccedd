"""Exact leaf values for a searching agent: the oracle of `exact_leaf_values`, row by row."""
# Each row comes with nothing but features and beliefs: the features say which public state it is.

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import Game, PublicTree
from games.public_tree import Array
from solvers.algorithms.cfr import Algorithm
from solvers.exact_leaf_values import SolveBelow, exact_leaf_values
from solvers.leaf_values import LeafQuery
from solvers.search.subgames import FoundSubgames, stack_subgames


class SearchLeafParams(NamedTuple):
  """The `params` of `SolveRows`: a game's subgames below every public state."""

  trees: PublicTree  # `U` stacked trees, the game below each public state that search can meet
  features: Array  # `[K, F]` how these public states look from either seat
  which: Array  # `[K]` the tree that each of them starts


@dataclasses.dataclass(frozen=True)
class SolveRows:
  """The leaf function; equal settings are equal, so it is traced once."""

  algorithm: Algorithm
  num_iterations: int

  def encode(self, params: SearchLeafParams, features: jax.Array) -> jax.Array:
    """Returns the place `[rows]` among `params.trees` of public states seen as `[rows, F]`."""
    known = jnp.asarray(params.features, features.dtype)
    same = (features[:, None] == known).all(axis=-1)
    return jnp.asarray(params.which)[same.argmax(axis=1)]

  def __call__(self, params: SearchLeafParams, query: LeafQuery) -> jax.Array:
    """Returns the traverser's expected values, `[rows, H]`."""
    which: Any = query.encoded
    if which is None:
      which = self.encode(params, query.features)
    below = SolveBelow(self.algorithm, self.num_iterations, stacked=True)
    return below((params.trees, which), query)


def search_leaf_values(
  game: Game,
  subgames: FoundSubgames,
  *,
  algorithm: Algorithm | None = None,
  num_iterations: int = 256,
) -> tuple[SolveRows, SearchLeafParams]:
  """Makes the oracle for `make_searching_agent` and all else that searches tables of subgames."""
  oracle = exact_leaf_values(game, algorithm=algorithm, num_iterations=num_iterations)
  table = stack_subgames(subgames)
  if not table.trees.depth_limited:
    raise ValueError(f"subgames of {game!r} have no leaves, so there is nothing to value")
  below, trees, rows = oracle.bind_stacked(table.trees)
  live = np.asarray(table.successor) >= 0
  seen = np.asarray(table.trees.leaf_features).swapaxes(0, 1)[:, live]  # [P, M, F]
  which = np.tile(rows[live], 2)
  features, first, inverse = np.unique(
    seen.reshape(-1, seen.shape[-1]), axis=0, return_index=True, return_inverse=True
  )
  if (which[first][inverse.reshape(-1)] != which).any():
    raise ValueError(
      f"{game!r} has public states of equal features; an oracle that is asked by features needs "
      "them to differ"
    )
  params = SearchLeafParams(trees, features, which[first].astype(np.int32))
  return SolveRows(below.algorithm, below.num_iterations), params
