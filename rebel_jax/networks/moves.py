"""The network on infostates (Deep CFR): a number for each move of one infostate."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from rebel_jax.networks.value import ValueNetwork, in_type_of


class MoveNetwork(nn.Module):
  """Maps an infostate, public actions before it among its inputs, to a number for each move.

  Attributes:
    trunk: an MLP with M outputs.
    num_infostates: H.
    num_actions: A, public actions.
    num_moves: M.
  """

  trunk: ValueNetwork
  num_infostates: int
  num_actions: int
  num_moves: int

  def __call__(self, features: jax.Array, history: jax.Array, place: jax.Array) -> jax.Array:
    """Returns `[R, M]`.

    Args:
      features: `[R, F]` of the public state.
      history: `[R, L]` public actions before it, -1 to fill up.
      place: `[R]` the infostate's place among the public state's.
    """
    actions = jax.nn.one_hot(history, self.num_actions, dtype=features.dtype)
    public = jnp.concatenate([features, actions.reshape(len(features), -1)], axis=1)
    return self.trunk(public, jax.nn.one_hot(place, self.num_infostates, dtype=features.dtype))


def answers(network: nn.Module, params: Any, decisions: Any, which: slice) -> jax.Array:
  """Returns a network's numbers for the moves of all infostates of some decisions: `[D, M, H]`."""
  place = jnp.asarray(decisions.place)[which]
  inputs = (jnp.asarray(x)[which] for x in (decisions.features, decisions.history))
  features, history = (jnp.repeat(x, place.shape[1], axis=0) for x in inputs)
  found = network.apply(params, in_type_of(params, features), history, place.reshape(-1))
  return jnp.asarray(found).reshape(*place.shape, -1).swapaxes(1, 2)
