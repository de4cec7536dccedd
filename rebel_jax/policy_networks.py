"""The policy network on public belief states (ReBeL, section 5.3 and appendix E)."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from rebel_jax.networks import ValueNetwork
from solvers.policy_network import PolicyQuery, SearchPolicy


class PolicyNetwork(nn.Module):
  """From a PBS, seen by the player who moves, to how likely each infostate takes each action.

  Attributes:
    trunk: an MLP with `num_actions * H` outputs.
    num_actions: A.
  """

  trunk: ValueNetwork
  num_actions: int

  def __call__(self, features: jax.Array, beliefs: jax.Array, legal: jax.Array) -> jax.Array:
    """Returns probabilities `[R, A, H]`, zero for actions that `legal` `[R, A]` says do not exist.

    Args:
      features: `[R, F]`.
      beliefs: `[R, 2 * H]`, own ones first.
      legal: `[R, A]`, 1 or 0.
    """
    outputs = self.trunk(features, beliefs)
    logits = outputs.reshape(len(outputs), self.num_actions, -1)
    exists = legal[:, :, None] > 0
    # Where no action exists, as in rows of padding, zeros instead of NaN.
    return jax.nn.softmax(jnp.where(exists, logits, -1e9), axis=1) * exists


@dataclasses.dataclass(frozen=True)
class NetworkPolicy:
  """A policy network as the function that solvers ask; compared by value."""

  network: PolicyNetwork

  def __call__(self, params: Any, query: PolicyQuery) -> jax.Array:
    """Answers a query: `[R, A, H]`."""
    beliefs = query.beliefs.reshape(len(query.beliefs), -1)
    probabilities = self.network.apply(params["policy"], query.features, beliefs, query.legal)
    return jnp.asarray(probabilities)


def as_search_policy(network: PolicyNetwork | None) -> SearchPolicy | None:
  """Returns a policy network as searches use it; None for none."""
  return None if network is None else SearchPolicy(NetworkPolicy(network), network.num_actions)


def init_params(
  value: ValueNetwork,
  policy: PolicyNetwork | None,
  key: jax.Array,
  num_features: int,
  num_infostates: int,
) -> Any:
  """Returns fresh parameters of a value network; a dict of both networks' if there is a policy."""
  features, beliefs = jnp.zeros((1, num_features)), jnp.zeros((1, 2 * num_infostates))
  params = value.init(key, features, beliefs)
  if policy is None:
    return params
  legal = jnp.ones((1, policy.num_actions))
  policy_params = policy.init(jax.random.fold_in(key, 1), features, beliefs, legal)
  return {"value": params, "policy": policy_params}
