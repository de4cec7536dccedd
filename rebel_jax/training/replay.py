"""A circular buffer of training examples that lives on the device.

Rows of at least a thousand numbers, such as beliefs over the 1,326 hands of hold'em, are kept in 16
bits, each with a scale of its own; what is sampled has the type that was added.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from solvers.half import from_half, half_zeros, is_half, to_half

# Numbers of a row that is kept in 16 bits. Of less, a buffer is small anyway.
_LONG = 1_000


class Replay(NamedTuple):
  """A circular buffer of `capacity` examples.

  Attributes:
    examples: arrays `[capacity, ...]`, or `Half` of them.
    added: `[]` how many examples were ever added; the newest overwrite the oldest.
  """

  examples: Any
  added: jax.Array

  @property
  def capacity(self) -> int:
    """Number of examples that fit."""
    return jax.tree.leaves(self.examples)[0].shape[0]


def make_replay(example: Any, capacity: int) -> Replay:
  """Returns an empty buffer of examples that have the shapes and dtypes of `example`."""

  def empty(x: Any) -> Any:
    if not _is_long(x):
      return jnp.zeros((capacity, *x.shape), x.dtype)
    return half_zeros((capacity, *x.shape), x.dtype)

  return Replay(jax.tree.map(empty, example), jnp.zeros((), jnp.int32))


def add(replay: Replay, examples: Any, valid: jax.Array) -> Replay:
  """Adds those of `examples` that `valid` `[E]` marks, which must not exceed the capacity."""
  chex.assert_rank(valid, 1)
  chex.assert_tree_shape_prefix(examples, valid.shape)
  packed = jax.tree.map(lambda x: to_half(x) if _is_long(x) else x, examples)
  chex.assert_trees_all_equal_dtypes(replay.examples, packed)
  rank = jnp.cumsum(valid, dtype=jnp.int32) - 1
  slot = (replay.added + rank) % replay.capacity
  slot = jnp.where(valid, slot, replay.capacity)  # out of range: dropped
  stored = jax.tree.map(lambda x, y: x.at[slot].set(y, mode="drop"), replay.examples, packed)
  return Replay(stored, replay.added + valid.sum(dtype=jnp.int32))


def sample(replay: Replay, key: jax.Array, batch_size: int) -> Any:
  """Samples `batch_size` examples uniformly, with replacement, of those in the buffer."""
  size = jnp.minimum(replay.added, replay.capacity)
  index = jax.random.randint(key, (batch_size,), 0, jnp.maximum(size, 1))
  return at(replay, index)


def at(replay: Replay, places: jax.Array) -> Any:
  """Returns the examples at `places` of the buffer, of the type that was added."""
  chosen = jax.tree.map(lambda x: x[places], replay.examples)
  return jax.tree.map(lambda x: from_half(x) if is_half(x) else x, chosen, is_leaf=is_half)


def _is_long(x: Any) -> bool:
  return x.ndim > 0 and x.shape[-1] >= _LONG and jnp.issubdtype(x.dtype, jnp.floating)
