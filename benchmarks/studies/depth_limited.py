"""Depth-limited solving with exact leaf values, scored by what it plays in the whole game.

A depth-limited solver sets a policy for the top of a game only. Each of its iterations also
implies one for the rest, that of the subgames solved at the leaves' beliefs; the average of these
whole policies over the iterations, weighted by own reach, is the policy that CFR-D and CFR-AVG
are proven for (ReBeL, appendix I). Solving the subgames once, at the final average's beliefs, is
unsafe and proves nothing.

The second score does not depend on what a solver implies below its leaves: each player keeps its
average policy in the top and plays the rest as well as that allows.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
import solvers
from games import PublicTree
from solvers import CFR, FictitiousPlay, loop
from solvers.algorithms.algorithm import Algorithm
from solvers.exact_leaf_values import LeafGroup, SolveBelow
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Problem, choose, make_problem


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
  ends = tuple(i // 2 for i in checkpoints)
  policies = _policies(
    whole, top, groups, source, prior, algorithm=algorithm, below=below, ends=ends
  )
  for number, average in zip(checkpoints, policies):
    of_top = None
    if num_iterations_to_complete is not None:
      completed = complete(whole, average, in_top, num_iterations_to_complete)
      of_top = float(solvers.exploitability(whole, completed))
    yield Point(number, float(solvers.exploitability(whole, average)), of_top)


# XLA's older emitters for CPUs compile large trees in half the time.
@functools.partial(
  jax.jit,
  static_argnames=("algorithm", "below", "ends"),
  compiler_options={"xla_cpu_use_fusion_emitters": False},
)
def _policies(
  whole,
  top,
  groups,
  source,
  prior,
  *,
  algorithm: Algorithm,
  below: SolveBelow,
  ends: tuple[int, ...],
) -> jax.Array:
  """Returns the average whole policy after each of `ends` pairs of updates, `[K, N, H]`."""
  problem = make_problem(top, top.prior if prior is None else prior)
  everything = make_problem(whole, whole.prior)

  def evaluate(query: LeafQuery) -> jax.Array:
    return below(groups, query)

  def observe(j, problem, state, carry):
    sums, found = carry
    query = algorithm.leaf_query(problem, state, 0)
    rows = [join_levels(_top_policy(algorithm, problem, state))]
    rows += [x.reshape(-1, x.shape[-1]) for x in below.subgame_policies(groups, query.beliefs)]
    policy = everything.split(jnp.concatenate(rows)[source])
    weight = (j + 1.0) ** algorithm.averaging
    reach = everything.both_reach(policy)
    sums = jax.tree.map(lambda x, y: x + weight * y, sums, reach)
    average = join_levels(everything.normalise(_edges(everything, sums)))
    due = (jnp.asarray(ends) == j)[:, None, None]
    return sums, jnp.where(due, average, found)

  zeros = jax.tree.map(jnp.zeros_like, everything.both_reach(everything.uniform_policy()))
  found = jnp.zeros((len(ends), whole.num_nodes, whole.num_infostates), whole.dtype)
  # One pair of updates more: policies are observed before each.
  length = 2 * (ends[-1] + 1)
  end = loop.run(problem, algorithm, evaluate, length, observe=observe, carry=(zeros, found))
  return end.carry[1]


def _edges(problem: Problem, reach: tuple[Levels, Levels]) -> Levels:
  """Returns the own reach of each edge by the player who moves along it."""
  rows = zip(range(problem.num_levels), *reach)
  return tuple(choose(problem.moves_at(i, 1), second, first) for i, first, second in rows)


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
  problem = make_problem(whole, whole.prior)
  given = problem.split(policy)
  keep = tuple(x[:, None] for x in problem.split(jnp.asarray(kept)))
  solver = solvers.discounted_cfr()
  # Only the owner's kept rows matter: the opponent's are replaced by its first update.
  first = tuple(jnp.where(x, y, z) for x, y, z in zip(keep, given, problem.uniform_policy()))

  def solve_for(owner: int) -> Levels:
    class Bound(CFR):
      """CFR whose `owner` keeps to the given policy."""

      def learn(self, problem, state, sweep, player, k):
        state = super().learn(problem, state, sweep, player, k)
        if player != owner:
          return state
        bound = (jnp.where(x, y, z) for x, y, z in zip(keep, given, state.policy))
        return state._replace(policy=tuple(bound))

    bound = Bound(solver.rule, solver.averaging)
    state = loop.run(problem, bound, None, num_iterations, policy=first).state
    return bound.average_policy(problem, state)

  return join_levels(_edges(problem, (solve_for(0), solve_for(1))))


def _top_policy(algorithm: Algorithm, problem: Problem, state) -> Levels:
  """Returns the policy of this iteration alone."""
  if not isinstance(algorithm, FictitiousPlay):
    return algorithm.current_policy(problem, state)
  return problem.normalise(_edges(problem, state.response))
