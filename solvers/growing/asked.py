"""Questions of a growing search about its leaves, and the priors that come of the answers."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.game import CHANCE
from solvers.growing.states import StateFunction, StateQuery, ask_some, seat_of
from solvers.growing.store import Store


class Asked(NamedTuple):
  """One of a search's questions, each as likely as any other.

  Attributes:
    node: `[]` a leaf of that moment, as the store places it.
    beliefs: `[P, H]` there, player 0's first.
    total: `[]` how many questions there were.
  """

  node: jax.Array
  beliefs: jax.Array
  total: jax.Array

  @classmethod
  def nothing(cls, problem: Any) -> "Asked":
    """Returns the empty record of questions."""
    zero = jnp.zeros((), jnp.int32)
    return cls(zero, jnp.zeros((2, problem.num_infostates), problem.tree.dtype), zero)


def answer(
  network: StateFunction,
  params: Any,
  store: Store,
  query: StateQuery,
  temperature: float,
  wanted: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
  """Returns both players' values `[L, P, H]` and priors `[L, M, H]` of a store's leaves.

  Args:
    network, params: a function of (params, query), and its first argument.
    store: which states there are.
    query: `beliefs` player 0's first.
    temperature: see `GTCFR`.
    wanted: `[L]` whose answers count; None for all.
  """
  movers = store.movers
  query = query._replace(beliefs=seat_of(movers, query.beliefs))
  found = network(params, query) if wanted is None else ask_some(network, params, query, wanted)
  dtype = store.prior.dtype
  values = seat_of(movers, found.values).astype(dtype)
  return values, prior_of(store, (found.logits / temperature).astype(dtype))


def prior_of(store: Store, logits: jax.Array) -> jax.Array:
  """Returns the softmax of logits `[L, M, H]` over open moves; uniform where chance moves.

  Logits of more moves than the store's are left out: those of chance's outcomes.
  """
  legal = store.open
  logits = jnp.where((store.movers < CHANCE)[:, None, None], logits[:, : legal.shape[1]], 0.0)
  most = jnp.where(legal, logits, -jnp.inf).max(axis=1, keepdims=True)
  weights = jnp.where(legal, jnp.exp(logits - jnp.where(jnp.isfinite(most), most, 0.0)), 0.0)
  total = weights.sum(axis=1, keepdims=True)
  return weights / jnp.maximum(total, jnp.finfo(logits.dtype).tiny)


def note(asked: Asked, problem: Any, beliefs: jax.Array, numbers: jax.Array) -> Asked:
  """Draws between what was asked before and the questions about the leaves of one update.

  Args:
    asked: what was drawn so far.
    problem: whose leaves are asked about.
    beliefs: `[L, P, H]` at all rows.
    numbers: `[2]` random ones.
  """
  wanted = problem.is_frontier()
  seen = jnp.cumsum(wanted, dtype=jnp.int32)
  number = seen[-1]
  row = jnp.argmax(seen.astype(numbers.dtype) > numbers[0] * number.astype(numbers.dtype))
  total = asked.total + number
  is_new = numbers[1] * total.astype(numbers.dtype) < number.astype(numbers.dtype)
  new = Asked(problem.rows[row].astype(jnp.int32), beliefs[row], total)
  return jax.tree.map(lambda x, y: jnp.where(is_new, x, y), new, asked._replace(total=total))
