"""One search of a game's start, shared by all lanes that begin a new game.

Every game starts at the same PBS, so with the same network every lane's first search is the same
up to where it stops. It is also the widest search and its result trains nothing, because the
start is never a leaf. Searching it once a step and drawing many stopping iterations from it leaves
the distribution of PBSs that self-play meets as it was, and most of the work for the rest. Where
games start in many ways, some of them are searched so, others every step.
"""

from typing import Any

import jax
import jax.numpy as jnp

from games import PADDING, PublicTree
from solvers import loop, validation
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.schedule import Exponent
from solvers.leaf_values import LeafQuery, LeafValues, encode_for_both
from solvers.search.batch import Iterates, beliefs_at_leaves, sample_stop
from solvers.search.policy_start import SearchPolicy
from solvers.search.sampling import explore, leaf_probabilities
from solvers.search.subgames import Roots, Stage
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import make_problem


def search_iterates(
  tree: PublicTree,
  algorithm: Algorithm,
  num_iterations: int,
  leaf_values: LeafValues,
  params: Any,
  initial_policy: Levels | None = None,
) -> Iterates:
  """Searches one subgame from its prior and returns every iterate.

  Args:
    tree: depth-limited.
    algorithm, num_iterations: of the search, static.
    leaf_values, params: a network and its parameters.
    initial_policy: by level, as for `search_batch`; None for uniform.

  Returns:
    The iterates, without the axis `[S]`.
  """
  problem = make_problem(tree, tree.prior)
  features = problem.leaf_features(0), problem.leaf_features(1)
  encoded = encode_for_both(leaf_values, params, features)

  def evaluate(query: LeafQuery) -> jax.Array:
    answer = leaf_values(params, query._replace(encoded=encoded[query.traverser]))
    validation.check_leaf_answer(tree.num_leaves, tree.num_infostates, answer)
    return answer

  def observe(j, problem, state, seen):
    policy = join_levels(algorithm.current_policy(problem, state))
    believed = policy
    if algorithm.uses_average:
      believed = join_levels(algorithm.average_policy(problem, state))
    return tuple(x.at[j].set(y) for x, y in zip(seen, (policy, believed)))

  shape = (num_iterations // 2, tree.num_nodes, tree.num_infostates)
  end = loop.run(
    problem,
    algorithm,
    evaluate,
    num_iterations,
    policy=initial_policy,
    observe=observe,
    carry=(jnp.zeros(shape, tree.dtype), jnp.zeros(shape, tree.dtype)),
  )
  policies, believed = end.carry
  return Iterates(policies, believed, join_levels(algorithm.average_policy(problem, end.state)))


def search_starts(
  trees: PublicTree,
  features: jax.Array | None,
  algorithm: Algorithm,
  num_iterations: int,
  leaf_values: LeafValues,
  params: Any,
  policy: SearchPolicy | None = None,
) -> Iterates:
  """Searches stacked subgames `[S]`, each as `search_iterates` does.

  Args:
    trees: of the subgames.
    features: see `Stage.features_at`.
    algorithm, num_iterations, leaf_values, params: as for `search_iterates`.
    policy: a policy network that searches start from, static; None for uniform.

  Returns:
    The iterates, each array with a leading axis `[S]`.
  """

  def search(tree, features):
    initial = None
    if policy is not None:
      initial = policy.start_one(tree, features, tree.prior, params)
    return search_iterates(tree, algorithm, num_iterations, leaf_values, params, initial)

  if len(trees.prior) == 1:  # a batch of one would gain nothing
    first = jax.tree.map(lambda x: x[0], (trees, features))
    return jax.tree.map(lambda x: x[None], search(*first))
  return jax.vmap(search)(trees, features)


def sample_starts(
  stage: Stage,
  roots: Roots,
  trees: PublicTree,
  iterates: Iterates,
  key: jax.Array,
  num_starts: int,
  *,
  stop_exponent: Exponent,
  exploration: float,
  warm_start: int = 0,
) -> tuple[Roots, jax.Array]:
  """Samples the first leaves of new games, given that the game goes on that far.

  Args:
    stage: at which games start.
    roots: `[S]` which starts were searched; each new game begins in one of them at random.
    trees: their subgames.
    iterates: from `search_starts`.
    key: consumed.
    num_starts: how many to sample.
    stop_exponent, exploration: as in `SelfPlay`.
    warm_start: as for `sample_stop`.

  Returns:
    The roots of the subgames there `[num_starts]`, and their PBSs `[num_starts, P, H]`.
  """
  stop_key, explorer_key, leaf_key = jax.random.split(key, 3)
  searched, pairs = iterates.policies.shape[:2]
  stops = sample_stop(stop_key, (num_starts,), 2 * pairs, stop_exponent, warm_start)
  explorers = jax.random.bernoulli(explorer_key, shape=(num_starts,)).astype(jnp.int32)

  def start(tree, key, policy, believed, explorer):
    beliefs, tiny = tree.prior, jnp.finfo(tree.dtype).tiny
    problem = make_problem(tree, beliefs)
    mixed = explore(problem, problem.split(policy), explorer, exploration)
    weights = leaf_probabilities(problem, mixed, beliefs)
    there = jnp.asarray(tree.leaf_actor) != PADDING
    leaf = jax.random.categorical(key, jnp.where(there, jnp.log(weights + tiny), -jnp.inf))
    return leaf, beliefs_at_leaves(problem, problem.split(believed))[leaf]

  keys = jax.random.split(leaf_key, num_starts)
  if searched == 1:  # one tree for all: nothing is copied
    tree = jax.tree.map(lambda x: x[0], trees)
    which = jnp.zeros(num_starts, jnp.int32)
    vmapped = jax.vmap(start, (None, 0, 0, 0, 0))
  else:
    which = jax.random.randint(jax.random.fold_in(key, 3), (num_starts,), 0, searched)
    tree = jax.tree.map(lambda x: x[which], trees)
    vmapped = jax.vmap(start)
  policies, believed = (x[which, stops] for x in (iterates.policies, iterates.believed))
  leaf, beliefs = vmapped(tree, keys, policies, believed, explorers)
  return jax.tree.map(lambda x: x[which, leaf], stage.successors(roots, trees)), beliefs
