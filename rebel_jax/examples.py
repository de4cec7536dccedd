"""Training examples from searched subgames: values at their roots, policies at their decisions."""

import jax
import jax.numpy as jnp

from rebel_jax.replay import POLICY_STEPS, Examples, PolicyExamples
from solvers.inner_nodes import InnerValues
from solvers.policy_network import PolicyTargets
from solvers.setting import root_mass
from solvers.subgames import SubgameTable

# Where the average policy goes more seldom, the policy below has hardly been trained, so its values
# say little (docs/results/recipe.md): of inner nodes, and of the player's own infostates there.
MIN_REACH = 0.03
MIN_OWN_REACH = 0.05


def make_examples(
  table: SubgameTable, roots: jax.Array, beliefs: jax.Array, values: jax.Array
) -> Examples:
  """Returns one example for each player and lane, player 0's first: `[2 * B, ...]`."""
  trees = jax.tree.map(lambda x: jnp.asarray(x)[roots], table.trees)
  mask = (jax.vmap(root_mass)(trees, beliefs) > 0).astype(values.dtype)
  if trees.possible is not None:
    mask *= trees.possible[:, 0]
  features = trees.root_features  # [B, P, F]
  return _by_player(features, beliefs, values, mask)


def make_inner_examples(
  table: SubgameTable, roots: jax.Array, inner: InnerValues, key: jax.Array, count: int
) -> tuple[Examples, jax.Array]:
  """Returns examples of inner nodes, drawn without replacement by how likely play reaches them.

  Args:
    table: with `inner`; I nodes a subgame.
    roots: `[B]` which subgames were searched.
    inner: their values, each array with a leading axis `[B]`.
    key: consumed.
    count: nodes a lane.

  Returns:
    One example for each player, lane and node drawn, `[2 * B * K, ...]` with K the lesser of
    `count` and I, and which of them count `[2 * B * K]`: those of nodes that exist and that the
    average policy reaches at all often. An infostate has a value where its player's average policy
    goes there with it.
  """
  assert table.inner is not None
  weights = jnp.where(inner.reach >= MIN_REACH, inner.reach, 0.0)
  # The largest of Gumbel variables around the logarithms are a draw without replacement.
  scores = jnp.log(weights) + jax.random.gumbel(key, weights.shape, weights.dtype)
  drawn = jax.lax.top_k(scores, min(count, scores.shape[1]))[1]  # [B, K]

  def pick(x):
    rows = jax.vmap(lambda row, i: row[i])(x, drawn)
    return rows.reshape(-1, *rows.shape[2:])

  mask = inner.possible & (inner.own_reach >= MIN_OWN_REACH)
  examples = _by_player(
    pick(jnp.asarray(table.inner.features)[roots]),
    pick(inner.beliefs),
    pick(inner.values),
    pick(mask).astype(inner.values.dtype),
  )
  return examples, jnp.tile(pick(weights) > 0, 2)


def _by_player(
  features: jax.Array, beliefs: jax.Array, values: jax.Array, mask: jax.Array
) -> Examples:
  """Returns examples `[2 * R, ...]`, player 0's first, of `R` PBSs, arrays `[R, P, ...]`."""
  own_first = jnp.stack(
    [beliefs.reshape(len(beliefs), -1), beliefs[:, ::-1].reshape(len(beliefs), -1)]
  )
  return Examples(
    features=features.swapaxes(0, 1).reshape(-1, features.shape[-1]),
    beliefs=own_first.reshape(-1, own_first.shape[-1]),
    values=values.swapaxes(0, 1).reshape(-1, values.shape[-1]),
    mask=mask.swapaxes(0, 1).reshape(-1, values.shape[-1]),
  )


def make_policy_examples(targets: PolicyTargets) -> PolicyExamples:
  """Returns the examples that targets `[E, ...]` make."""
  query = targets.query
  return PolicyExamples(
    features=query.features,
    beliefs=query.beliefs.reshape(len(query.beliefs), -1),
    legal=query.legal.astype(jnp.uint8),
    policy=jnp.round(targets.policy * POLICY_STEPS).astype(jnp.uint8),
  )
