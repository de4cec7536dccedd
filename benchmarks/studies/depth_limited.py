"""Depth-limited solving with exact leaf values, scored by what it plays in the whole game.

A depth-limited solver sets a policy for the top of a game only. Each of its iterations also
implies one for the rest, that of the subgames solved at the leaves' beliefs; the average of these
whole policies over the iterations, weighted by own reach, is the policy that CFR-D and CFR-AVG
are proven for (ReBeL, appendix I). Solving the subgames once, at the final average's beliefs, is
unsafe and proves nothing.

The second score does not depend on what a solver implies below its leaves: each player keeps its
average policy in the top and plays the rest as well as that allows.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import games
import solvers
from games import PublicTree
from games.public_tree import Array
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.exact_leaf_values import LeafGroup, SolveBelow
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Problem, choose, make_problem
from solvers.xla import Programs, work_on_trees


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
  placer, source = solvers.Placer(whole), np.full(whole.num_nodes, -1)
  in_whole = placer.places(top)
  source[in_whole] = np.arange(top.num_nodes)
  first = top.num_nodes
  for leaves, trees, which in groups:
    for i, leaf in enumerate(leaves):
      below = trees
      if which is not None:
        below = jax.tree.map(lambda x, row=which[i]: np.asarray(x)[row], trees)
      places = placer.places(below, int(in_whole[top.leaf_nodes[leaf]]))
      own = np.flatnonzero(places >= 0)[1:]  # the move to the subgame's root is the top's
      source[places[own]] = first + own
      first += below.num_nodes
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
  policies = _programs[work_on_trees()](
    whole, top, groups, source, prior, algorithm=algorithm, below=below, ends=ends
  )
  for number, average in zip(checkpoints, policies):
    of_top = None
    if num_iterations_to_complete is not None:
      completed = complete(whole, average, in_top, num_iterations_to_complete)
      of_top = float(solvers.exploitability(whole, completed))
    yield Point(number, float(solvers.exploitability(whole, average)), of_top)


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
  end = solvers.loop.run(
    problem, algorithm, evaluate, length, observe=observe, carry=(zeros, found)
  )
  return end.carry[1]


_programs = Programs(_policies, static_argnames=("algorithm", "below", "ends"))


def _edges(problem: Problem, reach: tuple[Levels, Levels]) -> Levels:
  """Returns the own reach of each edge by the player who moves along it."""
  rows = zip(range(len(problem.shapes)), *reach)
  return tuple(choose(problem.moves_at(i, 1), second, first) for i, first, second in rows)


def complete(whole: PublicTree, policy: Array, kept: np.ndarray, num_iterations: int) -> np.ndarray:
  """Completes each player's part of `policy` `[N, H]` where `kept` `[N]` is False.

  For each player a game is solved in which it must keep to `policy` where `kept`, and its opponent
  may do anything. What the player does elsewhere in that solution guarantees it the most that its
  kept part still allows. So no completion of both parts is less exploitable, up to the accuracy
  of the solver.
  """
  movers = np.asarray(whole.kind)[np.maximum(whole.parent, 0)]
  completed = np.asarray(policy)
  for player in (0, 1):
    solved = solvers.solve(
      whole,
      algorithm=solvers.discounted_cfr(),
      num_iterations=num_iterations,
      initial_policy=policy,
      locked=kept & (movers == player),
    )
    own = np.arange(whole.num_nodes), solved.average_policy
    completed = solvers.resolving.graft(whole, completed, [own], player=player)
  return completed


def _top_policy(algorithm: Algorithm, problem: Problem, state) -> Levels:
  """Returns the policy of this iteration alone."""
  if not isinstance(algorithm, FictitiousPlay):
    return algorithm.current_policy(problem, state)
  return problem.normalise(_edges(problem, state.response))
