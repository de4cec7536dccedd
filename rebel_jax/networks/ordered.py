"""Networks that see infostates in an order that each public state has for them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rebel_jax.networks.value import ValueNetwork


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
    rows, h = encoded.order.shape
    ordered = _rearranged(beliefs.reshape(rows, 2, h), encoded.order)
    outputs = super().decode(encoded.hidden, ordered.reshape(rows, 2 * h), **how)
    return _rearranged(outputs.reshape(rows, -1, h), encoded.place).reshape(rows, -1)


def _rearranged(numbers: jax.Array, places: jax.Array) -> jax.Array:
  """Returns `numbers` `[R, N, H]` of the infostates at `places` `[R, H]`."""
  # Places are permutations; looking whether they are within bounds takes as long as the gather.
  return jnp.take_along_axis(numbers, places[:, None], axis=2, mode="promise_in_bounds")
