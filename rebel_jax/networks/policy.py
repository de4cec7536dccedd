"""The policy network on public belief states (ReBeL, section 5.3 and appendix E)."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from rebel_jax.networks.value import ValueNetwork, in_type_of
from solvers.search.policy_start import PolicyQuery


class PolicyNetwork(nn.Module):
  """Maps a PBS, from the mover's seat, to each infostate's probabilities of actions.

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
    return jnp.where(exists, jax.nn.softmax(jnp.where(exists, logits, -1e9), axis=1), 0.0)


@dataclasses.dataclass(frozen=True)
class NetworkPolicy:
  """A policy network as the function that solvers ask; compared by value."""

  network: PolicyNetwork

  def __call__(self, params: Any, query: PolicyQuery) -> jax.Array:
    """Answers a query: `[R, A, H]`."""
    beliefs = query.beliefs.reshape(len(query.beliefs), -1)
    inputs = in_type_of(params["policy"], (query.features, beliefs))
    probabilities = self.network.apply(params["policy"], *inputs, query.legal)
    return jnp.asarray(probabilities, beliefs.dtype)
