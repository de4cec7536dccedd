"""One search of the game's start, shared by all lanes that begin a new game.

Every game starts at the same PBS, so with the same network every lane's first search is the same
up to where it stops. It is also the widest search and its result trains nothing, because the
start is never a leaf. Searching it once a step and drawing many stopping iterations from it leaves
the distribution of PBSs that self-play meets as it was, and most of the work for the rest.
"""

from typing import Any

import jax
import jax.numpy as jnp

from games import PublicTree
from solvers import traversal
from solvers.algorithm import Algorithm
from solvers.batch_search import leaf_beliefs, sample_stop
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.sampling import explore, leaf_probabilities
from solvers.solve import uniform_policy
from solvers.subgames import SubgameTable


def search_iterates(
  tree: PublicTree,
  algorithm: Algorithm,
  num_iterations: int,
  leaf_values: LeafValues,
  params: Any,
) -> jax.Array:
  """Searches one subgame from its prior and returns every iterate.

  Args:
    tree: depth-limited.
    algorithm, num_iterations: of the search, static.
    leaf_values, params: a network and its parameters.

  Returns:
    `[num_iterations // 2, N, H]` policies, the one after j updates of each player at j.
  """
  setting = traversal.prepare(tree, tree.prior)
  state = algorithm.init(tree, setting, uniform_policy(tree, setting))
  encoded = (None, None)
  if hasattr(leaf_values, "encode"):
    encoded = tuple(leaf_values.encode(params, tree.leaf_features[p]) for p in (0, 1))

  def values(state, player):
    query: LeafQuery = algorithm.leaf_query(tree, setting, state, player)
    return leaf_values(params, query._replace(encoded=encoded[player]))

  answers = {player: values(state, player) for player in algorithm.primed}
  for player, answer in answers.items():
    state = algorithm.prime(tree, setting, state, answer, player)

  def step(state, _):
    policy = traversal.join_levels(algorithm.current_policy(tree, setting, state))
    for player in (0, 1):
      state = algorithm.update(tree, setting, state, values(state, player), player)
    return state, policy

  _, policies = jax.lax.scan(step, state, length=num_iterations // 2)
  return policies


def start_tree(table: SubgameTable) -> PublicTree:
  """Returns the table's first subgame, which starts the game."""
  return jax.tree.map(lambda x: jnp.asarray(x)[0], table.trees)


def sample_starts(
  table: SubgameTable,
  policies: jax.Array,
  key: jax.Array,
  num_starts: int,
  *,
  stop_exponent: float,
  exploration: float,
) -> tuple[jax.Array, jax.Array]:
  """Samples the first leaves of new games, given that the game goes on that far.

  Args:
    table: the subgames.
    policies: from `search_iterates`.
    key: consumed.
    num_starts: how many to sample.
    stop_exponent, exploration: as in `SelfPlay`.

  Returns:
    Which subgame starts there `[num_starts]`, and its PBS `[num_starts, P, H]`.
  """
  tree = start_tree(table)
  beliefs = tree.prior
  setting = traversal.prepare(tree, beliefs)
  stop_key, explorer_key, leaf_key = jax.random.split(key, 3)
  stops = sample_stop(stop_key, (num_starts,), 2 * len(policies), stop_exponent)
  explorers = jax.random.bernoulli(explorer_key, shape=(num_starts,)).astype(jnp.int32)
  successor = jnp.asarray(table.successor)[0]
  tiny = jnp.finfo(beliefs.dtype).tiny

  def start(key, stop, explorer):
    policy = traversal.split_levels(tree, policies[stop])
    mixed = explore(tree, setting, policy, explorer, exploration)
    weights = leaf_probabilities(tree, setting, mixed, beliefs)
    logits = jnp.where(successor >= 0, jnp.log(weights + tiny), -jnp.inf)
    leaf = jax.random.categorical(key, logits)
    return successor[leaf], leaf_beliefs(tree, setting, policy)[leaf]

  return jax.vmap(start)(jax.random.split(leaf_key, num_starts), stops, explorers)
