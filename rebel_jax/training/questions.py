"""The queue of questions that searches asked a network, which other searches solve (section 3.4.2).

It is a `Replay`, and how many were taken out of it: the newest overwrite the oldest.
"""

from typing import Any

import jax
import jax.numpy as jnp

from rebel_jax.training import replay as replays
from rebel_jax.training.replay import Replay


def take(waiting: Replay, taken: jax.Array, number: int) -> tuple[Any, jax.Array, jax.Array]:
  """Takes questions out of the queue, the longest waiting first.

  Args:
    waiting: the queue.
    taken: `[]` how many were taken before.
    number: S, how many to take, if there are.

  Returns:
    Questions `[S, ...]`, which of them there are `[S]`, and how many were taken then.
  """
  first = jnp.maximum(taken, waiting.added - waiting.capacity)
  places = first + jnp.arange(number, dtype=first.dtype)
  asked = replays.at(waiting, places % waiting.capacity)
  return asked, places < waiting.added, jnp.minimum(first + number, waiting.added)


def choose(
  key: jax.Array, there: jax.Array, active: jax.Array, shares: tuple[float, float]
) -> jax.Array:
  """Chooses which searches leave a question: as many as the shares say, if there are.

  Args:
    key: a random key.
    there: `[B + S]` which searches have asked anything, those of play first.
    active: `[S]` which of the others there were.
    shares: of the searches of play, and of the others.

  Returns:
    `[B + S]` bool.
  """
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
  """Chooses so many of those that are there at random, all if they are fewer: `[M]` bool."""
  order = jnp.where(there, jax.random.uniform(key, there.shape), 2.0)
  return there & (jnp.argsort(jnp.argsort(order)).astype(number.dtype) < number)
