"""One simulation of GT-CFR: choices by PUCT, the policy and chance, and the nodes that it adds.

Section 3.2.2 of Player of Games, in any store.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE
from games.public_tree import Array
from solvers import tuning
from solvers.growing.states import GTCFR
from solvers.growing.store import Moves, Store
from solvers.sweeps.problem import per_unit_of_mass
from solvers.xla import varying_alike

# Random numbers that a step of a simulation takes: two for a move, one for chance.
NUMBERS = 3
# Rounds whose numbers are drawn together: drawing takes as long for few numbers as for many.
_AT_ONCE = 32
_PUCT_SHARE = 0.5  # of moves; the others follow the policy
# Scores this close are equal: sums that were taken in another order must not decide.
_TIE = 1e-6
Carry = TypeVar("Carry")


class MoveOptions(NamedTuple):
  """The mover's options with values and counts of the last update: `[K]` of each."""

  open: jax.Array  # whether there is such a move
  policy: jax.Array  # that is followed half of the time
  prior: jax.Array  # how likely the network thinks it
  value: jax.Array  # expected payoff; of a move that is not in the tree, the node's own
  visits: jax.Array  # how often it was simulated
  recent: jax.Array  # the part of `visits` since the last update


class Numbers(NamedTuple):
  """The random numbers of one round of a search, which do not depend on what it finds."""

  pairs: jax.Array  # `[simulations, 2]` of the infostates at the root
  walks: jax.Array  # `[most steps, simulations, NUMBERS]`
  notes: jax.Array  # `[updates, 2]` of which question is kept

  @classmethod
  def draw(cls, key: jax.Array, search: GTCFR, steps: int) -> "Numbers":
    """Draws those of a round of `search` whose walks take at most so many steps."""
    # Walks of more steps begin with the same numbers.
    pairs, walks, notes = jax.random.split(key, 3)
    return cls(
      jax.random.uniform(pairs, (search.per_round, 2)),
      jax.random.uniform(walks, (steps, search.per_round, NUMBERS)),
      jax.random.uniform(notes, (search.updates_per_round, 2)),
    )


