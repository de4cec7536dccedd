"""Networks on PBSs (values, policies, both; ReBeL, appendix E), on infostates, and one's own."""

import dataclasses
import functools
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp

from rebel_jax.networks.names import ACTIVATIONS
from solvers import LeafQuery, StateAnswer, StateQuery
from solvers.search import PolicyQuery


def product(x: jax.Array, kernel: jax.Array, precision: str, dtype: Any = None) -> jax.Array:
  """Returns `x @ kernel`, `[R, outputs]`, in `dtype`, by default the kernel's."""
  if precision.startswith("bfloat16"):
    factors = (x.astype(jnp.bfloat16), kernel.astype(jnp.bfloat16))
    return jnp.matmul(*factors, preferred_element_type=dtype or kernel.dtype)
  if precision == "tensorfloat32":
    # Devices without the format multiply the rounded factors in float32, which is the same.
    x, kernel = (jax.lax.reduce_precision(y, 8, 10) for y in (x, kernel))
    return jnp.matmul(x, kernel, precision="tensorfloat32")
  return jnp.matmul(x, kernel, precision="highest" if precision == "float32" else None)


def with_roots(beliefs: jax.Array, num_roots: int) -> jax.Array:
  """Returns beliefs `[R, B]` and their successive square roots: `[R, (1 + num_roots) * B]`."""
  inputs = [beliefs]
  for _ in range(num_roots):
    inputs.append(jnp.sqrt(inputs[-1]))
  return jnp.concatenate(inputs, axis=-1)


class Layer(nn.Module):
  """A linear layer, the mean of its outputs taken out if a normalisation follows."""

  # LayerNorm subtracts each row's mean over the units. Subtracting from every input's weights, and
  # from the biases, their own mean over the units does the same, and does it to the weights once
  # instead of to the rows in every iteration of a search.

  width: int  # units
  use_bias: bool = True
  centred: bool = False  # whether each row's outputs have mean zero
  precision: str = "default"  # one of `names.PRECISIONS`
  hidden: bool = False  # another layer follows, and `bfloat16_activations` rounds the outputs

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns `[R, width]` from `[R, inputs]`."""
    # Outputs go to memory, where a search moves little else: half as many bytes.
    halved = self.hidden and self.precision == "bfloat16_activations"
    dtype = jnp.bfloat16 if halved else None
    kernel = self.param("kernel", nn.initializers.lecun_normal(), (x.shape[-1], self.width))
    if self.centred:
      kernel = kernel - kernel.mean(axis=-1, keepdims=True)
    y = product(x, kernel, self.precision, dtype)
    if self.use_bias:
      bias = self.param("bias", nn.initializers.zeros, (self.width,))
      y = y.astype(bias.dtype) + (bias - bias.mean() if self.centred else bias)[None]
    return y if dtype is None else y.astype(dtype)


_SLICE = 32  # floats: two of AVX-512's registers, four of AVX2's


def mean_square(x: jax.Array) -> jax.Array:
  """Returns each row's mean of squares, `[R, 1]` from `[R, width]`."""
  if x.shape[-1] % _SLICE:
    return _mean_square(x)
  return jax.lax.platform_dependent(x, cpu=_mean_square_of_slices, default=_mean_square)


def _mean_square(x):
  return (x * x).mean(axis=-1, keepdims=True)


