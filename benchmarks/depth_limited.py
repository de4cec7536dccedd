"""Depth-limited solving with exact leaf values, scored by what it plays in the whole game.

A depth-limited solver sets a policy for the top of a game only. Each of its iterations also
implies one for the rest, that of the subgames solved at the leaves' beliefs; the average of these
whole policies over the iterations, weighted by own reach, is the policy that CFR-D and CFR-AVG
are proven for (ReBeL, appendix I). Solving the subgames once, at the final average's beliefs, is
unsafe and proves nothing.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import games
import solvers
from games import PublicTree
from solvers import FictitiousPlay, traversal
from solvers.algorithm import Algorithm
from solvers.exact_leaf_values import LeafGroup, SolveBelow
from solvers.solve import uniform_policy


class Point(NamedTuple):
  """A depth-limited solve after some iterations.

  Attributes:
    iterations: one player's update is one.
    exploitability: of the average whole policy.
  """

  iterations: int
  exploitability: float


def place_nodes(whole: PublicTree, top: PublicTree, groups: Sequence[LeafGroup]) -> np.ndarray:
  """Finds each node of the whole game, `[N]`, among the top's nodes and the subgames'.

  The subgames' nodes follow the top's, group by group and leaf by leaf.
  """
  child = {
    (int(p), int(a)): n
    for n, (p, a) in enumerate(zip(np.asarray(whole.parent), np.asarray(whole.action)))
  }
  source = np.full(whole.num_nodes, -1)

  def descend(parent, action, root: int, first: int) -> dict[int, int]:
    at = {0: root}
    for node in range(1, len(parent)):
      if parent[node] >= 0:  # else padding
        at[node] = child[at[int(parent[node])], int(action[node])]
        source[at[node]] = first + node
    return at

  at = descend(np.asarray(top.parent), np.asarray(top.action), 0, 0)
  source[0] = 0
  first = top.num_nodes
  for group in groups:
    for i, leaf in enumerate(group.leaves):
      row = () if group.which is None else (group.which[i],)
      root = at[int(top.leaf_nodes[leaf])]
      descend(np.asarray(group.trees.parent)[row], np.asarray(group.trees.action)[row], root, first)
      first += group.trees.num_nodes
  assert (source >= 0).all()
  return source


def measure(
  game: games.Game,
  *,
  depth: int,
  algorithm: Algorithm,
  checkpoints: Sequence[int],
  num_iterations_below: int = 256,
) -> Iterator[Point]:
  """Solves the top `depth` actions of `game` with exact leaf values.

  Args:
    game: the rules.
    depth: public actions, chance included, from the root to the leaves.
    algorithm: for the top.
    checkpoints: even numbers of iterations, rising; one player's update is one.
    num_iterations_below: of the solver that values the leaves, for each query.

  Yields:
    A point for each checkpoint.
  """
  whole = games.build_public_tree(game)
  top = games.build_public_tree(game, depth=depth)
  below, groups = solvers.exact_leaf_values(game, num_iterations=num_iterations_below).bind(top)
  source = jnp.asarray(place_nodes(whole, top, groups))
  carry = _start(whole, top, algorithm, below, groups, source)
  done = 0
  for checkpoint in checkpoints:
    number = jnp.asarray((checkpoint - done) // 2)
    carry = _advance(whole, top, algorithm, below, groups, source, carry, number)
    done = checkpoint
    average = _average(whole, carry[1])
    yield Point(checkpoint, float(solvers.exploitability(whole, average)))


def _top_policy(algorithm: Algorithm, top, setting, state) -> traversal.Levels:
  """Returns the policy of this iteration alone."""
  if not isinstance(algorithm, FictitiousPlay):
    return algorithm.current_policy(top, setting, state)
  weights = list(state.response[0])
  for i in range(1, len(weights)):
    moved = traversal.moves_at(top, setting, i, 1)
    weights[i] = traversal.choose(moved, state.response[1][i], weights[i])
  return traversal.normalise_policy(top, setting, tuple(weights))


def _count(whole, top, algorithm, below: SolveBelow, groups, source, state, sums, weight):
  """Adds this iteration's whole policy, weighted by own reach, to the players' `sums`."""
  setting = traversal.prepare(top, top.prior)
  query = algorithm.leaf_query(top, setting, state, 0)
  rows = [traversal.join_levels(_top_policy(algorithm, top, setting, state))]
  for policies in below.subgame_policies(groups, query.beliefs):
    rows.append(policies.reshape(-1, policies.shape[-1]))
  policy = traversal.split_levels(whole, jnp.concatenate(rows)[source])
  reach = traversal.both_reach(whole, traversal.prepare(whole, whole.prior), policy)
  return jax.tree.map(lambda x, y: x + weight * y, sums, reach)


@functools.partial(jax.jit, static_argnames=("algorithm", "below"))
def _start(whole, top, algorithm: Algorithm, below: SolveBelow, groups, source):
  setting = traversal.prepare(top, top.prior)
  state: Any = algorithm.init(top, setting, uniform_policy(top, setting))
  for player in algorithm.primed:
    values = below(groups, algorithm.leaf_query(top, setting, state, player))
    state = algorithm.prime(top, setting, state, values, player)
  zeros = tuple(jnp.zeros((level.size, whole.num_infostates)) for level in whole.structure.levels)
  zeros = (jnp.zeros((1, whole.num_infostates)), *zeros[1:])
  sums = _count(whole, top, algorithm, below, groups, source, state, (zeros, zeros), 1.0)
  return state, sums, jnp.ones(())


@functools.partial(jax.jit, static_argnames=("algorithm", "below"))
def _advance(whole, top, algorithm, below: SolveBelow, groups, source, carry, number):
  setting = traversal.prepare(top, top.prior)

  def step(_, carry):
    state, sums, count = carry
    for player in (0, 1):
      values = below(groups, algorithm.leaf_query(top, setting, state, player))
      state = algorithm.update(top, setting, state, values, player)
    weight = (count + 1.0) ** algorithm.averaging
    sums = _count(whole, top, algorithm, below, groups, source, state, sums, weight)
    return state, sums, count + 1.0

  return lax.fori_loop(0, number, step, carry)


@jax.jit
def _average(whole, sums) -> jax.Array:
  setting = traversal.prepare(whole, whole.prior)
  weights = list(sums[0])
  for i in range(1, len(weights)):
    moved = traversal.moves_at(whole, setting, i, 1)
    weights[i] = traversal.choose(moved, sums[1][i], weights[i])
  return traversal.join_levels(traversal.normalise_policy(whole, setting, tuple(weights)))
