"""The one loop that runs every algorithm on a tree."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import Array, PublicTree
from solvers import traversal, validation
from solvers.algorithm import Algorithm
from solvers.compiler_options import jit_for_each, work_of_solving
from solvers.evaluate_policy import policy_values
from solvers.leaf_values import LeafValues
from solvers.traversal import Levels, Setting


class Solution(NamedTuple):
  """What `solve` returns.

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
  if not tree.depth_limited:
    leaf_values, params = None, None
  elif leaf_values is not None and hasattr(leaf_values, "bind"):
    leaf_values, params = leaf_values.bind(tree)
  arguments = (tree, algorithm, num_iterations, beliefs, leaf_values, params, initial_policy)
  work = work_of_solving(tree, leaf_values, beliefs, params, initial_policy)
  return _solves[work](*arguments)


def uniform_policy(tree: PublicTree, setting: Setting) -> Levels:
  """Returns the policy that takes every legal action equally often, by level."""
  h, dtype = tree.num_infostates, tree.dtype
  zeros = tuple(jnp.zeros((level.size, h), dtype) for level in tree.structure.levels)
  return traversal.normalise_policy(tree, setting, zeros)


def _run(tree, algorithm, num_iterations, beliefs, leaf_values, params, initial_policy):
  tree = jax.tree.map(jnp.asarray, tree)
  setting = traversal.prepare(tree, beliefs)
  if initial_policy is None:
    policy = uniform_policy(tree, setting)
  else:
    policy = traversal.split_levels(tree, initial_policy)
  state = algorithm.init(tree, setting, policy)

  def values(state, player):
    if leaf_values is None:
      return None
    answer = leaf_values(params, algorithm.leaf_query(tree, setting, state, player))
    validation.check_leaf_answer(tree.num_leaves, tree.num_infostates, answer)
    return answer

  if algorithm.primed:
    answers = {player: values(state, player) for player in algorithm.primed}
    for player, answer in answers.items():
      state = algorithm.prime(tree, setting, state, answer, player)

  def both(_, state):
    if algorithm.alternating:
      for player in (0, 1):
        state = algorithm.update(tree, setting, state, values(state, player), player)
      return state
    answers = values(state, 0), values(state, 1)
    return update_simultaneously(algorithm, tree, setting, state, answers)

  state = lax.fori_loop(0, num_iterations // 2, both, state)
  if num_iterations % 2:
    state = algorithm.update(tree, setting, state, values(state, 0), 0)

  average = algorithm.average_policy(tree, setting, state)
  if algorithm.values_of_average:
    root_values = policy_values(tree, setting, average, leaf_values, params)
  else:
    root_values = algorithm.root_values(setting, state)
  current = algorithm.current_policy(tree, setting, state)
  return Solution(traversal.join_levels(average), root_values, traversal.join_levels(current))


_solves = jit_for_each(_run, static_argnames=("algorithm", "num_iterations", "leaf_values"))


def update_simultaneously(
  algorithm: Algorithm,
  tree: PublicTree,
  setting: Setting,
  state: Any,
  values: tuple[jax.Array | None, jax.Array | None],
) -> Any:
  """Updates both players against each other's policies of the same iteration.

  Each update reads the state from before either; the second's results are then taken over for
  what belongs to player 1.
  """
  first = algorithm.update(tree, setting, state, values[0], 0)
  second = algorithm.update(tree, setting, state, values[1], 1)
  return algorithm.merge(tree, setting, first, second)
