"""Tables of 16 bits with a scale for each line and board."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# Of bfloat16's seven bits, increments of later iterations are lost: it stops at 0.2 % of the pot.
KINDS = ("float16", "int16")


class Packed(NamedTuple):
  """Rows of numbers in 16 bits.

  Attributes:
    values: `[..., n, W]` integers, or floats of 16 bits.
    scale: `[..., n, boards]` what one of them is worth on each board.
  """

  values: jax.Array
  scale: jax.Array


def empty(chunks: int, rows: int, boards: int, width: int, kind: str, dtype: Any) -> Packed:
  """Returns zeros of so many chunks of boards: `[chunks, rows, width]`."""
  values = jnp.zeros((chunks, rows, width), kind)
  return Packed(values, jnp.zeros((chunks, rows, boards), dtype))


def pack(rows: jax.Array, boards: int, kind: str) -> Packed:
  """Packs rows `[n, W]` of so many boards; the largest number of a row and board fits exactly."""
  parts = rows.reshape(len(rows), boards, -1)
  largest = jnp.abs(parts).max(axis=2, keepdims=True)
  scale = largest / (jnp.iinfo(kind).max if kind == "int16" else 1.0)
  scaled = parts / jnp.where(scale > 0, scale, 1.0)
  scaled = jnp.round(scaled) if kind == "int16" else scaled
  return Packed(scaled.astype(kind).reshape(rows.shape), scale[..., 0])


def unpack(packed: Packed) -> jax.Array:
  """Returns the rows, to the rounding of `pack`: `[n, W]`."""
  rows, boards = packed.scale.shape
  parts = packed.values.reshape(rows, boards, -1).astype(packed.scale.dtype)
  return (parts * packed.scale[..., None]).reshape(rows, -1)


def is_packed(x: Any) -> bool:
  """Says whether a leaf of a table is packed."""
  return isinstance(x, Packed)
