"""Networks by name: the library's, and modules of one's own."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax

# (config, game, outputs) -> a module of features `[R, F]` and beliefs `[R, 2 * H]`, own ones first,
# that answers `[R, outputs]`: values of infostates, or as many numbers for each of several answers.
# None for the library's own.
NETWORKS: dict[str, Callable[[Any, Any, int], nn.Module] | None] = {"mlp": None, "showdowns": None}


class OwnNetwork(nn.Module):
  """A module of features and beliefs as searches ask it, which may encode features once.

  Attributes:
    module: answers `[R, outputs]` from `[R, F]` and `[R, 2 * H]`.
  """

  module: nn.Module
  fused: bool = False
  centre: bool = False

  def encode(self, features: jax.Array) -> jax.Array:
    """Returns the features, of which such a module makes nothing by themselves."""
    return features

  def encode_both(self, features: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
    """Returns the features as each player sees them."""
    return features

  def decode(self, encoded: jax.Array, beliefs: jax.Array) -> jax.Array:
    """Returns the module's answers from the result of `encode`."""
    return self.module(encoded, beliefs)

  def __call__(self, features: jax.Array, beliefs: jax.Array) -> jax.Array:
    """Returns the module's answers."""
    return self.module(features, beliefs)

  def unit(self, features: jax.Array) -> None:
    """Returns None: the loss is in the game's own units."""
    del features
