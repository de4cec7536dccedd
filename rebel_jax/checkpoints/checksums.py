"""Sums over the bits of arrays, by which a checkpoint that was changed is told from a good one."""

import json
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def of_arrays(tree: Any) -> int:
  """Returns a sum over all bits of a pytree of arrays, the same however they are laid out.

  Each word is scrambled together with its place, as hash functions do it, so that what differs
  differs in the sum, but for one case in four thousand million. It is computed where the arrays
  are; those of several processes must be given by all of them.
  """
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  sums = _sums([leaf for _, leaf in leaves])
  total = 0
  for (path, _), value in zip(leaves, sums):
    name = zlib.crc32(jax.tree_util.keystr(path, simple=True, separator="/").encode())
    total += int(value) * (2 * name + 1)
  return total % 2**32


def of_json(value: Any) -> int:
  """Returns a sum over what JSON makes of a value."""
  return zlib.crc32(json.dumps(value, sort_keys=True).encode())


@jax.jit
def _sums(leaves: list[jax.Array]) -> list[jax.Array]:
  return [_sum(leaf) for leaf in leaves]


def _sum(x: jax.Array) -> jax.Array:
  if x.dtype.itemsize < 4:
    x = x.astype(jnp.float32 if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int32)
  words = jax.lax.bitcast_convert_type(x, jnp.uint32)
  # Positions by broadcasting: a sharded array stays where it is.
  position = jnp.zeros(words.shape, jnp.uint32)
  stride = 1
  for axis in reversed(range(words.ndim)):
    iota = jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
    position += iota * np.uint32(stride % 2**32)
    stride *= words.shape[axis]
  return _scramble(words ^ _scramble(position)).sum(dtype=jnp.uint32)


def _scramble(x: jax.Array) -> jax.Array:
  """Returns a permutation of all words: the last step of MurmurHash3."""
  x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
  return x ^ (x >> 16)
