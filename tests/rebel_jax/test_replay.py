"""The replay buffer: what is sampled is what was added, long rows to 16 bits."""

import jax
import jax.numpy as jnp
import numpy as np

from rebel_jax.training import replay as replays
from solvers.half import from_half, to_half

LONG = 1_326


def examples(key, number):
  """Returns beliefs that fall off over six powers of ten, values in chips, and short features."""
  keys = jax.random.split(key, 3)
  beliefs = 10.0 ** jax.random.uniform(keys[0], (number, LONG), minval=-6, maxval=0)
  return {
    "features": jax.random.normal(keys[1], (number, 5)),
    "beliefs": beliefs / beliefs.sum(axis=1, keepdims=True),
    "values": 20_000 * jax.random.normal(keys[2], (number, LONG)),
    "cards": jnp.tile(jnp.arange(LONG, dtype=float), (number, 1)),
    "policy": jnp.tile(jnp.arange(LONG) % 256, (number, 1)).astype(jnp.uint8),
  }


def kept(added):
  """Returns a buffer with `added` in it, and 512 samples of it."""
  like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), added)
  replay = replays.add(replays.make_replay(like, 64), added, jnp.ones(32, bool))
  return replay, replays.sample(replay, jax.random.key(1), 512)


def test_samples_are_what_was_added():
  added = examples(jax.random.key(0), 32)
  replay, sampled = kept(added)
  assert {name: x.dtype for name, x in sampled.items()} == {
    name: x.dtype for name, x in added.items()
  }
  # Features are short, and tell the examples.
  number = np.abs(sampled["features"][:, None] - added["features"]).sum(axis=-1).argmin(axis=1)
  assert len(np.unique(number)) == 32
  true = jax.tree.map(lambda x: np.asarray(x)[number], added)
  for exact in ("features", "cards", "policy"):
    np.testing.assert_array_equal(sampled[exact], true[exact])
  apart = np.abs(sampled["beliefs"] - true["beliefs"]).sum(axis=1) / 2
  assert 0 < apart.max() < 2e-4
  np.testing.assert_allclose(sampled["beliefs"], true["beliefs"], rtol=2**-10, atol=1e-9)
  np.testing.assert_allclose(sampled["values"], true["values"], rtol=2**-10, atol=0.01)
  stored = {name: x.nbytes for name, x in jax.tree.map(jnp.asarray, added).items()}
  half = sum(x.nbytes for x in replay.examples["beliefs"])
  assert half < 1.01 * stored["beliefs"]  # 64 places, 32 of them filled


def test_rows_of_zeros_and_without_a_scale_of_their_own():
  zeros = from_half(to_half(jnp.zeros((2, LONG))))
  np.testing.assert_array_equal(zeros, 0.0)
  chips = 1e6 * jax.random.normal(jax.random.key(0), (2, LONG))
  assert jnp.isfinite(from_half(to_half(chips))).all()
  assert not jnp.isfinite(chips.astype(jnp.float16)).all()  # what a scale is for
