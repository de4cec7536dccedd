"""Lanes served a few at a time, and no more of them than there are."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def in_pieces(serve: Callable, groups: Any, active: jax.Array, piece: int) -> Any:
  """Serves `piece` lanes at a time, until all that are active are served.

  Args:
    serve: from arrays `[piece, ...]` of lanes to others.
    groups: arrays `[C, ...]`.
    active: `[C]` which lanes are served; they stand before all others.
    piece: static, less than C.

  Returns:
    Arrays `[C, ...]`, zero where no lane was served.
  """
  capacity = len(active)

  def body(i: jax.Array, done: Any) -> Any:
    # The last piece may begin among the lanes of the one before it, and does these again.
    start = jnp.minimum(i * piece, capacity - piece)
    cut = jax.tree.map(lambda x: lax.dynamic_slice_in_dim(x, start, piece), groups)
    return jax.tree.map(
      lambda x, y: lax.dynamic_update_slice_in_dim(x, y, start, axis=0), done, serve(cut)
    )

  like = jax.eval_shape(serve, jax.tree.map(lambda x: x[:piece], groups))
  empty = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)
  return lax.fori_loop(0, -(-active.sum() // piece), body, empty)
