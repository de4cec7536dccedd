"""Names of networks, activations and roundings, apart from Flax, which takes long to load."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
  import flax.linen as nn

# (config, game, outputs) -> a module of features `[R, F]` and beliefs `[R, 2 * H]`, own ones first,
# that answers `[R, outputs]`: values of infostates, or as many numbers for each of several answers.
# None for the library's own.
NETWORKS: "dict[str, Callable[[Any, Any, int], nn.Module] | None]" = {
  "mlp": None,
  "showdowns": None,
}
ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
  # The tanh form of GELU: the papers do not say which, and it is the faster one on a CPU.
  "gelu": functools.partial(jax.nn.gelu, approximate=True),
  "relu": jax.nn.relu,
  "silu": jax.nn.silu,
}
# How the factors of products are rounded; sums are always float32. With `bfloat16_activations`
# what hidden layers pass on is rounded too.
PRECISIONS = ("default", "float32", "tensorfloat32", "bfloat16", "bfloat16_activations")
