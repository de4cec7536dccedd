"""Continuations: policies among which players choose at the leaves of a depth-limited tree."""

import itertools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games import PublicTree
from games.public_tree import CHANCE, Array
from solvers import validation
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.named import cfr_plus
from solvers.contrib.continuations.extended import with_continuations
from solvers.contrib.continuations.pair_values import check_pairs, pair_values
from solvers.metrics.policies import best_response, check_whole
from solvers.resolving import Placer
from solvers.solve import solve
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem


@validation.checked
def biased_policy(
  tree: PublicTree, policy: Array, factors: Mapping[int, validation.Weight]
) -> jax.Array:
  """Multiplies the probability of each move by its action's factor, and renormalises.

  So Modicum and Pluribus make continuations of a blueprint, towards folding, calling and raising
  (thesis, section 5.2.2). Modicum's factor for folding is 10, Pluribus's 5.

  Args:
    tree: one tree.
    policy: `[N, H]`, as `solve` returns it.
    factors: what to multiply actions by, not negative; 1 for actions that it does not name.

  Returns:
    `[N, H]`, of both players. Where all weight has factor zero, moves are equally likely.

  Raises:
    ValueError: a factor is negative or not finite, or `policy` has the wrong shape or is concrete
      and not a policy.
  """
  validation.check_unstacked(tree)
  validation.check_policy("policy", tree, policy)
  of_node = np.ones(tree.num_nodes)
  for action, factor in factors.items():
    of_node[np.asarray(tree.action) == action] = factor
  return _renormalise(tree, jnp.asarray(policy, tree.dtype) * of_node[:, None].astype(tree.dtype))


@jax.jit
def _renormalise(tree: PublicTree, weights: jax.Array) -> jax.Array:
  problem = make_problem(tree, tree.prior)
  return join_levels(problem.normalise(problem.split(weights)))


def of_players(tree: PublicTree, first: Array, second: Array) -> np.ndarray:
  """Returns the policy `[N, H]` that moves as `first` for player 0 and `second` for player 1."""
  return np.where((_movers(tree) == 0)[:, None], np.asarray(first), np.asarray(second))


def _movers(tree: PublicTree) -> np.ndarray:
  """Returns the mover of each node's parent, `CHANCE` at the root: `[N]`."""
  parent = np.asarray(tree.parent)
  return np.where(parent >= 0, np.asarray(tree.kind)[np.maximum(parent, 0)], CHANCE)


@validation.checked
def leaf_tables(
  tree: PublicTree,
  nodes: Sequence[int] | np.ndarray,
  first: Sequence[Array],
  second: Sequence[Array],
) -> np.ndarray:
  """Computes the worth of every choice of continuations to every pair: `[L, k0, k1, H, H]`.

  Args:
    tree: one tree without leaves, its infostates in tables.
    nodes: the L nodes where play goes on by continuations.
    first, second: k0 and k1 policies `[N, H]` of which player 0 and 1 choose; own moves alone
      count.

  Raises:
    ValueError: as `pair_values`, a player has no policy, or one is of another shape.
  """
  check_pairs(tree)
  for name, policies in (("first", first), ("second", second)):
    shape = max(len(policies), 1), tree.num_nodes, tree.num_infostates
    validation.check_shape(name, policies, shape, "(k, N, H), k at least 1")
  nodes = validation.check_places("nodes", nodes, tree.num_nodes)
  found = [
    np.asarray(pair_values(tree, of_players(tree, x, y), nodes=nodes))
    for x, y in itertools.product(first, second)
  ]
  return np.stack(found, axis=1).reshape(len(nodes), len(first), len(second), *found[0].shape[1:])


@validation.checked
def grown_continuations(
  tree: PublicTree,
  top: PublicTree,
  policy: Array,
  *,
  chooser: validation.Player,
  count: validation.Positive,
  algorithm: Algorithm | None = None,
  num_iterations: int = 1024,
) -> list[np.ndarray]:
  """Grows one player's continuations by self-play (thesis, section 5.2.2, self-generative).

  Again and again the depth-limited tree is solved with the continuations so far, and the chooser's
  best response is added to the other's policy: that solution above the leaves, the blueprint below.

  Args:
    tree: one tree without leaves, its infostates in tables.
    top: the same, from the same root, cut off at some depth.
    policy: `[N, H]` the blueprint.
    chooser: whose continuations, 0 or 1.
    count: how many, at least one.
    algorithm: that solves the depth-limited trees; None for CFR+.
    num_iterations: of each solve, one player's update is one.

  Returns:
    `count` policies `[N, H]`, the blueprint first; only the chooser's moves mean anything.

  Raises:
    ValueError: as `pair_values` and `with_continuations`, `chooser` or `count` is not allowed, or
      `top` is of another game.
  """
  check_pairs(tree)
  check_whole(tree, policy, None)
  algorithm = cfr_plus() if algorithm is None else algorithm
  places = Placer(tree).places(top)
  leaves = places[np.asarray(top.leaf_nodes)]
  blueprint = np.asarray(policy)
  found, tables = [blueprint], []
  while True:
    pair = [[blueprint], [blueprint]]
    pair[chooser] = [found[-1]]
    tables.append(leaf_tables(tree, leaves, *pair))
    if len(found) == count:
      return found
    # Copies of the last change nothing, and trees of one shape are compiled once.
    choices = tables + [tables[-1]] * (count - len(tables))
    extended = with_continuations(top, np.concatenate(choices, axis=1 + chooser))
    solved = solve(extended.tree, algorithm=algorithm, num_iterations=num_iterations)
    answered = np.array(blueprint)
    answered[places] = extended.of_top(solved.average_policy)
    found.append(np.asarray(best_response(tree, answered, chooser).policy))