def in_rounds(
  take: Callable[[Numbers, Carry], Carry],
  carry: Carry,
  key: jax.Array,
  rounds: int | jax.Array,
  search: GTCFR,
  steps: int,
) -> Carry:
  """Takes the rounds of a search in turn."""
  draw_round = jax.vmap(lambda i: Numbers.draw(jax.random.fold_in(key, i), search, steps))

  def some(j, carry):
    first = j * _AT_ONCE
    numbers = draw_round(first + jnp.arange(_AT_ONCE))

    def one(i, carry):
      return take(jax.tree.map(lambda x: x[i - first], numbers), carry)

    return lax.fori_loop(first, jnp.minimum(first + _AT_ONCE, rounds), one, carry)

  return lax.fori_loop(0, -(-rounds // _AT_ONCE), some, carry)


def choose_move(
  numbers: jax.Array, options: MoveOptions, search: GTCFR, scale: Array | float
) -> jax.Array:
  """Returns a simulation's option: PUCT's, or one sampled from the policy."""
  followed = jnp.where(options.open, options.policy, 0.0)
  followed = jnp.where(followed.sum() > 0, followed, options.open.astype(followed.dtype))
  by_policy = sample_index(numbers[0], followed)
  return jnp.where(numbers[1] < _PUCT_SHARE, puct(options, search.puct, scale), by_policy)


def puct(options: MoveOptions, weight: float, scale: Array | float) -> jax.Array:
  """Returns the option of the highest score, the first of those that tie."""
  value, visits, recent = options.value / scale, options.visits, options.recent
  # Visits since the last update count as losses, so that simulations of one batch spread.
  lost = (visits * value - recent) / jnp.maximum(visits + recent, 1.0)
  value = jnp.where(recent > 0, lost, value)
  total = jnp.where(options.open, visits, 0.0).sum()
  score = value + weight * options.prior * jnp.sqrt(total) / (1.0 + visits)
  score = jnp.where(options.open, score, -jnp.inf)
  return jnp.argmax(score >= score.max() - _TIE).astype(jnp.int32)


def sample_index(number: jax.Array, weights: jax.Array) -> jax.Array:
  """Returns an index sampled by weights `[n]` from a uniform number; 0 where all are zero."""
  # It takes one number, so that weights of zero change nothing: they are children that one kind of
  # store has places for and the other has not.
  weights = jnp.maximum(weights, 0.0)
  sums = jnp.cumsum(weights)
  point = number.astype(weights.dtype) * sums[-1]
  found = (sums <= point).sum()
  # Rounding may lead beyond the last weight.
  last = len(weights) - 1 - jnp.argmax(weights[::-1] > 0)
  return jnp.where(sums[-1] > 0, jnp.minimum(found, last), 0).astype(jnp.int32)


# Walks of at most so many steps are taken in full on an accelerator: a step costs some 25 kernels,
# 40 microseconds, and a test of whether to go on waits for the host, which costs about as much.
_FEW_STEPS = 8


class Growth(NamedTuple):
  """What simulations leave behind."""

  store: Any  # the nodes
  visits: jax.Array  # `[C, M, H]` how often each move was simulated by each infostate


class View(NamedTuple):
  """What a simulation sees of the last update."""

  policy: jax.Array  # `[R, H]` that is followed half of the time
  values: tuple[jax.Array, jax.Array]  # for each player `[R, H]`, counterfactual, in its infostates
  mass: tuple[jax.Array, jax.Array]  # for each player `[L, H]`
  visits: jax.Array  # `[C, M, H]` as they were then


class _Walk(NamedTuple):
  """A walk so far: its last two nodes, and the moves on the way, of which chance's do not count."""

  node: jax.Array  # -1 where the move taken last is not in the tree
  before: jax.Array
  action: jax.Array
  hands: jax.Array  # [P]
  length: jax.Array
  path: jax.Array  # `[most moves, 4]` node, move, the mover's infostate, and whether it counts


def sample_pair(reach: Any, compatible_mass: Callable, numbers: jax.Array) -> jax.Array:
  """Samples both players' infostates of their `reach` `[H]` each, by their joint belief: `[2]`."""
  first = sample_index(numbers[0], reach[0] * compatible_mass(reach[1][None], 0)[0])
  held = jax.nn.one_hot(first, len(reach[0]), dtype=reach[0].dtype)
  second = sample_index(numbers[1], reach[1] * compatible_mass(held[None], 1)[0])
  return jnp.stack([first, second])


def simulate(
  view: View,
  growth: Growth,
  start: jax.Array,
  hands: jax.Array,
  numbers: jax.Array,
  search: GTCFR,
) -> tuple[Growth, jax.Array]:
  """Walks from `start` to a leaf or a move without a child, and adds the states below."""
  # Half of the moves are PUCT's, half follow the policy. A leaf of chance's gets all children,
  # one of a player's the `search.children` likeliest; a move without a child gets that child.
  store: Store = growth.store
  most = len(numbers)

  def step(walk: _Walk) -> _Walk:
    drawn, node, hands = numbers[walk.length], walk.node, walk.hands
    mover = store.kind[node]
    moves, player = mover < CHANCE, jnp.minimum(mover, 1)
    held = hands[player]
    found = store.moves(node, held)
    options = _options(view, growth, found, node, held, player)
    chosen = choose_move(drawn[:2], options, search, store.scale)
    action = found.action[chosen]
    if store.deals:
      action = jnp.where(moves, action, sample_index(drawn[2], store.dealt(node, hands)))
    after = store.turned(node, action, hands)
    moved = moves & (jnp.arange(2, dtype=jnp.int32) == player.astype(jnp.int32))
    now = jnp.arange(most, dtype=jnp.int32)[:, None] == walk.length
    taken = jnp.stack([x.astype(jnp.int32) for x in (node, chosen, held, moves)])
    return _Walk(
      store.children(node)[action],
      node,
      action,
      jnp.where(moved, found.leads_to[chosen], after),
      walk.length + 1,
      jnp.where(now, taken[None], walk.path),
    )

  def goes_on(walk: _Walk) -> jax.Array:
    return (walk.node >= 0) & (store.children(walk.node) >= 0).any()

  # Moves are kept as a path: tables of all nodes in the loop would be copied each step.
  start, hands, zero = (x.astype(jnp.int32) for x in (start, hands, jnp.zeros(())))
  first = _Walk(start, start, zero, hands, zero, jnp.zeros((most, 4), jnp.int32))
  first = varying_alike(first)
  if tuning.on_cpu() or most > _FEW_STEPS:
    end = lax.while_loop(goes_on, step, first)
  else:
    end = lax.fori_loop(
      0,
      most,
      lambda _, x: jax.tree.map(functools.partial(jnp.where, goes_on(x)), step(x), x),
      first,
    )
  missing = end.node < 0
  above = jnp.where(missing, end.before, end.node)
  is_action = jnp.arange(store.legal.shape[-1], dtype=jnp.int32) == end.action
  joins = jnp.where(missing, is_action, _joining(store, above, end.hands, search.children))
  joined, places = store.join(above, joins)
  *way, counts = end.path.T
  visits = growth.visits.at[tuple(way)].add(counts.astype(growth.visits.dtype))
  return Growth(joined, visits), places


def _joining(store: Store, leaf: jax.Array, hands: jax.Array, most: int | None) -> jax.Array:
  """Returns the actions whose children join a leaf, players holding `hands` `[P]`: `[A]` bool."""
  legal = store.legal[leaf]
  if most is None:
    return legal
  mover = store.kind[leaf]
  found = store.moves(leaf, hands[jnp.minimum(mover, 1)])
  likely = jnp.where(found.open, found.prior, -1.0)
  rank = jnp.argsort(jnp.argsort(-likely, stable=True), stable=True)
  best = found.open & (rank < most)
  chosen = (
    jnp.zeros_like(legal).at[jnp.where(best, found.action, len(legal))].set(True, mode="drop")
  )
  return jnp.where(mover < CHANCE, chosen, legal)


def _options(view: View, growth: Growth, found: Moves, node, held, player) -> MoveOptions:
  """Returns the legal moves of `player` at `node` with infostate `held`: `[M]`."""

  def at(rows: tuple[jax.Array, jax.Array], *place: jax.Array) -> jax.Array:
    return jnp.where(player == 1, rows[1][place], rows[0][place])

  below, here = at(view.values, found.row, found.column), at(view.values, node, held)
  visits = growth.visits[node, :, held]
  return MoveOptions(
    open=found.open,
    policy=jnp.where(found.known, view.policy[found.row, found.column], 0.0),
    prior=found.prior,
    # The mover's own move does not change the opponent's compatible mass.
    value=per_unit_of_mass(jnp.where(found.known, below, here), at(view.mass, found.here, held)),
    visits=visits,
    recent=visits - view.visits[node, :, held],
  )
