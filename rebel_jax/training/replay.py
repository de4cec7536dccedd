"""A circular buffer of examples, and a queue of questions (Player of Games, section 3.4.1).

Rows of a thousand numbers or more are kept in 16 bits, each with a scale of its own.
"""

from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp

from solvers.half import from_half, half_zeros, is_half, to_half

# Numbers of a row that is kept in 16 bits. Of less, a buffer is small anyway.
_LONG = 1_000


class Replay(NamedTuple):
  """A circular buffer of `capacity` examples; the newest overwrite the oldest."""

  examples: Any  # arrays `[capacity, ...]`, or `Half` of them
  added: jax.Array  # `[]` examples ever added

  @property
  def capacity(self) -> int:
    """Number of examples that fit."""
    return jax.tree.leaves(self.examples)[0].shape[0]


def make_replay(example: Any, capacity: int) -> Replay:
  """Returns an empty buffer of examples that have the shapes and dtypes of `example`."""

  def empty(x: Any) -> Any:
    zeros = half_zeros if _is_long(x) else jnp.zeros
    return zeros((capacity, *x.shape), x.dtype)

  return Replay(jax.tree.map(empty, example), jnp.zeros((), jnp.int32))


def add(replay: Replay, examples: Any, valid: jax.Array) -> Replay:
  """Adds those of `examples` that `valid` `[E]` marks, which must not exceed the capacity."""
  chex.assert_rank(valid, 1)
  chex.assert_tree_shape_prefix(examples, valid.shape)
  packed = jax.tree.map(lambda x: to_half(x) if _is_long(x) else x, examples)
  chex.assert_trees_all_equal_dtypes(replay.examples, packed)
  slot = (replay.added + (jnp.cumsum(valid, dtype=jnp.int32) - 1)) % replay.capacity
  return _stored(replay, jnp.where(valid, slot, replay.capacity), packed, valid)


def add_evenly(replay: Replay, key: jax.Array, examples: Any, valid: jax.Array) -> Replay:
  """Adds those of `examples` that `valid` `[E]` marks by reservoir sampling (Vitter 1985)."""
  number = replay.added + jnp.cumsum(valid, dtype=jnp.int32) - 1  # added before each of them
  drawn = jax.random.randint(key, number.shape, 0, jnp.maximum(number, 0) + 1, number.dtype)
  slot = jnp.where(number < replay.capacity, number, drawn)
  slot = jnp.where(valid, jnp.minimum(slot, replay.capacity), replay.capacity)
  order = jnp.arange(len(valid), dtype=jnp.int32)  # of those for one slot the newest stays
  newest = jnp.full(replay.capacity + 1, -1, jnp.int32).at[slot].max(order)
  slot = jnp.where(newest[slot] == order, slot, replay.capacity)
  return _stored(replay, slot, examples, valid)


def _stored(replay: Replay, slot: jax.Array, examples: Any, valid: jax.Array) -> Replay:
  """Writes examples into slots `[E]`, none into the one that equals the capacity."""
  stored = jax.tree.map(lambda x, y: x.at[slot].set(y, mode="drop"), replay.examples, examples)
  return Replay(stored, replay.added + valid.sum(dtype=jnp.int32))


def sample(replay: Replay, key: jax.Array, batch_size: int) -> Any:
  """Samples `batch_size` examples uniformly, with replacement, of those in the buffer."""
  size = jnp.minimum(replay.added, replay.capacity)
  return at(replay, jax.random.randint(key, (batch_size,), 0, jnp.maximum(size, 1)))


def at(replay: Replay, places: jax.Array) -> Any:
  """Returns the examples at `places` of the buffer, of the type that was added."""
  chosen = jax.tree.map(lambda x: x[places], replay.examples)
  return jax.tree.map(lambda x: from_half(x) if is_half(x) else x, chosen, is_leaf=is_half)


def _is_long(x: Any) -> bool:
  return x.ndim > 0 and x.shape[-1] >= _LONG and jnp.issubdtype(x.dtype, jnp.floating)


def take(waiting: Replay, taken: jax.Array, number: int) -> tuple[Any, jax.Array, jax.Array]:
  """Takes the S oldest questions: `[S, ...]`, which of them exist `[S]`, and the number taken."""
  first = jnp.maximum(taken, waiting.added - waiting.capacity)
  places = first + jnp.arange(number, dtype=first.dtype)
  asked = at(waiting, places % waiting.capacity)
  return asked, places < waiting.added, jnp.minimum(first + number, waiting.added)


def choose(
  key: jax.Array, there: jax.Array, active: jax.Array, shares: tuple[float, float]
) -> jax.Array:
  """Draws the searches that leave a question, by the shares of play and solvers: `[B + S]`."""
  # `there` `[B + S]`: which searches asked anything, those of play first; `active` `[S]`: which
  # of the others exist.
  lanes = len(there) - len(active)
  play, solve, round_key = *jnp.split(there, [lanes]), jax.random.fold_in(key, 1)
  up = jax.random.uniform(round_key, (2,))
  number = lanes * shares[0], active.sum(dtype=up.dtype) * shares[1]
  keys = jax.random.split(key)
  return jnp.concatenate(
    [
      _choose(keys[0], play, jnp.floor(number[0] + up[0]).astype(jnp.int32)),
      _choose(keys[1], solve & active, jnp.floor(number[1] + up[1]).astype(jnp.int32)),
    ]
  )


def _choose(key: jax.Array, there: jax.Array, number: jax.Array) -> jax.Array:
  """Draws a `number` of the searches `there`, all if they are fewer: `[M]` bool."""
  order = jnp.where(there, jax.random.uniform(key, there.shape), 2.0)
  return there & (jnp.argsort(jnp.argsort(order)).astype(number.dtype) < number)
