"""Starts of searches: a policy network's answers, and one search that new games share."""
# Every game starts at the same PBS, so with the same network every lane's first search is the
# same up to where it stops. It is also the widest search, and its result trains nothing.
# Searching it once a step and drawing many stopping iterations from it leaves the distribution of
# PBSs that self-play meets as it was.

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.game import CHANCE
from games.pairs import per_pair_mass
from games.public_tree import PADDING, Array, PublicTree
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.regret_rules import Exponent
from solvers.leaf_values import LeafValues, normalise_beliefs, seat_of
from solvers.search.batch import Iterates, beliefs_at_leaves, sample_stop, search_batch
from solvers.search.subgames import Roots, Stage
from solvers.sweeps.levels import Levels, chance_reach
from solvers.sweeps.problem import Problem, TreeProblem, choose, make_problem
from solvers.xla import Programs


class PolicyQuery(NamedTuple):
  """A question about `n` decisions.

  Attributes:
    features: `[n, F]` the public states as the player who moves sees them.
    beliefs: `[n, P, H]` PBS, that player's first.
    legal: `[n, A]` 1 for actions that exist, else 0.
  """

  features: jax.Array  # [n, F]
  beliefs: jax.Array  # [n, P, H]
  legal: jax.Array  # [n, A]


# (params, query) -> [n, A, H]: how likely the player who moves takes each action.
PolicyFunction = Callable[[Any, PolicyQuery], jax.Array]


class PolicyTargets(NamedTuple):
  """The average policy at the `D` inner nodes of a solved subgame, with the query for each."""

  query: PolicyQuery  # what a network would be asked, under the average policy
  policy: jax.Array  # `[D, A, H]` the average policy; zero for infostates that are impossible there
  valid: jax.Array  # `[D]` whether a player moves there


@dataclasses.dataclass(frozen=True)
class SearchPolicy:
  """A policy network as searches use it; static.

  Attributes:
    network: the policy function.
    num_actions: A, of its answers.
  """

  network: PolicyFunction
  num_actions: int

  def start(self, trees: PublicTree, features: Any, beliefs: Any, params: Any) -> Levels:
    """Returns the network's policies on `B` stacked trees, by level `[B, n, H]`."""

    def start(tree, features, beliefs):
      problem = make_problem(tree, beliefs)
      return policy_from_network(problem, features, self.network, params, self.num_actions)

    return jax.vmap(start)(trees, features, beliefs)


def first_policy(
  policy: SearchPolicy | None, stage: Stage, trees: PublicTree, features: Any, beliefs: Any,
  params: Any,
) -> Levels | None:  # fmt: skip
  """Returns the network's policies that searches at a stage start from, None without either."""
  return policy.start(trees, features, beliefs, params) if policy and stage.decides else None


def policy_from_network(
  problem: TreeProblem, features: jax.Array, network: PolicyFunction, params: Any, num_actions: int
) -> Levels:
  """Returns the policy of a network on one tree, by level `[n, H]`."""
  # Its answer at a decision sets the beliefs at those below, so it is asked level by level.
  policy = list(problem.uniform_policy())
  rows = problem.split(features)
  reach = [problem.own_reach((policy[0],), p)[0] for p in (0, 1)]
  for i in range(1, len(policy)):
    if any(problem.moves_at(i, p) is not False for p in (0, 1)):
      query, (parents, actions), _, _ = _query_above(problem, rows, i, reach, num_actions)
      weights = network(params, query)[parents, jnp.minimum(actions, num_actions - 1)]
      for player in (0, 1):
        moved = problem.moves_at(i, player)
        if moved is not False:
          policy[i] = choose(moved, problem.normalise_rows(i, player, weights), policy[i])
    reach = [problem.reach_below(i, policy[i], reach[p], p) for p in (0, 1)]
  return tuple(policy)


def policy_targets(
  problem: TreeProblem, features: jax.Array, policy: Levels, num_actions: int
) -> PolicyTargets:
  """Returns the queries of one tree and a network's targets for them.

  Args:
    problem, features, num_actions: as for `policy_from_network`.
    policy: by level, the average policy that search found.
  """
  rows, reach = problem.split(features), problem.both_reach(policy)
  found = []
  for i in range(1, len(policy)):
    above = reach[0][i - 1], reach[1][i - 1]
    query, at, movers, possible = _query_above(problem, rows, i, above, num_actions)
    target = jnp.zeros((len(movers), num_actions, problem.num_infostates), policy[0].dtype)
    target = target.at[at].set(policy[i], mode="drop")
    if possible is not None:
      target *= seat_of(movers, possible)[:, :1].astype(target.dtype)
    found.append(PolicyTargets(query, target, movers < CHANCE))
  return jax.tree.map(lambda *x: jnp.concatenate(x), *found)


