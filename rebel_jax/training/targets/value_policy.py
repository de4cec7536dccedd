"""Targets of value-and-policy networks: searches of PBSs that others queried (section 3.4)."""

from collections.abc import Mapping
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from games import Game
from rebel_jax.config import Config
from rebel_jax.networks.value import ValuePolicyNetwork
from rebel_jax.training.chain_play import Solved
from rebel_jax.training.targets.target import Target, array, pbs_arrays


def errors(
  network: ValuePolicyNetwork, predicted: tuple[jax.Array, jax.Array], examples: Solved
) -> tuple[jax.Array, jax.Array]:
  """Returns Huber losses of values, then KL of policies, and their weights: `[E, 3, H]` each."""
  values, logits = predicted
  chex.assert_equal_shape([values, examples.values, examples.value_weight])
  of_values = optax.huber_loss(values, examples.values)
  of_policy = divergence(logits, examples.policy, examples.comes_from >= 0)
  weights = [examples.value_weight, network.policy_weight * examples.policy_weight[:, None]]
  return jnp.concatenate([of_values, of_policy[:, None]], axis=1), jnp.concatenate(weights, axis=1)


def divergence(logits: jax.Array, target: jax.Array, legal: jax.Array) -> jax.Array:
  """Returns KL(target || softmax of logits) at each infostate, zero without a target: `[E, H]`."""
  # All are `[E, M, H]`.
  learned = jax.nn.log_softmax(jnp.where(legal, logits, -1e9), axis=1)
  gain = jax.scipy.special.xlogy(target, target) - target * learned
  return jnp.where(legal, gain, 0.0).sum(axis=1)


def make_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
  """Returns the target of searches in trees that grow, None for ReBeL's."""
  if (network := networks.get("value_policy")) is None:
    return None
  features, beliefs = pbs_arrays(game)
  number, actions = game.num_infostates, network.num_actions
  return Target(
    name="value_policy",
    network=network,
    learning=config.learning,
    example=Solved(
      features,
      beliefs,
      values=array(2, number),
      value_weight=array(2, number),
      policy=array(actions, number),
      comes_from=array(actions, number, dtype=jnp.int32),
      policy_weight=array(number),
    ),
    errors=errors,
    held_out=True,
  )
