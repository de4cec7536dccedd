"""A circular buffer of training examples that lives on the device."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp


class Examples(NamedTuple):
  """Training examples of the value network, one for each solve and player.

  Attributes:
    features: `[E, F]` the root's public state from the player's seat.
    beliefs: `[E, 2 * H]` own beliefs, then the other's.
    values: `[E, H]` the root values that search found.
    mask: `[E, H]` 1 where the infostate has a value, else 0.
  """

  features: jax.Array
  beliefs: jax.Array
  values: jax.Array
  mask: jax.Array


class PolicyExamples(NamedTuple):
  """Training examples of the policy network, one for each decision of a solved subgame.

  Attributes:
    features: `[E, F]` the public state as the player who moves sees it.
    beliefs: `[E, 2 * H]` own beliefs, then the other's.
    legal: `[E, A]` 1 for actions that exist, else 0.
    policy: `[E, A, H]` the average policy that search found, in steps of 1 / 255 (ReBeL, appendix
      E: linear quantization); zero for infostates that are impossible.
  """

  features: jax.Array
  beliefs: jax.Array
  legal: jax.Array
  policy: jax.Array


POLICY_STEPS = 255  # the largest number of a quantized probability


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
    """How many examples fit."""
    return self.examples.features.shape[0]


def make_replay(capacity: int, num_features: int, num_infostates: int) -> Replay:
  """Returns an empty buffer."""
  examples = Examples(
    features=jnp.zeros((capacity, num_features)),
    beliefs=jnp.zeros((capacity, 2 * num_infostates)),
    values=jnp.zeros((capacity, num_infostates)),
    mask=jnp.zeros((capacity, num_infostates)),
  )
  return Replay(examples, jnp.zeros((), jnp.int32))


def make_policy_replay(
  capacity: int, num_features: int, num_infostates: int, num_actions: int
) -> Replay:
  """Returns an empty buffer of examples of the policy network."""
  examples = PolicyExamples(
    features=jnp.zeros((capacity, num_features)),
    beliefs=jnp.zeros((capacity, 2 * num_infostates)),
    legal=jnp.zeros((capacity, num_actions), jnp.uint8),
    policy=jnp.zeros((capacity, num_actions, num_infostates), jnp.uint8),
  )
  return Replay(examples, jnp.zeros((), jnp.int32))


def add(replay: Replay, examples: Any, valid: jax.Array) -> Replay:
  """Adds those of `examples` that `valid` `[E]` marks, which must not exceed the capacity."""
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