def _query_above(
  problem: TreeProblem, rows: Levels, index: int, reach: Sequence[jax.Array], num_actions: int
) -> tuple[PolicyQuery, tuple[Any, Any], jax.Array, jax.Array | None]:
  """Returns the query about the inner nodes above level `index`, from own reach of that level."""
  # Also each node's place in it by parent and action, `num_actions` for padding; the kinds of the
  # inner nodes; and what is possible there.
  tree = problem.tree
  before, start, stop = tree.structure.offsets[index - 1 : index + 2]
  above = slice(before, before + tree.structure.levels[index - 1].num_inner)
  actions = jnp.asarray(tree.action)[start:stop]
  at = tree.structure.levels[index].parents, jnp.where(actions < 0, num_actions, actions)
  movers = jnp.asarray(tree.kind)[above]
  possible = None if tree.possible is None else jnp.asarray(tree.possible)[above]
  full = [problem.with_nature(index - 1, own, p)[: len(movers)] for p, own in enumerate(reach)]
  beliefs = seat_of(movers, normalise_beliefs(jnp.stack(full, axis=1), possible))
  legal = jnp.zeros((len(movers), num_actions), beliefs.dtype).at[at].set(1.0, mode="drop")
  return PolicyQuery(rows[index - 1][: len(movers)], beliefs, legal), at, movers, possible


def explore(problem: Problem, policy: Levels, explorer: jax.Array, rate: float) -> Levels:
  """Mixes uniform play into the policy of one player; the other's rows stay.

  Args:
    problem: the subgame.
    policy: for each level `[n, H]`.
    explorer: `[]` 0 or 1.
    rate: probability of a uniform move at each of the explorer's decisions.
  """
  mixed = [(1 - rate) * x + rate * y for x, y in zip(policy, problem.uniform_policy())]
  return problem.where_moved(policy, lambda i, p: jnp.where(explorer == p, mixed[i], policy[i]))


def leaf_probabilities(problem: Problem, policy: Levels, beliefs: Array) -> jax.Array:
  """Returns the probability that play by `policy` from root `beliefs` ends at each leaf: `[L]`.

  The rest, up to one, is the probability of a terminal node. It is one where no pair of infostates
  is compatible.
  """
  tree = problem.tree
  first, second = (
    problem.leaf_reach(own, player) for player, own in enumerate(problem.both_reach(policy))
  )
  joint = (first * problem.compatible_mass(second, 0)).sum(axis=-1)
  if tree.chance_probability is not None:
    # Both players' reach holds the probability of chance; it counts once.
    chance = problem.leaf_rows(chance_reach(tree, joint.dtype))[:, 0]
    joint = joint / jnp.maximum(chance, jnp.finfo(joint.dtype).tiny)
  if tree.padded:  # below a deal padding is reached like any other outcome
    joint = jnp.where(jnp.asarray(tree.leaf_actor) != PADDING, joint, 0.0)
  total = (beliefs[0] * problem.root_mass[0]).sum()
  # Exploration may reach nodes at which the beliefs, which ignore it, leave no compatible pair.
  return per_pair_mass(joint, total)


def sample_leaf(key: jax.Array, probabilities: jax.Array, play_on: float = 0.0) -> jax.Array:
  """Samples a leaf by `probabilities` `[L]`; L itself stands for a terminal node.

  Games that end go on to a leaf, if there is one, with a probability of `play_on`.
  """
  reached = probabilities.sum()
  terminal = jnp.maximum(1.0 - reached, 0.0) * jnp.where(reached > 0, 1.0 - play_on, 1.0)
  weights = jnp.append(probabilities, terminal)
  return jax.random.categorical(key, jnp.log(weights + jnp.finfo(weights.dtype).tiny))


def search_starts(
  stage: Stage,
  roots: Roots,
  algorithm: Algorithm,
  num_iterations: int,
  leaf_values: LeafValues,
  params: Any,
  policy: SearchPolicy | None = None,
  prior: jax.Array | None = None,
) -> tuple[PublicTree, jax.Array | None, Iterates]:
  """Searches subgames `[S]` from their priors; returns trees, `features_at`, and every iterate.

  Args:
    stage, roots: of the subgames, depth-limited.
    algorithm, num_iterations: of the search, static.
    leaf_values, params: a network and its parameters.
    policy: a policy network that searches start from, static; None for uniform.
    prior: `[S, P, H]` instead of the subgames' own.
  """
  trees = stage.trees_at(roots)
  features = stage.features_at(roots, trees)
  if prior is not None:
    trees = dataclasses.replace(trees, prior=prior)
  size = len(trees.prior)
  found = search_batch(
    trees,
    jnp.asarray(trees.prior),
    jnp.zeros(size, jnp.int32),
    num_iterations,
    algorithm=algorithm,
    leaf_values=leaf_values,
    params=params,
    num_rows=size * trees.num_leaves,
    initial_policy=first_policy(policy, stage, trees, features, trees.prior, params),
    keep_iterates=size,
  )
  assert found.iterates is not None
  return trees, features, found.iterates


searched_starts = Programs(
  search_starts, static_argnames=("algorithm", "num_iterations", "leaf_values", "policy")
)


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
    stop_exponent, exploration, warm_start: see `sample_stop` and `explore`.

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
