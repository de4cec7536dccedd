"""Regret matching on batches of matrix games, compiled as one scan; shares no code with solvers."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Played(NamedTuple):
  """What regret matching has done on a batch of matrices; each array has a leading axis `[B]`.

  Attributes:
    done: `[B]` the number of iterations, weighed.
    sums: of both players' policies.
    regrets: sums of both players' regrets.
  """

  done: jax.Array
  sums: tuple[jax.Array, jax.Array]
  regrets: tuple[jax.Array, jax.Array]

  @property
  def averages(self):
    return [x / self.done[..., None] for x in self.sums]


def nothing(matrices):
  zeros = jnp.zeros(matrices.shape[:-1])
  return Played(zeros[:, 0], (zeros, zeros), (zeros, zeros))


def matched(regrets):
  positive = jnp.maximum(regrets, 0)
  total = positive.sum()
  return jnp.where(total > 0, positive / jnp.where(total > 0, total, 1), 1 / regrets.size)


def distance(matrix, rows, columns):
  return (matrix @ columns).max() - (rows @ matrix).min()


def _below(values, norm):
  """Returns u with `norm(max(values - u, 0)) = norm`: with the n largest, a quadratic equation."""
  order = jnp.sort(values)[::-1]
  count = jnp.arange(1.0, order.size + 1)
  mean, squares = jnp.cumsum(order) / count, jnp.cumsum(order**2) / count
  root = mean - jnp.sqrt(jnp.maximum(norm**2 / count - (squares - mean**2), 0))
  # The least n whose next value is not above u, so that it adds nothing.
  right = root >= jnp.append(order[1:], -jnp.inf)
  return root[jnp.argmax(right)]


def substitute_regrets(matrix, averages, iterations, share=None):
  """Returns sums of regret by substitute values (thesis, section 3.2.4), in closed form.

  `share` is lambda; None for the least that lets both be worth no more than zero together.
  """
  rows, columns = averages
  moves = matrix @ columns, -(rows @ matrix)
  most = rows.size * (matrix.max() - matrix.min()) ** 2 / iterations

  def values(root):
    return [_below(x, root * jnp.sqrt(most)) for x in moves]

  def halve(_, ends):
    middle = sum(ends) / 2
    right = sum(values(middle)) <= 0
    return jnp.where(right, ends[0], middle), jnp.where(right, middle, ends[1])

  if share is None:
    root = lax.fori_loop(0, 50, halve, (jnp.zeros(()), jnp.ones(())))[1]
  else:
    root = jnp.sqrt(share)
  return [iterations * (x - u) for x, u in zip(moves, values(root))]


@functools.partial(jax.jit, static_argnums=2)
@functools.partial(jax.vmap, in_axes=(0, 0, None))
def play(matrices, start, length, anew=None):
  """Goes on for `length` iterations; returns what was done and the distances `[B, length]`.

  `anew(matrix, averages, iterations)` replaces the sums of regret before every iteration.
  """
  return _play(matrices, start, length, anew)


def _play_one(matrix, start, length, anew):
  def step(played, _):
    regrets = played.regrets
    if anew is not None:
      first = played.done == 0
      averages = [x / jnp.where(first, 1, played.done) for x in played.sums]
      again = anew(matrix, averages, jnp.where(first, 1, played.done))
      regrets = tuple(jnp.where(first, r, a) for r, a in zip(regrets, again))
    rows, columns = map(matched, regrets)
    worth = matrix @ columns, -(rows @ matrix)
    played = Played(
      played.done + 1,
      (played.sums[0] + rows, played.sums[1] + columns),
      tuple(r + w - w @ p for r, w, p in zip(regrets, worth, (rows, columns))),
    )
    return played, distance(matrix, *(x / played.done for x in played.sums))

  return lax.scan(step, start, None, length)


_play = jax.jit(jax.vmap(_play_one, in_axes=(0, 0, None, None)), static_argnums=(2, 3))
