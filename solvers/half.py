"""Numbers kept in 16 bits, each row with a scale of its own."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Half(NamedTuple):
  """Rows of numbers in 16 bits."""

  # A number is off by at most 2**-11 of itself or, below 2**-14 of the row's largest, by at most
  # 2**-24 of that largest. Zeros are exact, and so are whole numbers up to 2,048.
  numbers: jax.Array  # `[..., n]` float16, less than one in size
  scale: jax.Array  # `[...]` powers of two, of the rows' type


def half_zeros(shape: tuple[int, ...], dtype: Any) -> Half:
  """Returns zeros of `shape` in 16 bits, of rows of `dtype`."""
  return Half(jnp.zeros(shape, jnp.float16), jnp.ones(shape[:-1], dtype))


def to_half(rows: Any) -> Half:
  """Returns `rows` `[..., n]` in 16 bits; NumPy's stay on the host, not copied in their type."""
  xp: Any = np if isinstance(rows, np.ndarray) else jnp
  largest = jnp.abs(rows).max(-1) if xp is jnp else np.maximum(rows.max(-1), -rows.min(-1))
  _, exponent = xp.frexp(largest)
  scale = xp.ldexp(xp.ones((), rows.dtype), exponent)
  if xp is jnp:
    return Half((rows / scale[..., None]).astype(jnp.float16), scale)
  numbers: Any = np.empty(rows.shape, np.float16)
  np.divide(rows, scale[..., None], out=numbers, casting="unsafe", dtype=rows.dtype)
  return Half(numbers, scale)


def from_half(half: Half) -> jax.Array:
  """Returns the rows, of the type that they had."""
  return half.numbers.astype(half.scale.dtype) * half.scale[..., None]


def is_half(x: Any) -> bool:
  """Says whether `x` is kept in 16 bits."""
  return isinstance(x, Half)
