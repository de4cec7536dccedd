"""The optimizers by name."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from solvers import tuning

if TYPE_CHECKING:  # Optax takes long to load; functions import it
  import optax

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024, and Optax's
_STEPS = 5
_LEAST_NORM = 1e-30
# The order of products below cancels large terms: factors of 10 bits, as NVIDIA's GPUs would round
# them, leave matrices of small singular values wrong by tens of per cent.
_product = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


def orthogonalised(x: jax.Array) -> jax.Array:
  """Returns the matrix of `x`'s singular vectors and singular values near its norm, `[m, n]`."""
  # Newton and Schulz's iteration as Optax has it, `x <- a x + b (x x') x + c (x x')^2 x` from the
  # matrix over its norm, but for the order of the products: those with the long side, which are
  # nearly all of the work where the other is short, are made twice instead of twice a step.
  if x.shape[0] > x.shape[1]:
    return orthogonalised(x.T).T
  norm = jnp.maximum(jnp.linalg.norm(x), _LEAST_NORM)
  one = jnp.eye(len(x), dtype=x.dtype)
  scaled = x / norm
  a, b, c = _COEFFICIENTS

  def step(_, factors):  # all are polynomials of one symmetric matrix, so their order is free
    square, factor = factors
    step = a * one + b * square + _product(c * square, square)
    return _product(_product(step, square), step), _product(step, factor)

  # A loop is quicker to compile, and takes an accelerator more kernels.
  start, unroll = (_product(scaled, scaled.T), one), not tuning.on_cpu()
  _, factor = jax.lax.fori_loop(0, _STEPS, step, start, unroll=unroll)
  return norm * _product(factor, scaled)


def _adam(learning_rate: "optax.ScalarOrSchedule") -> "optax.GradientTransformation":
  """Returns Adam, as in the ReBeL paper."""
  import optax

  return optax.adam(learning_rate)


def _muon(learning_rate: "optax.ScalarOrSchedule") -> "optax.GradientTransformation":
  """Momentum with each matrix replaced by its nearest orthogonal one; vectors by Adam."""
  import optax

  # Without steps of its own Optax's leaves the direction of momentum, as long as the update is.
  direction = optax.contrib.muon(learning_rate, ns_steps=0)
  return optax.chain(direction, optax.stateless(lambda updates, _: _orthogonal_matrices(updates)))


def _orthogonal_matrices(updates: Any) -> Any:
  """Returns `updates` with each matrix orthogonalised, those of one size together."""
  arrays, structure = jax.tree.flatten(updates)
  sizes = {i: tuple(sorted(x.shape)) for i, x in enumerate(arrays) if x.ndim == 2}
  if not tuning.on_cpu():  # zeros around a matrix stay zeros, and kernels cost more than zeros
    sizes = dict.fromkeys(sizes, tuple(map(max, zip(*sizes.values()))))
  for size in set(sizes.values()):
    places = [i for i in sizes if sizes[i] == size]
    wide = [x if x.shape[0] <= x.shape[1] else x.T for x in (arrays[i] for i in places)]
    rows = [jnp.pad(x, [(0, m - n) for m, n in zip(size, x.shape)]) for x in wide]
    found = jax.vmap(orthogonalised)(jnp.stack(rows))
    for i, x, y in zip(places, wide, found):
      cut = y[: x.shape[0], : x.shape[1]]
      arrays[i] = cut if x is arrays[i] else cut.T
  return jax.tree.unflatten(structure, arrays)


OPTIMIZERS: "dict[str, Callable[[optax.ScalarOrSchedule], optax.GradientTransformation]]" = {
  "adam": _adam,
  "muon": _muon,  # Jordan et al. 2024
}
