"""How a simulation chooses, whatever its tree is kept in: PUCT, the policy, chance (section 3.2.2).

Everything here is about one node and the infostate that its mover holds.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Scores this close are equal: sums that were taken in another order must not decide.
_TIE = 1e-6


class Rules(NamedTuple):
  """How simulations choose; see `GTCFR`."""

  puct: float
  puct_share: float
  children: int | None
  scale: jax.Array | float  # the largest payoff


class Options(NamedTuple):
  """What the mover may do, and what the last update says of it: `[K]` of each.

  Attributes:
    open: whether there is such a move.
    policy: that is followed half of the time.
    prior: how likely the network thinks it.
    value: expected payoff; of a move that is not in the tree, the node's own.
    visits: how often it was simulated.
    recent: the part of `visits` since the last update.
  """

  open: jax.Array
  policy: jax.Array
  prior: jax.Array
  value: jax.Array
  visits: jax.Array
  recent: jax.Array


def choose_move(key: jax.Array, share_key: jax.Array, options: Options, rules: Rules) -> jax.Array:
  """Returns which option a simulation takes: PUCT's, or one sampled from the policy."""
  followed = jnp.where(options.open, options.policy, 0.0)
  followed = jnp.where(followed.sum() > 0, followed, options.open)
  by_policy = sample_index(key, followed)
  by_puct = puct(options, rules)
  return jnp.where(jax.random.uniform(share_key) < rules.puct_share, by_puct, by_policy)


def puct(options: Options, rules: Rules) -> jax.Array:
  """Returns the option of the highest score, the first of those that tie."""
  value, visits, recent = options.value / rules.scale, options.visits, options.recent
  # Visits since the last update count as losses, so that simulations of one batch spread.
  lost = (visits * value - recent) / jnp.maximum(visits + recent, 1.0)
  value = jnp.where(recent > 0, lost, value)
  total = jnp.where(options.open, visits, 0.0).sum()
  score = value + rules.puct * options.prior * jnp.sqrt(total) / (1.0 + visits)
  score = jnp.where(options.open, score, -jnp.inf)
  return jnp.argmax(score >= score.max() - _TIE).astype(jnp.int32)


def best_moves(likely: jax.Array, there: jax.Array, moves: jax.Array, rules: Rules) -> jax.Array:
  """Returns which children of a leaf are added: `[A]` bool.

  Args:
    likely: `[A]` how likely the mover's infostate takes each move, negative where it cannot.
    there: `[A]` which children there are.
    moves: whether a player moves there; all of chance's outcomes are added.
    rules: of which `children` counts.
  """
  if rules.children is None:
    return there
  rank = jnp.argsort(jnp.argsort(-likely, stable=True), stable=True)
  return there & (~moves | (rank < rules.children))


def sample_index(key: jax.Array, weights: jax.Array) -> jax.Array:
  """Samples an index by weights `[n]`; the first where all are zero.

  It takes one random number, so that zeros among the weights, which are the children that only one
  kind of tree has a place for, change nothing.
  """
  weights = jnp.maximum(weights, 0.0)
  sums = jnp.cumsum(weights)
  point = jax.random.uniform(key, dtype=weights.dtype) * sums[-1]
  found = (sums <= point).sum()
  # Rounding may lead beyond the last weight.
  last = len(weights) - 1 - jnp.argmax(weights[::-1] > 0)
  return jnp.where(sums[-1] > 0, jnp.minimum(found, last), 0).astype(jnp.int32)
