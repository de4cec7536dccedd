"""One search of the game's start, shared by all lanes that begin a new game.

Every game starts at the same PBS, so with the same network every lane's first search is the same
up to where it stops. It is also the widest search and its result trains nothing, because the
start is never a leaf. Searching it once a step and drawing many stopping iterations from it leaves
the distribution of PBSs that self-play meets as it was, and most of the work for the rest.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import PublicTree
from solvers import traversal
from solvers.algorithm import Algorithm
from solvers.batch_search import believes_averages, leaf_beliefs, sample_stop
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.sampling import explore, leaf_probabilities
from solvers.solve import uniform_policy
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
    return leaf_values(params, query._replace(encoded=encoded[player]))

  answers = {player: values(state, player) for player in algorithm.primed}
  for player, answer in answers.items():
    state = algorithm.prime(tree, setting, state, answer, player)

  def step(state, _):
    policy = traversal.join_levels(algorithm.current_policy(tree, setting, state))
    believed = policy
    if believes_averages(algorithm):
      believed = traversal.join_levels(algorithm.average_policy(tree, setting, state))
    for player in (0, 1):
      state = algorithm.update(tree, setting, state, values(state, player), player)
    return state, (policy, believed)

  state, (policies, believed) = jax.lax.scan(step, state, length=num_iterations // 2)
  average = traversal.join_levels(algorithm.average_policy(tree, setting, state))
  return Iterates(policies, believed, average)


def start_tree(table: SubgameTable) -> PublicTree:
  """Returns the table's first subgame, which starts the game."""
  return jax.tree.map(lambda x: jnp.asarray(x)[0], table.trees)


def sample_starts(
  table: SubgameTable,
  iterates: Iterates,
  key: jax.Array,
  num_starts: int,
  *,
  stop_exponent: float,
  exploration: float,
  warm_start: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """Samples the first leaves of new games, given that the game goes on that far.

  Args:
    table: the subgames.
    iterates: from `search_iterates`.
    key: consumed.
    num_starts: how many to sample.
    stop_exponent, exploration: as in `SelfPlay`.
    warm_start: as for `sample_stop`.

  Returns:
    Which subgame starts there `[num_starts]`, and its PBS `[num_starts, P, H]`.
  """
  tree = start_tree(table)
  beliefs = tree.prior
  setting = traversal.prepare(tree, beliefs)
  stop_key, explorer_key, leaf_key = jax.random.split(key, 3)
  num_iterations = 2 * len(iterates.policies)
  stops = sample_stop(stop_key, (num_starts,), num_iterations, stop_exponent, warm_start)
  explorers = jax.random.bernoulli(explorer_key, shape=(num_starts,)).astype(jnp.int32)
  successor = jnp.asarray(table.successor)[0]
  tiny = jnp.finfo(beliefs.dtype).tiny

  def start(key, stop, explorer):
    policy = traversal.split_levels(tree, iterates.policies[stop])
    believed = traversal.split_levels(tree, iterates.believed[stop])
    mixed = explore(tree, setting, policy, explorer, exploration)
    weights = leaf_probabilities(tree, setting, mixed, beliefs)
    logits = jnp.where(successor >= 0, jnp.log(weights + tiny), -jnp.inf)
    leaf = jax.random.categorical(key, logits)
    return successor[leaf], leaf_beliefs(tree, setting, believed)[leaf]

  return jax.vmap(start)(jax.random.split(leaf_key, num_starts), stops, explorers)
