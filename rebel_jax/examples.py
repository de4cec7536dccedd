"""Training examples from searched subgames: values at their roots, policies at their decisions."""

import jax
import jax.numpy as jnp

from rebel_jax.replay import POLICY_STEPS, Examples, PolicyExamples
from solvers import hole_cards
from solvers.policy_network import PolicyTargets
from solvers.subgames import SubgameTable


def make_examples(
  table: SubgameTable, roots: jax.Array, beliefs: jax.Array, values: jax.Array
) -> Examples:
  """Returns one example for each player and lane, player 0's first: `[2 * B, ...]`."""
  features = jnp.asarray(table.trees.root_features)[roots]  # [B, P, F]
  if table.trees.hands is not None:
    # What sums that cancel leave of nothing is rounding.
    possible = hole_cards.compatible_mass(beliefs[:, ::-1]) > 1e-6
  else:
    weights = jnp.asarray(table.trees.pair_weights)[roots]
    weights = jax.vmap(lambda w, i: w[i])(weights, jnp.asarray(table.trees.root_pair_index)[roots])
    mass = jnp.stack(
      [
        jnp.einsum("bij,bj->bi", weights, beliefs[:, 1]),
        jnp.einsum("bij,bi->bj", weights, beliefs[:, 0]),
      ],
      axis=1,
    )
    possible = mass > 0
  mask = possible.astype(values.dtype)
  if table.trees.possible is not None:
    mask *= jnp.asarray(table.trees.possible)[roots, 0]
  own_first = jnp.stack([beliefs.reshape(len(roots), -1), beliefs[:, ::-1].reshape(len(roots), -1)])
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
