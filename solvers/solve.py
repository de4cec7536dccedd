"""Approximates an equilibrium of one (sub)game."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.public_tree import Array, PublicTree
from solvers import loop, validation
from solvers.algorithms.algorithm import Algorithm
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.metrics.expected_values import policy_values
from solvers.sweeps.constraints import Alternatives, Lock
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem
from solvers.xla.compiler_options import Programs, work_of_solving


class Solution(NamedTuple):
  """An approximate equilibrium of one (sub)game.

  Attributes:
    average_policy: `[N, H]` the policy that converges to an equilibrium. Row n holds the
      probability that the player who acted at n's parent, holding infostate h, moved to n.
    root_values: `[P, H]` expected payoff to each player given its root infostate.
    current_policy: `[N, H]` the policy of the last iteration.
  """

  average_policy: jax.Array  # [N, H]
  root_values: jax.Array  # [P, H]
  current_policy: jax.Array  # [N, H]


def solve(
  tree: PublicTree,
  *,
  algorithm: Algorithm,
  num_iterations: int,
  beliefs: Array | None = None,
  leaf_values: LeafValues | None = None,
  params: Any = None,
  initial_policy: Array | None = None,
  locked: Lock | Array | None = None,
  alternatives: Alternatives | Array | None = None,
) -> Solution:
  """Approximates an equilibrium of the (sub)game that `tree` represents.

  Works under `jax.jit`, `jax.vmap` (over beliefs, params and stacked trees) and inside
  `lax.scan`; it is compiled once for each tree structure, algorithm and number of iterations.

  Args:
    tree: one tree, from `games.build_public_tree`.
    algorithm: such as `solvers.linear_cfr()`; static.
    num_iterations: static. One player's update is one iteration, so 1,024 iterations update
      each player 512 times; player 0 is first.
    beliefs: `[P, H]` at the root, each row a distribution; None for the tree's own prior. The
      joint prior of a pair of infostates is the product of the two rows and the pair's weight,
      renormalised.
    leaf_values: function of `(params, query)` that returns the traverser's expected values
      `[L, H]` at the leaves, see `LeafQuery`; required if the tree is depth-limited; static.
    params: passed on to `leaf_values`.
    initial_policy: `[N, H]` the first policy; None for uniform. With a warm-started algorithm
      (`solvers.warm_started`) the policy to start from.
    locked: `[N]` or `[N, H]` bool, the same for all moves of a choice: where true, the player who
      moves keeps to `initial_policy`, and both know. Or a `Lock`, such as `solvers.lock` makes,
      which says itself what is kept to.
    alternatives: `[H]` what the opponent is promised instead, with `solvers.with_gadget` only.

  Returns:
    The solution. `root_values[p, h]` is what p expects given root infostate h, the other's
    infostate drawn from the root beliefs conditioned on it: for CFR-D the mean over p's updates
    with the algorithm's weights (ReBeL, algorithm 2), for fictitious play and CFR-AVG the
    value of the average policy. Zero where the rules, or the beliefs, leave the other no
    infostate compatible with h, and for player 1 of CFR-D after a single iteration, which
    updates player 0 alone.

  Raises:
    ValueError: a static argument is out of range, a shape is wrong, a depth-limited tree has no
      `leaf_values`, or concrete beliefs or policies are not distributions.
  """
  validation.check_unstacked(tree)
  validation.check_algorithm(algorithm)
  num_iterations = validation.check_num_iterations(num_iterations, algorithm.alternating)
  validation.check_leaves(tree, leaf_values)
  if beliefs is not None:
    validation.check_beliefs(tree, beliefs)
  beliefs = jnp.asarray(tree.prior if beliefs is None else beliefs, tree.dtype)
  if initial_policy is not None:
    validation.check_policy("initial_policy", tree, initial_policy)
    initial_policy = jnp.asarray(initial_policy, tree.dtype)
  lock = validation.check_lock(tree, initial_policy, locked)
  alternatives = validation.check_alternatives(tree, algorithm, alternatives)
  if not tree.depth_limited:
    leaf_values, params = None, None
  elif leaf_values is not None and hasattr(leaf_values, "bind"):
    leaf_values, params = leaf_values.bind(tree)
  given = Given(beliefs, params, initial_policy, lock, alternatives)
  work = work_of_solving(tree, leaf_values, given)
  return _solves[work](tree, algorithm, num_iterations, leaf_values, given)


class Given(NamedTuple):
  """What a solve is given beside the tree, as arrays; see `solve`."""

  beliefs: jax.Array
  params: Any
  initial_policy: jax.Array | None
  lock: Lock | None
  alternatives: Alternatives | None


def _run(tree, algorithm, num_iterations, leaf_values, given: Given) -> Solution:
  beliefs, params, initial_policy, lock, alternatives = given
  problem = make_problem(tree, beliefs, lock=lock, alternatives=alternatives)
  policy = None if initial_policy is None else problem.split(initial_policy)

  def ask(query: LeafQuery) -> jax.Array:
    answer = leaf_values(params, query)
    validation.check_leaf_answer(len(query.beliefs), tree.num_infostates, answer)
    return answer

  evaluate = None if leaf_values is None else ask
  state = loop.run(problem, algorithm, evaluate, num_iterations, policy=policy).state
  average = algorithm.average_policy(problem, state)
  if algorithm.uses_average:
    root_values = policy_values(problem, average, evaluate)
  else:
    root_values = algorithm.root_values(problem, state)
  current = algorithm.current_policy(problem, state)
  return Solution(join_levels(average), root_values, join_levels(current))


_solves = Programs(_run, static_argnames=("algorithm", "num_iterations", "leaf_values"))
