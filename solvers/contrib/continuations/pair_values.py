"""Expected payoffs of every pair of infostates under fixed policies, at every node."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.metrics.policies import check_whole
from solvers.sweeps.levels import reduce_children, split_levels
from solvers.sweeps.problem import make_problem


def pair_values(
  tree: PublicTree, policy: Array, *, nodes: Sequence[int] | np.ndarray | None = None
) -> jax.Array:
  """Computes what player 0 expects from each pair of infostates under both players' `policy`.

  Args:
    tree: one tree without leaves, its infostates in tables.
    policy: `[N, H]`, as `solve` returns it.
    nodes: which nodes are asked for; static. None for all. Others are dropped on the way.

  Returns:
    `[n, H, H]` (player 0's infostate, player 1's) expected payoff to player 0 times the weight of
    the pair at that node, as `PublicTree.payoffs` has it; it depends on no beliefs.

  Raises:
    ValueError: the tree is depth-limited or stacked, its infostates are hands of cards, a node is
      not there, or `policy` has the wrong shape or is concrete and not a policy.
  """
  check_pairs(tree)
  check_whole(tree, policy, None)
  everywhere = np.arange(tree.num_nodes)
  found = validation.check_places("nodes", everywhere if nodes is None else nodes, len(everywhere))
  wanted = tuple(found.tolist())
  return _pair_values(tree, jnp.asarray(policy, tree.dtype), wanted)


def check_pairs(tree: PublicTree) -> None:
  """Checks that infostates are few enough for tables of their pairs."""
  validation.check_unstacked(tree)
  if tree.hands is not None:
    raise ValueError(
      f"tree has {tree.num_infostates} hands of cards as infostates, too many for tables of pairs"
    )


@functools.partial(jax.jit, static_argnames="nodes")
def _pair_values(tree: PublicTree, policy: jax.Array, nodes: tuple[int, ...]) -> jax.Array:
  problem = make_problem(tree, tree.prior)
  levels, offsets = tree.structure.levels, tree.structure.offsets
  policies = problem.split(policy)
  ones = [jnp.ones_like(x) for x in policies]
  taken = [problem.where_moved(ones, lambda i, _: policies[i], [p]) for p in (0, 1)]
  chance = None
  if tree.chance_probability is not None:
    chance = split_levels(tree, tree.chance_probability)
  level_of = np.searchsorted(offsets, nodes, side="right") - 1
  found: list[jax.Array] = []
  inner = None
  for i in reversed(range(len(levels))):
    values = _level_values(tree, i, inner)
    found.append(values[np.asarray(nodes, int)[level_of == i] - offsets[i]])
    if i == 0:
      break
    rows = [_from_infostates(tree, i, p, taken[p][i]) for p in (0, 1)]
    if chance is not None:
      values = values * chance[i][:, None, None]
    values = jnp.einsum(
      "nia,nij,njb->nab", rows[0], values, rows[1], precision=lax.Precision.HIGHEST
    )
    inner = reduce_children(levels[i], values, levels[i - 1].num_inner)
  together = jnp.concatenate(found[::-1])  # by level, within it as asked for
  return together[np.argsort(np.argsort(level_of, kind="stable"), kind="stable")]


def _level_values(tree: PublicTree, index: int, inner: jax.Array | None) -> jax.Array:
  """Returns the values of a level, terminal nodes after inner ones: `[n, H, H]`."""
  level, start = tree.structure.levels[index], tree.structure.terminal_offsets[index]
  rows = slice(start, start + level.num_terminals)
  ends = jnp.asarray(tree.payoffs)[tree.payoff_index[rows]]
  ends = ends * jnp.asarray(tree.payoff_scale)[rows, None, None]
  return ends if inner is None else jnp.concatenate([inner, ends])


def _from_infostates(tree: PublicTree, index: int, player: int, weights: jax.Array) -> jax.Array:
  """Returns how much of a row's infostate counts for each of its parent's: `[n, H, H above]`."""
  start, stop = tree.structure.offsets[index : index + 2]
  if tree.possible is not None:
    weights = jnp.where(tree.possible[start:stop, player], weights, 0.0)
  h = tree.num_infostates
  if tree.infostate_parent is None:
    return weights[:, :, None] * jnp.eye(h, dtype=weights.dtype)[None]
  parents = tree.infostate_parent[start:stop, player]
  return jnp.where(parents[:, :, None] == jnp.arange(h)[None, None], weights[:, :, None], 0.0)
