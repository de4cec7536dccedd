"""One search of a game's start, shared by all lanes that begin a new game.

Every game starts at the same PBS, so with the same network every lane's first search is the same
up to where it stops. It is also the widest search and its result trains nothing, because the
start is never a leaf. Searching it once a step and drawing many stopping iterations from it leaves
the distribution of PBSs that self-play meets as it was, and most of the work for the rest. Where
there are variants of a game, the starts of some of them are searched so, others every step.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import PublicTree
from solvers import traversal, validation
from solvers.algorithm import Algorithm
from solvers.batch_search import believes_averages, leaf_beliefs, sample_stop
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.policy_network import SearchPolicy
from solvers.sampling import explore, leaf_probabilities
from solvers.solve import uniform_policy, update_simultaneously
from solvers.subgames import SubgameTable
from solvers.traversal import Levels


class Iterates(NamedTuple):
  """All that one search went through, at j after j updates of each player.

  Attributes:
    policies: `[num_iterations // 2, N, H]`.
    believed: `[num_iterations // 2, N, H]` the policies that set beliefs where play goes on: the
      same, or the averages until then (CFR-AVG; ReBeL, appendix I).
    average_policy: `[N, H]` at the end.
  """

  policies: jax.Array
  believed: jax.Array
  average_policy: jax.Array


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
    The iterates; see `Iterates`.
  """
  setting = traversal.prepare(tree, tree.prior)
  if initial_policy is None:
    initial_policy = uniform_policy(tree, setting)
  state = algorithm.init(tree, setting, initial_policy)
  encoded = (None, None)
  if hasattr(leaf_values, "encode"):
    encoded = tuple(leaf_values.encode(params, tree.leaf_features[p]) for p in (0, 1))

  def values(state, player):
    query: LeafQuery = algorithm.leaf_query(tree, setting, state, player)
    answer = leaf_values(params, query._replace(encoded=encoded[player]))
    validation.check_leaf_answer(tree.num_leaves, tree.num_infostates, answer)
    return answer

  answers = {player: values(state, player) for player in algorithm.primed}
  for player, answer in answers.items():
    state = algorithm.prime(tree, setting, state, answer, player)

  def step(state, _):
    policy = traversal.join_levels(algorithm.current_policy(tree, setting, state))
    believed = policy
    if believes_averages(algorithm):
      believed = traversal.join_levels(algorithm.average_policy(tree, setting, state))
    if algorithm.alternating:
      for player in (0, 1):
        state = algorithm.update(tree, setting, state, values(state, player), player)
    else:
      answers = (values(state, 0), values(state, 1))
      state = update_simultaneously(algorithm, tree, setting, state, answers)
    return state, (policy, believed)

  state, (policies, believed) = jax.lax.scan(step, state, length=num_iterations // 2)
  average = traversal.join_levels(algorithm.average_policy(tree, setting, state))
  return Iterates(policies, believed, average)


def start_tree(table: SubgameTable) -> PublicTree:
  """Returns the table's first subgame, which starts the game."""
  return jax.tree.map(lambda x: jnp.asarray(x)[0], table.trees)


def search_starts(
  table: SubgameTable,
  rows: jax.Array,
  algorithm: Algorithm,
  num_iterations: int,
  leaf_values: LeafValues,
  params: Any,
  policy: SearchPolicy | None = None,
) -> Iterates:
  """Searches the subgames in `rows` `[S]` of a table, each as `search_iterates` does.

  Args:
    table: the subgames.
    rows: which of them.
    algorithm, num_iterations, leaf_values, params: as for `search_iterates`.
    policy: a policy network that searches start from, static; None for uniform.

  Returns:
    The iterates, each array with a leading axis `[S]`.
  """

  def search(row):
    tree, features = jax.tree.map(lambda x: jnp.asarray(x)[row], (table.trees, table.node_features))
    initial = None if policy is None else policy.start_one(tree, features, tree.prior, params)
    return search_iterates(tree, algorithm, num_iterations, leaf_values, params, initial)

  if len(rows) == 1:  # a batch of one would gain nothing
    return jax.tree.map(lambda x: x[None], search(rows[0]))
  return jax.vmap(search)(rows)


def sample_starts(
  table: SubgameTable,
  iterates: Iterates,
  key: jax.Array,
  num_starts: int,
  *,
  stop_exponent: float,
  exploration: float,
  warm_start: int = 0,
  rows: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
  """Samples the first leaves of new games, given that the game goes on that far.

  Args:
    table: the subgames.
    iterates: from `search_iterates`; from `search_starts` if there are `rows`.
    key: consumed.
    num_starts: how many to sample.
    stop_exponent, exploration: as in `SelfPlay`.
    warm_start: as for `sample_stop`.
    rows: `[S]` which subgames were searched, each game starting in one of them at random; None for
      the table's first.

  Returns:
    Which subgame starts there `[num_starts]`, and its PBS `[num_starts, P, H]`.
  """
  stop_key, explorer_key, leaf_key = jax.random.split(key, 3)
  num_iterations = 2 * iterates.policies.shape[-3]
  stops = sample_stop(stop_key, (num_starts,), num_iterations, stop_exponent, warm_start)
  explorers = jax.random.bernoulli(explorer_key, shape=(num_starts,)).astype(jnp.int32)

  def start(tree, successor, key, policy, believed, explorer):
    beliefs, tiny = tree.prior, jnp.finfo(tree.dtype).tiny
    setting = traversal.prepare(tree, beliefs)
    mixed = explore(tree, setting, traversal.split_levels(tree, policy), explorer, exploration)
    weights = leaf_probabilities(tree, setting, mixed, beliefs)
    logits = jnp.where(successor >= 0, jnp.log(weights + tiny), -jnp.inf)
    leaf = jax.random.categorical(key, logits)
    below = leaf_beliefs(tree, setting, traversal.split_levels(tree, believed))
    return successor[leaf], below[leaf]

  first = (jax.tree.map(lambda x: jnp.asarray(x)[0], table.trees), jnp.asarray(table.successor)[0])
  at: Any = stops
  in_axes: tuple[int | None, ...] = (None, None, 0, 0, 0, 0)
  if rows is not None:
    which = jax.random.randint(jax.random.fold_in(key, 3), (num_starts,), 0, len(rows))
    first = jax.tree.map(lambda x: jnp.asarray(x)[rows[which]], (table.trees, table.successor))
    at, in_axes = (which, stops), (0, 0, 0, 0, 0, 0)
  keys = jax.random.split(leaf_key, num_starts)
  return jax.vmap(start, in_axes)(
    *first, keys, iterates.policies[at], iterates.believed[at], explorers
  )
