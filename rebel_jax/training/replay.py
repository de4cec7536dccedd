"""A circular buffer of training examples that lives on the device."""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp


class Replay(NamedTuple):
  """A circular buffer of `capacity` examples.

  Attributes:
    examples: arrays `[capacity, ...]`.
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
  empty = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), example)
  return Replay(empty, jnp.zeros((), jnp.int32))


def add(replay: Replay, examples: Any, valid: jax.Array) -> Replay:
  """Adds those of `examples` that `valid` `[E]` marks, which must not exceed the capacity."""
  chex.assert_rank(valid, 1)
  chex.assert_tree_shape_prefix(examples, valid.shape)
  chex.assert_trees_all_equal_dtypes(replay.examples, examples)
  rank = jnp.cumsum(valid) - 1
  slot = (replay.added + rank) % replay.capacity
  slot = jnp.where(valid, slot, replay.capacity)  # out of range: dropped
  stored = jax.tree.map(lambda x, y: x.at[slot].set(y, mode="drop"), replay.examples, examples)
  return Replay(stored, replay.added + valid.sum(dtype=jnp.int32))


def sample(replay: Replay, key: jax.Array, batch_size: int) -> Any:
  """Samples `batch_size` examples uniformly, with replacement, of those in the buffer."""
  size = jnp.minimum(replay.added, replay.capacity)
  index = jax.random.randint(key, (batch_size,), 0, jnp.maximum(size, 1))
  return jax.tree.map(lambda x: x[index], replay.examples)