def _mean_square_of_slices(x):
  # XLA adds up a row one number after the other on a CPU, as rounding depends on the order. Whole
  # slices are added as vectors, and a product, whose order is free, adds up what is left.
  slices = jnp.split(x * x, x.shape[-1] // _SLICE, axis=-1)
  weights = jnp.full((_SLICE, 1), 1 / x.shape[-1], x.dtype)
  return jnp.matmul(functools.reduce(jnp.add, slices), weights, precision="highest")


class Norm(nn.Module):
  """The rest of LayerNorm for rows whose mean is zero already: scaling to variance one."""

  epsilon: float = 1e-6

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns `[R, width]` from `[R, width]`."""
    scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
    bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
    return x * jax.lax.rsqrt(mean_square(x) + self.epsilon) * scale[None] + bias[None]


class ValueNetwork(nn.Module):
  """An MLP from a PBS, seen from one player's seat, to that player's infostate values."""

  num_infostates: int  # H
  hidden_layers: int = 2
  width: int = 256
  activation: str = "gelu"  # a key of `ACTIVATIONS`
  # successive square roots that are inputs too: they tell apart beliefs near zero
  belief_roots: int = 0
  precision: str = "default"  # of products, one of `names.PRECISIONS`
  centre: bool = True  # hidden layers take the means out of their weights; else they have none

  def setup(self):
    """Makes the layers."""
    hidden = functools.partial(
      Layer, self.width, centred=self.centre, precision=self.precision, hidden=True
    )
    self.public = hidden(name="public")
    self.beliefs = hidden(use_bias=False, name="beliefs")
    self.hidden = [hidden() for _ in range(self.hidden_layers - 1)]
    self.norms = [Norm() for _ in range(self.hidden_layers)]
    self.out = Layer(self.num_infostates, precision=self.precision, name="out")

  def encode(self, features: jax.Array) -> Any:
    """Returns the first layer's share of the public features, once a search: `[R, width]`."""
    return self.public(features)

  def encode_both(self, features: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
    """Returns `encode` of the public features as each player sees them, `[R, F]` both."""
    return self.encode(features[0]), self.encode(features[1])

  def decode(self, encoded: Any, beliefs: jax.Array) -> jax.Array:
    """Returns values `[R, H]` from `encode`'s result and beliefs `[R, 2 * H]`, own ones first."""
    return self.layers(encoded, with_roots(beliefs, self.belief_roots))

  def layers(self, public: jax.Array, inputs: jax.Array) -> jax.Array:
    """Returns outputs `[R, H]` from the first layer's share `public` and its other `inputs`."""
    dtype = inputs.dtype  # what happens between products is in full precision
    x = public.astype(dtype) + self.beliefs(inputs).astype(dtype)
    for i in range(self.hidden_layers):
      if i > 0:
        x = self.hidden[i - 1](x).astype(dtype)
      x = ACTIVATIONS[self.activation](self.norms[i](x))
    return self.out(x)

  def __call__(self, features: jax.Array, beliefs: jax.Array) -> jax.Array:
    """Returns values `[R, H]` from public features `[R, F]` and beliefs `[R, 2 * H]`."""
    return self.decode(self.encode(features), beliefs)

  def unit(self, features: jax.Array) -> jax.Array | None:
    """Returns the unit of values in the loss, `[R, 1]`; None for the game's own units."""
    return None


def in_type_of(params: Any, arrays: Any) -> Any:
  """Returns arrays in the type of a network's parameters, which the search's may not be."""
  dtype = jax.tree.leaves(params)[0].dtype
  return jax.tree.map(lambda x: jnp.asarray(x, dtype), arrays)


@dataclasses.dataclass(frozen=True)
class NetworkFunction:
  """A network as searches ask it, with parameters by name; equal ones share compiled solvers."""

  network: Any
  name: ClassVar[str]

  def encode(self, params: Any, features: jax.Array) -> Any:
    """Returns queries' field `encoded`, rows `[R, ...]`, from their `features` `[R, F]`."""
    own = params[self.name]
    return self.network.apply(own, in_type_of(own, features), method="encode")

  def arguments(self, params: Any, query: Any, beliefs: jax.Array) -> tuple[Any, Any, jax.Array]:
    """Returns the arguments of `decode` for beliefs `[R, 2 * H]` of a query."""
    encoded = self.encode(params, query.features) if query.encoded is None else query.encoded
    return params[self.name], encoded, in_type_of(params[self.name], beliefs)


# A program that asks for both players, or at several stages, traces the network once.
@functools.partial(jax.jit, static_argnums=0)
def _decode(network: Any, params: Any, encoded: Any, beliefs: jax.Array) -> Any:
  return network.apply(params, encoded, beliefs, method="decode")


@dataclasses.dataclass(frozen=True)
class NetworkLeafValues(NetworkFunction):
  """A value network as the `leaf_values` that solvers ask."""

  name = "value"

  def __call__(self, params: Any, query: LeafQuery) -> jax.Array:
    """Answers a query: `[R, H]` values from the traverser's seat."""
    if query.value_beliefs is not None:
      raise ValueError(
        "leaf_values=network answers values at one PBS, but the algorithm asks with two "
        "(sound CFR-AVG); use the modified form, or an exact oracle"
      )
    own = query.beliefs[:, query.traverser]
    other = query.beliefs[:, 1 - query.traverser]
    arguments = self.arguments(params, query, jnp.concatenate([own, other], axis=-1))
    return jnp.asarray(_decode(self.network, *arguments), own.dtype)

  def before_loop(self, params: Any, features: tuple[jax.Array, jax.Array]) -> tuple:
    """Returns a network and parameters without the weights' means, and both players' `encode`."""
    layers = params["value"]["params"]
    centred = {
      name: jax.tree.map(lambda x: x - x.mean(axis=-1, keepdims=True), layer)
      for name, layer in layers.items()
      if name in ("public", "beliefs") or name.startswith("hidden")
    }
    ready, params = (
      self.network.clone(centre=False),
      params | {"value": {"params": layers | centred}},
    )
    features = in_type_of(params["value"], features)
    encoded = ready.apply(params["value"], features, method="encode_both")
    return NetworkLeafValues(ready), params, encoded


class OrderedNetwork(ValueNetwork):
  """An MLP that sees beliefs, and answers, in the order of the infostates at the public state."""

  # So a place means much the same everywhere, and what is learned of the strongest infostate of one
  # public state holds of that of another. The answers come back in the game's own order.

  places: int = 0  # H; the last H features are the order (`games.Game.orders_infostates`)

  def encode(self, features: jax.Array) -> Any:
    """Returns a share of the first layer, infostates at places, places of infostates, `[R, H]`."""
    order = features[:, -self.places :].astype(jnp.int32)
    return super().encode(features[:, : -self.places]), order, jnp.argsort(order, axis=1)

  def decode(self, encoded: Any, beliefs: jax.Array) -> jax.Array:
    """Returns outputs `[R, H]`, or of moves `[R, A * H]`, from beliefs, own ones first."""
    hidden, order, place = encoded
    inputs = with_roots(rearranged(beliefs, order), self.belief_roots)
    return rearranged(self.layers(hidden, inputs), place)


def rearranged(numbers: jax.Array, places: jax.Array) -> jax.Array:
  """Returns `numbers` `[R, N * H]` of infostates in the order `places` `[R, H]`."""
  rows, h = places.shape
  # Places are permutations; looking whether they are within bounds takes as long as the gather.
  several = numbers.reshape(rows, -1, h)
  found = jnp.take_along_axis(several, places[:, None], axis=2, mode="promise_in_bounds")
  return found.reshape(rows, -1)


class PolicyNetwork(nn.Module):
  """Maps a PBS, from the mover's seat, to each infostate's probabilities of actions."""

  trunk: ValueNetwork  # an MLP with `num_actions * H` outputs
  num_actions: int  # A

  def __call__(self, features: jax.Array, beliefs: jax.Array, legal: jax.Array) -> jax.Array:
    """Returns probabilities `[R, A, H]`, zero for actions outside of `legal` `[R, A]`."""
    outputs = self.trunk(features, beliefs)
    logits = outputs.reshape(len(outputs), self.num_actions, -1)
    exists = legal[:, :, None] > 0
    # Where no action exists, as in rows of padding, zeros instead of NaN.
    return jnp.where(exists, jax.nn.softmax(jnp.where(exists, logits, -1e9), axis=1), 0.0)


@dataclasses.dataclass(frozen=True)
class NetworkPolicy(NetworkFunction):
  """A policy network as the function that solvers ask."""

  name = "policy"

  def __call__(self, params: Any, query: PolicyQuery) -> jax.Array:
    """Answers a query: `[R, A, H]`."""
    beliefs = query.beliefs.reshape(len(query.beliefs), -1)
    inputs = in_type_of(params["policy"], (query.features, beliefs))
    return jnp.asarray(self.network.apply(params["policy"], *inputs, query.legal), beliefs.dtype)


class ValuePolicyNetwork(nn.Module):
  """Maps a PBS, from the mover's seat, to both players' values and the mover's policy."""

  trunk: ValueNetwork  # an MLP with `(2 + num_actions) * H` outputs
  num_actions: int  # A
  policy_weight: float = 0.05  # of policies in the loss, where values weigh one

  def __call__(self, features: jax.Array, beliefs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns values `[R, P, H]`, the mover's first, and logits `[R, A, H]` of its moves."""
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
class NetworkStates(NetworkFunction):
  """A value-and-policy network as growing searches ask it."""

  name = "value_policy"

  def __call__(self, params: Any, query: StateQuery) -> StateAnswer:
    """Answers a query."""
    beliefs = query.beliefs.reshape(len(query.beliefs), -1)
    answers = _decode(self.network, *self.arguments(params, query, beliefs))
    return StateAnswer(*(jnp.asarray(x, beliefs.dtype) for x in answers))


class MoveNetwork(nn.Module):
  """Maps an infostate and the public actions before it to a number for each move (Deep CFR)."""

  trunk: ValueNetwork  # an MLP with M outputs
  num_infostates: int  # H
  num_actions: int  # A, public actions
  num_moves: int  # M

  def __call__(self, features: jax.Array, history: jax.Array, place: jax.Array) -> jax.Array:
    """Returns `[R, M]` from features `[R, F]`, actions before, -1 to fill up, and places `[R]`.

    `[R, K, M]` from places `[R, K]` of several infostates.
    """
    actions = jax.nn.one_hot(history, self.num_actions, dtype=features.dtype)
    public = jnp.concatenate([features, actions.reshape(len(features), -1)], axis=1)
    encoded = jnp.repeat(self.trunk.encode(public), place[0].size, axis=0)
    own = jax.nn.one_hot(place.reshape(-1), self.num_infostates, dtype=features.dtype)
    return self.trunk.decode(encoded, own).reshape(*place.shape, self.num_moves)


class OwnNetwork(ValueNetwork):
  """A module of features and beliefs as searches ask it; nothing is made of features alone."""

  module: Any = None  # answers `[R, outputs]` from `[R, F]` and `[R, 2 * H]`

  def setup(self):
    """Makes no layers: the module has its own."""

  def encode(self, features: jax.Array) -> Any:
    return features

  def decode(self, encoded: Any, beliefs: jax.Array) -> jax.Array:
    return self.module(encoded, beliefs)
