"""Choices of a simulation in any store: PUCT, the policy, chance (section 3.2.2).

Everything here is about one node and the infostate that its mover holds.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import Array
from solvers.growing.settings import GTCFR

# Random numbers that a step of a simulation takes: two for a move, one for chance.
NUMBERS = 3
# Rounds whose numbers are drawn together: drawing takes as long for few numbers as for many.
_AT_ONCE = 32
# Scores this close are equal: sums that were taken in another order must not decide.
_TIE = 1e-6
Carry = TypeVar("Carry")


class Rules(NamedTuple):
  """How simulations choose; see `GTCFR`."""

  puct: float
  children: int | None
  scale: Array | float  # the largest payoff
  puct_share: float = 0.5  # of PUCT's moves; the others follow the policy


class MoveOptions(NamedTuple):
  """The mover's options with values and counts of the last update: `[K]` of each.

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


class Numbers(NamedTuple):
  """The random numbers of one round of a search, which do not depend on what it finds.

  Attributes:
    pairs: `[simulations, 2]` of the infostates at the root.
    walks: `[most steps, simulations, NUMBERS]`.
    notes: `[updates, 2]` of which question is kept.
  """

  pairs: jax.Array
  walks: jax.Array
  notes: jax.Array

  @classmethod
  def draw(cls, key: jax.Array, search: GTCFR, steps: int) -> "Numbers":
    """Draws those of a round of `search` whose walks take at most so many steps."""
    pairs, walks, notes = jax.random.split(key, 3)
    return cls(
      draw(pairs, search.per_round, 2),
      draw(walks, steps, search.per_round, NUMBERS),
      draw(notes, search.updates_per_round, 2),
    )


def in_rounds(
  take: Callable[[Numbers, Carry], Carry],
  carry: Carry,
  key: jax.Array,
  rounds: int | jax.Array,
  search: GTCFR,
  steps: int,
) -> Carry:
  """Takes the rounds of a search in turn.

  Args:
    take: one round: its numbers and the carry to the next carry.
    carry: before the first.
    key: of the search.
    rounds: how many; may be traced.
    search, steps: what they consist of, see `Numbers.draw`.
  """
  draw_round = jax.vmap(lambda i: Numbers.draw(jax.random.fold_in(key, i), search, steps))

  def some(j, carry):
    first = j * _AT_ONCE
    numbers = draw_round(first + jnp.arange(_AT_ONCE))

    def one(i, carry):
      return take(jax.tree.map(lambda x: x[i - first], numbers), carry)

    return lax.fori_loop(first, jnp.minimum(first + _AT_ONCE, rounds), one, carry)

  return lax.fori_loop(0, -(-rounds // _AT_ONCE), some, carry)


def choose_move(numbers: jax.Array, options: MoveOptions, rules: Rules) -> jax.Array:
  """Returns a simulation's option: PUCT's, or one sampled from the policy.

  Args:
    numbers: `[2]` random ones.
    options: the moves.
    rules: of the choice.
  """
  followed = jnp.where(options.open, options.policy, 0.0)
  followed = jnp.where(followed.sum() > 0, followed, options.open.astype(followed.dtype))
  by_policy = sample_index(numbers[0], followed)
  by_puct = puct(options, rules)
  return jnp.where(numbers[1] < rules.puct_share, by_puct, by_policy)


def puct(options: MoveOptions, rules: Rules) -> jax.Array:
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
