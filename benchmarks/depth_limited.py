"""Depth-limited solving with exact leaf values, scored by what it plays in the whole game.

A depth-limited solver sets a policy for the top of a game only. Each of its iterations also
implies one for the rest, that of the subgames solved at the leaves' beliefs; the average of these
whole policies over the iterations, weighted by own reach, is the policy that CFR-D and CFR-AVG
are proven for (ReBeL, appendix I). Solving the subgames once, at the final average's beliefs, is
unsafe and proves nothing.

The second score does not depend on what a solver implies below its leaves: each player keeps its
average policy in the top and plays the rest as well as that allows.
"""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import games
import solvers
from games import PublicTree
from solvers import CFR, FictitiousPlay, traversal
from solvers.algorithm import Algorithm
from solvers.exact_leaf_values import LeafGroup, SolveBelow
from solvers.leaf_values import LeafQuery
from solvers.solve import uniform_policy


class Point(NamedTuple):
  """A depth-limited solve after some iterations.

  Attributes:
    iterations: one player's update is one.
    exploitability: of the average whole policy.
    exploitability_of_top: of its part in the top, completed as well as possible by `complete`;
      None if that was not asked for.
  """

  iterations: int
  exploitability: float
  exploitability_of_top: float | None


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
  prior: np.ndarray | None = None,
  num_iterations_below: int = 256,
  num_iterations_to_complete: int | None = None,
) -> Iterator[Point]:
  """Solves the top `depth` actions of `game` with exact leaf values.

  Args:
    game: the rules.
    depth: public actions, chance included, from the root to the leaves.
    algorithm: for the top.
    checkpoints: even numbers of iterations, rising; one player's update is one.
    prior: `[P, H]` that is solved from; None for the game's. Scores are always from the game's.
    num_iterations_below: of the solver that values the leaves, for each query.
    num_iterations_to_complete: of the solver that completes the top's policy, None for no such
      score.

  Yields:
    A point for each checkpoint.
  """
  whole = games.build_public_tree(game)
  top = games.build_public_tree(game, depth=depth)
  below, groups = solvers.exact_leaf_values(game, num_iterations=num_iterations_below).bind(top)
  source = place_nodes(whole, top, groups)
  in_top = source < top.num_nodes
  setting = jax.jit(traversal.prepare)(top, top.prior if prior is None else prior)
  state = algorithm.init(top, setting, uniform_policy(top, setting))
  # Only small functions are compiled for each algorithm. The subgames' solver, which takes long
  # to compile, is the same for all.
  for player in algorithm.primed:
    query = _ask(algorithm, top, setting, state, player)
    policies = _solve_below(below, groups, query.beliefs)
    values = _value_below(below, groups, policies, _given(query), player)
    state = algorithm.prime(top, setting, state, values, player)
  sums = None
  for i in range(checkpoints[-1] + 1):
    player = i % 2
    query = _ask(algorithm, top, setting, state, player)
    policies = _solve_below(below, groups, query.beliefs)
    if player == 0:  # both players have been updated equally often: a policy to count
      rows = [_top_policy(algorithm, top, setting, state), *policies]
      weight = (i // 2 + 1.0) ** algorithm.averaging
      sums = _count(whole, rows, source, sums, weight)
      if i in checkpoints:
        average = _average(whole, sums)
        of_top = None
        if num_iterations_to_complete is not None:
          completed = complete(whole, average, in_top, num_iterations_to_complete)
          of_top = float(solvers.exploitability(whole, completed))
        yield Point(i, float(solvers.exploitability(whole, average)), of_top)
    values = _value_below(below, groups, policies, _given(query), player)
    state = _update(algorithm, top, setting, state, values, player)


@functools.partial(jax.jit, static_argnames="num_iterations")
def complete(
  whole: PublicTree, policy: jax.Array, kept: np.ndarray, num_iterations: int
) -> jax.Array:
  """Completes each player's part of `policy` `[N, H]` where `kept` `[N]` is False.

  For each player a game is solved in which it must keep to `policy` where `kept`, and its opponent
  may do anything. What the player does elsewhere in that solution guarantees it the most that its
  kept part still allows. So no completion of both parts is less exploitable, up to the accuracy
  of the solver.
  """
  whole = jax.tree.map(jnp.asarray, whole)
  setting = traversal.prepare(whole, whole.prior)
  given = traversal.split_levels(whole, policy)
  keep = tuple(x[:, None] for x in traversal.split_levels(whole, jnp.asarray(kept)))
  uniform = uniform_policy(whole, setting)
  fields = dataclasses.fields(CFR)
  solver = solvers.discounted_cfr()

  def solve_for(owner: int) -> traversal.Levels:
    class Bound(CFR):
      """CFR whose `owner` keeps to the given policy."""

      def match(self, tree, setting, state, sweep, player, k):
        regret, new = super().match(tree, setting, state, sweep, player, k)
        if player == owner:
          new = tuple(jnp.where(x, y, z) for x, y, z in zip(keep, given, new))
        return regret, new

    bound = Bound(**{field.name: getattr(solver, field.name) for field in fields})
    # Only the owner's kept rows matter, the opponent's are replaced by its first update.
    first = tuple(jnp.where(x, y, z) for x, y, z in zip(keep, given, uniform))
    state = bound.init(whole, setting, first)

    def both(_, state):
      for player in (1 - owner, owner):
        state = bound.update(whole, setting, state, None, player)
      return state

    state = lax.fori_loop(0, num_iterations // 2, both, state)
    return bound.average_policy(whole, setting, state)

  completed = [solve_for(0), solve_for(1)]
  rows = []
  for i, row in enumerate(completed[0]):
    rows.append(traversal.choose(traversal.moves_at(whole, setting, i, 1), completed[1][i], row))
  return traversal.join_levels(tuple(rows))


def _given(query: LeafQuery) -> jax.Array:
  return query.beliefs if query.value_beliefs is None else query.value_beliefs


@functools.partial(jax.jit, static_argnames=("algorithm", "player"))
def _ask(algorithm: Algorithm, top, setting, state, player: int) -> LeafQuery:
  # The seat changes features only, which exact values do not look at, and must not be traced.
  query = algorithm.leaf_query(top, setting, state, player)
  return query._replace(traverser=0)


@functools.partial(jax.jit, static_argnames="below")
def _solve_below(below: SolveBelow, groups, beliefs) -> list[jax.Array]:
  return below.subgame_policies(groups, beliefs)


@functools.partial(jax.jit, static_argnames=("below", "player"))
def _value_below(below: SolveBelow, groups, policies, beliefs, player: int) -> jax.Array:
  return below.values(groups, policies, beliefs, player)


@functools.partial(jax.jit, static_argnames=("algorithm", "player"))
def _update(algorithm: Algorithm, top, setting, state, values, player: int):
  return algorithm.update(top, setting, state, values, player)


@functools.partial(jax.jit, static_argnames="algorithm")
def _top_policy(algorithm: Algorithm, top, setting, state) -> traversal.Levels:
  """Returns the policy of this iteration alone."""
  if not isinstance(algorithm, FictitiousPlay):
    return algorithm.current_policy(top, setting, state)
  weights = list(state.response[0])
  for i in range(1, len(weights)):
    moved = traversal.moves_at(top, setting, i, 1)
    weights[i] = traversal.choose(moved, state.response[1][i], weights[i])
  return traversal.normalise_policy(top, setting, tuple(weights))


@jax.jit
def _count(whole, rows, source, sums, weight: float):
  """Adds an iteration's whole policy, weighted by own reach, to the players' `sums`.

  `rows` are the top's policy by level and the subgames'.
  """
  rows = [traversal.join_levels(rows[0]), *(x.reshape(-1, x.shape[-1]) for x in rows[1:])]
  policy = traversal.split_levels(whole, jnp.concatenate(rows)[source])
  reach = traversal.both_reach(whole, traversal.prepare(whole, whole.prior), policy)
  if sums is None:
    return jax.tree.map(lambda y: weight * y, reach)
  return jax.tree.map(lambda x, y: x + weight * y, sums, reach)


@jax.jit
def _average(whole, sums) -> jax.Array:
  setting = traversal.prepare(whole, whole.prior)
  weights = list(sums[0])
  for i in range(1, len(weights)):
    moved = traversal.moves_at(whole, setting, i, 1)
    weights[i] = traversal.choose(moved, sums[1][i], weights[i])
  return traversal.join_levels(traversal.normalise_policy(whole, setting, tuple(weights)))
