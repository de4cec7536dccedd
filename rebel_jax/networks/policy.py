"""The policy network on public belief states (ReBeL, section 5.3 and appendix E)."""

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from rebel_jax.networks.value import ValueNetwork, in_type_of
from solvers import StateAnswer, StateQuery
from solvers.search import PolicyQuery


class PolicyNetwork(nn.Module):
  """Maps a PBS, from the mover's seat, to each infostate's probabilities of actions.

  Attributes:
    trunk: an MLP with `num_actions * H` outputs.
    num_actions: A.
  """

  trunk: ValueNetwork
  num_actions: int

  def __call__(self, features: jax.Array, beliefs: jax.Array, legal: jax.Array) -> jax.Array:
    """Returns probabilities `[R, A, H]`, zero for actions outside of `legal` `[R, A]`.

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


class ValuePolicyNetwork(nn.Module):
  """Maps a PBS, from the mover's seat, to both players' values and the mover's policy.

  Attributes:
    trunk: an MLP with `(2 + num_actions) * H` outputs.
    num_actions: A.
    policy_weight: of policies in the loss, where values weigh one.
  """

  trunk: ValueNetwork
  num_actions: int
  policy_weight: float = 0.05

  def __call__(self, features: jax.Array, beliefs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns values `[R, P, H]`, the mover's first, and logits `[R, A, H]` of its moves.

    Args:
      features: `[R, F]`.
      beliefs: `[R, 2 * H]`, the mover's first.
    """
    return self.decode(self.encode(features), beliefs)

  def encode(self, features: jax.Array) -> Any:
    """Returns the first layer's share of the public features `[R, F]`: `[R, width]`."""
    return self.trunk.encode(features)

  def decode(self, encoded: Any, beliefs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the result of `__call__` from that of `encode`."""
    outputs = self.trunk.decode(encoded, beliefs)
    rows = outputs.reshape(len(outputs), 2 + self.num_actions, -1)
    return rows[:, :2], rows[:, 2:]


@dataclasses.dataclass(frozen=True)
class NetworkStates:
  """A value-and-policy network as growing searches ask it; compared by value."""

  network: ValuePolicyNetwork

  def __call__(self, params: Any, query: StateQuery) -> StateAnswer:
    """Answers a query."""
    encoded = query.encoded
    if encoded is None:
      assert query.features is not None
      encoded = self.encode(params, query.features)
    beliefs = query.beliefs.reshape(len(query.beliefs), -1)
    own = params["value_policy"]
    answers = self.network.apply(own, encoded, in_type_of(own, beliefs), method="decode")
    return StateAnswer(*(jnp.asarray(x, beliefs.dtype) for x in answers))

  def encode(self, params: Any, features: jax.Array) -> Any:
    """Returns queries' field `encoded`, rows `[R, ...]`, from their `features` `[R, F]`."""
    features = in_type_of(params["value_policy"], features)
    return self.network.apply(params["value_policy"], features, method="encode")
