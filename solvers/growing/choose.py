"""How a simulation chooses, whatever its tree is kept in: PUCT, the policy, chance (section 3.2.2).

Everything here is about one node and the infostate that its mover holds.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Random numbers that a step of a simulation takes: two for a move, one for chance.
NUMBERS = 3
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


def draw(key: jax.Array, *shape: int) -> jax.Array:
  """Draws numbers from 0 to 1; those of a longer first axis begin with the same ones."""
  return jax.random.uniform(key, shape)


def choose_move(numbers: jax.Array, options: Options, rules: Rules) -> jax.Array:
  """Returns which option a simulation takes: PUCT's, or one sampled from the policy.

  Args:
    numbers: `[2]` random ones.
    options: the moves.
    rules: of the choice.
  """
  followed = jnp.where(options.open, options.policy, 0.0)
  followed = jnp.where(followed.sum() > 0, followed, options.open)
  by_policy = sample_index(numbers[0], followed)
  by_puct = puct(options, rules)
  return jnp.where(numbers[1] < rules.puct_share, by_puct, by_policy)


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


def sample_index(number: jax.Array, weights: jax.Array) -> jax.Array:
  """Returns the index that a random number stands for, by weights `[n]`; 0 where all are zero.

  It takes one number, so that zeros among the weights, which are the children that only one
  kind of tree has a place for, change nothing.
  """
  weights = jnp.maximum(weights, 0.0)
  sums = jnp.cumsum(weights)
  point = number.astype(weights.dtype) * sums[-1]
  found = (sums <= point).sum()
  # Rounding may lead beyond the last weight.
  last = len(weights) - 1 - jnp.argmax(weights[::-1] > 0)
  return jnp.where(sums[-1] > 0, jnp.minimum(found, last), 0).astype(jnp.int32)
