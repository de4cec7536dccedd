"""Networks that see infostates in an order that each public state has for them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rebel_jax.networks.value import ValueNetwork, with_roots


class Encoded(NamedTuple):
  """An ordered network's encoding of public features.

  Attributes:
    hidden: `[R, width]` their share of the first layer.
    order: `[R, H]` the infostate at each place.
    place: `[R, H]` each infostate's place.
  """

  hidden: jax.Array
  order: jax.Array
  place: jax.Array


class OrderedNetwork(ValueNetwork):
  """An MLP that sees beliefs, and answers, in the order of the infostates at the public state.

  So a place means much the same everywhere, and what is learned of the strongest infostate of one
  public state holds of that of another. The answers come back in the game's own order.

  Attributes:
    places: H, infostates of a player; the last H features are the order
      (`games.Game.orders_infostates`).
  """

  places: int = 0

  def encode(self, features: jax.Array) -> Any:
    """Returns what the public features `[R, F]` say."""
    order = features[:, -self.places :].astype(jnp.int32)
    hidden = super().encode(features[:, : -self.places])
    return Encoded(hidden, order, jnp.argsort(order, axis=1))

  def decode(self, encoded: Any, beliefs: jax.Array, **how: Any) -> jax.Array:
    """Returns the outputs from `encode`'s result and beliefs `[R, 2 * H]`, own ones first.

    Outputs are those of infostates, `[R, H]`, or of moves and infostates, `[R, A * H]`.
    """
    ordered = rearranged(beliefs, encoded.order)
    outputs = self.layers(encoded.hidden, with_roots(ordered, self.belief_roots), **how)
    return rearranged(outputs, encoded.place)


def rearranged(numbers: jax.Array, places: jax.Array) -> jax.Array:
  """Returns `numbers` `[R, N * H]` of infostates in the order `places` `[R, H]`."""
  rows, h = places.shape
  # Places are permutations; looking whether they are within bounds takes as long as the gather.
  several = numbers.reshape(rows, -1, h)
  found = jnp.take_along_axis(several, places[:, None], axis=2, mode="promise_in_bounds")
  return found.reshape(rows, -1)
