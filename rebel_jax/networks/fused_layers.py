"""A network's layers as one kernel for NVIDIA's GPUs, in Pallas; it has no derivative.

Layer after layer, what a network passes on goes to memory and back, which is most of the traffic of
thousands of searches. Pallas is imported late: JAX announces that its Triton backend will go.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# What a block of rows passes on stays in registers, which hold no wider layers.
MAX_WIDTH = 256

# Rows that a block of threads takes through all layers. More warps share out the registers of wider
# layers; fewer leave room for several blocks side by side.
_ROWS = 64
_WARPS = ((128, 4), (MAX_WIDTH, 8))  # widths up to
# Tensor cores multiply tiles whose sides are powers of two and not below this.
_LEAST = 16
_MOST = 64


class LayerWeights(NamedTuple):
  """A layer: a product, and what follows it."""

  kernel: jax.Array  # `[inputs, outputs]`
  bias: jax.Array | None = None  # `[outputs]`
  scale: jax.Array | None = None  # `[outputs]`, of the normalisation to variance one that follows
  shift: jax.Array | None = None  # `[outputs]`, after the scale


def apply_layers(
  first: jax.Array,
  inputs: jax.Array,
  layers: Sequence[LayerWeights],
  *,
  activation: Callable[[jax.Array], jax.Array],
  precision: str,
  epsilon: float,
  interpret: bool = False,
) -> jax.Array:
  """Returns the last layer's outputs, `[R, outputs]` in float32, from inputs `[R, inputs]`."""
  # `first` `[R, width]` is added to the first layer's outputs. All layers but the last, which has
  # no normalisation, are of one width. `interpret` computes the kernel's steps with JAX, for tests.
  from jax.experimental import pallas as pl

  rows, width = first.shape
  if width > MAX_WIDTH:
    raise ValueError(f"width={width} must be at most {MAX_WIDTH} in one kernel")
  outputs = layers[-1].kernel.shape[1]
  sizes = [inputs.shape[1], *(width for _ in layers[1:]), outputs]
  tiles = [_tile(size) for size in sizes]
  sizes = [_round_up(size, tile) for size, tile in zip(sizes, tiles, strict=True)]
  block = min(_ROWS, max(_LEAST, 1 << (rows - 1).bit_length()))
  num_rows = _round_up(rows, block)
  num_warps = next(warps for widest, warps in _WARPS if width <= widest)

  dtype = jnp.bfloat16 if precision.startswith("bfloat16") else jnp.float32
  first = _pad(first, (num_rows, sizes[1]))
  inputs = _pad(inputs.astype(dtype), (num_rows, sizes[0]))
  weights: list[Any] = []
  for layer, shape in zip(layers, itertools.pairwise(sizes), strict=True):
    rest = (_pad(x.astype(jnp.float32), shape[1:]) if x is not None else None for x in layer[1:])
    weights.append(LayerWeights(_pad(layer.kernel.astype(dtype), shape), *rest))
  kernel = functools.partial(
    _kernel,
    width=width,
    tiles=tiles,
    activation=activation,
    exact=precision == "float32",
    epsilon=epsilon,
  )

  def rows_of(size):
    return pl.BlockSpec((block, size), lambda i: (i, 0))

  whole = jax.tree.map(lambda x: pl.BlockSpec(x.shape, lambda _: (0,) * x.ndim), weights)
  values = pl.pallas_call(
    kernel,
    out_shape=jax.ShapeDtypeStruct((num_rows, sizes[-1]), jnp.float32),
    grid=(num_rows // block,),
    in_specs=[rows_of(sizes[1]), rows_of(sizes[0]), whole],
    out_specs=rows_of(sizes[-1]),
    compiler_params=None if interpret else _compiler_params(num_warps),
    interpret=interpret,
    name="network_layers",
  )(first, inputs, weights)
  return values[:rows, :outputs]


def _compiler_params(num_warps: int) -> Any:
  """Returns Triton's parameters, or None where nothing is lowered for it."""
  try:
    from jax.experimental.pallas import triton
  except ImportError as error:
    if jax.default_backend() == "gpu":
      raise ImportError(
        f"fused_network=True needs Pallas' Triton backend, which JAX {jax.__version__} lacks; "
        "networks without it search layer by layer"
      ) from error
    return None
  return triton.CompilerParams(num_warps=num_warps, num_stages=1)


def _kernel(first, inputs, weights, values, *, width, tiles, activation, exact, epsilon):
  from jax.experimental import pallas as pl

  precision = jax.lax.Precision.HIGHEST if exact else jax.lax.Precision.HIGH  # HIGH is TF32
  multiply = functools.partial(jax.lax.dot, precision=precision, preferred_element_type=jnp.float32)
  dtype = weights[0].kernel.dtype
  hidden = range(first.shape[1] // tiles[1])

  def columns(i, tile):
    return pl.ds(i * tile, tile)

  def finish(layer, x):
    """Adds biases, normalises and activates `x`, a layer's outputs in pieces."""
    if layer.bias is not None:
      x = [y + layer.bias[columns(j, tiles[1])][None] for j, y in enumerate(x)]
    if layer.scale is not None:
      variance = sum((y * y).sum(axis=1) for y in x)[:, None] / width
      factor = jax.lax.rsqrt(variance + epsilon)
      for j in hidden:
        at = columns(j, tiles[1])
        x[j] = x[j] * factor * layer.scale[at][None] + layer.shift[at][None]
    # Products round their factors; what a layer passes on is a factor and nothing else.
    return [activation(y).astype(dtype) for y in x]

  def add_inputs(k, x):
    at = columns(k, tiles[0])
    y = inputs[:, at]
    kernel = weights[0].kernel
    return [x[j] + multiply(y, kernel[at, columns(j, tiles[1])]) for j in hidden]

  x = [first[:, columns(j, tiles[1])].astype(jnp.float32) for j in hidden]
  x = jax.lax.fori_loop(0, inputs.shape[1] // tiles[0], add_inputs, x)
  x = finish(weights[0], x)

  def product(x, kernel, j, tile):
    parts = (multiply(y, kernel[columns(k, tiles[1]), columns(j, tile)]) for k, y in enumerate(x))
    return functools.reduce(jnp.add, parts)

  for layer in weights[1:-1]:
    x = finish(layer, [product(x, layer.kernel, j, tiles[1]) for j in hidden])

  def store(j, _):
    at = columns(j, tiles[-1])
    y = product(x, weights[-1].kernel, j, tiles[-1])
    values[:, at] = y if weights[-1].bias is None else y + weights[-1].bias[at][None]

  jax.lax.fori_loop(0, values.shape[1] // tiles[-1], store, None)


def _tile(size: int) -> int:
  """Returns the side of the tiles that `size` is cut into: the largest that wastes no more."""
  tile = _MOST
  while tile > _LEAST and _round_up(size, tile) > _round_up(size, _LEAST):
    tile //= 2
  return tile


def _round_up(size: int, tile: int) -> int:
  return -(-size // tile) * tile


def _pad(x: jax.Array, shape: Sequence[int]) -> jax.Array:
  return jnp.pad(x, [(0, size - n) for n, size in zip(x.shape, shape, strict=True)])
