"""External sampling of ranges by the rules: a public action is drawn for all infostates at once.

At a public state all of the traverser's moves are made, and one public action of the opponent or of
chance, by what the opponent's range there makes of it. The range is then divided by the rate of
that, which keeps its mass, so that a visit says something of every infostate. Its mean is what a
sweep over the whole tree says. Traversals side by side share the slots of a level.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.game import CHANCE, TERMINAL
from solvers.sweeps import per_unit_of_mass

# (states `[n, S]`, public actions before `[n, L]`) -> the mover's policy `[n, M, H]`
RangePolicy = Callable[[Any, Any], jax.Array]


class Front(NamedTuple):
  """The public states of a level that traversals visit, in C slots."""

  there: jax.Array  # `[C]` which slots are filled
  state: jax.Array  # `[C, S]`
  history: jax.Array  # `[C, L]` public actions before, -1 to fill up
  # `[C, P, H]` the traverser's: 1 where the rules allow the infostate; the opponent's: its prior,
  # chance and its moves, divided by the rate of what was drawn
  reach: jax.Array
  origin: jax.Array | None  # `[C, P, H]` infostates before the action; None if they never change


class RangeVisits(NamedTuple):
  """Public states that traversals visited, `[V]` slots level by level."""

  state: jax.Array  # `[V, S]`
  history: jax.Array  # `[V, L]` public actions before, -1 to fill up
  legal: jax.Array  # `[V, M, H]` the mover's moves
  policy: jax.Array  # `[V, M, H]` the mover's
  regret: jax.Array  # `[V, M, H]` counterfactual, of the traverser's moves
  mass: jax.Array  # `[V, H]` the opponent's that the traverser's infostates meet; else zero
  reach: jax.Array  # `[V, H]` the opponent's where it moves, else zero


def draw(key: jax.Array, odds: jax.Array, number: float = 1) -> tuple[jax.Array, jax.Array]:
  """Draws so many actions of each row by its odds `[C, A]`; returns which, and the rates of all."""
  rate = jnp.minimum(1.0, number * per_unit_of_mass(odds, odds.sum(axis=1, keepdims=True)))
  ends = rate.cumsum(axis=1) + jax.random.uniform(key, (len(odds), 1), odds.dtype)
  return jnp.floor(ends) > jnp.floor(ends - rate), rate


def traverse_ranges(
  rules: Any,
  policy: RangePolicy,
  player: int,
  key: jax.Array,
  *,
  number: int,
  slots: int,
  choose: Callable[..., Any] = draw,
) -> RangeVisits:
  """Samples the regrets of `player` where traversals visit it, and the opponent's ranges.

  Args:
    rules: a game of JAX's arrays, which says what hidden moves there are, if any (`tabulate`).
    policy: both players'.
    player: the traverser, 0 or 1; static.
    key: of what is drawn.
    number: of traversals.
    slots: C, of a level of all; of more states each is kept with one probability.
    choose: (key, odds `[C, A]`) -> which of the opponent's and chance's actions are taken, at what
      rates.
  """
  first, prior = jnp.asarray(rules.initial_state(), jnp.int32), jnp.asarray(rules.prior(), float)
  there = jnp.arange(slots) < number
  reach = jnp.where((jnp.arange(2) == player)[:, None], (prior > 0).astype(float), prior)
  reach = jnp.where(there[:, None, None], reach[None], 0.0)
  hidden = rules.infostate_parents(first[None], jnp.zeros(1, jnp.int32)) is not None
  root = Front(
    there,
    jnp.broadcast_to(first, (slots, len(first))),
    jnp.full((slots, rules.max_moves), -1, jnp.int32),
    reach,
    jnp.zeros(reach.shape, jnp.int32) if hidden else None,
  )

  depths = jnp.arange(rules.max_moves + 1)
  levels = jax.lax.scan(
    lambda front, at: _down(rules, policy, player, choose, front, *at),
    root,
    (jax.random.split(key, len(depths)), depths),
  )[1]
  nothing = jnp.zeros((2, slots + 1, rules.num_infostates), reach.dtype)
  _, visits = jax.lax.scan(
    lambda below, level: _up(rules, player, below, level), nothing, levels, reverse=True
  )
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), visits)


def _down(rules, policy, player, choose, front, key, depth):
  """Returns the front after one, and its level.

  A level is the front, who moves `[C]`, the mover's moves `[C, M, H]`, its policy, a move's place
  in `[A * H]` by action and infostate after it, and the slot of the state after an action `[C, A]`,
  C where it was not taken.
  """
  there, state, history, reach, origin = front
  (size, _, h), a = reach.shape, rules.num_actions
  kind = jnp.where(there, rules.actor(state), TERMINAL)
  mine = (kind == player)[:, None]
  leads_to, action = rules.moves_of(state)
  legal = (action >= 0) & (kind < CHANCE)[:, None, None]
  share = jnp.where(legal, policy(state, history), 0.0)
  edge = jnp.where(legal, action * h + leads_to, a * h)
  own = jnp.where(mine, reach[:, player], reach[:, 1 - player])
  share_of_own = jnp.where(mine[:, None], legal.astype(share.dtype), share)
  made = (share_of_own * own[:, None]).reshape(size, -1)
  rows = jnp.arange(size)[:, None], edge.reshape(size, -1)
  after = jnp.zeros((size, a * h), made.dtype).at[rows].set(made, mode="drop").reshape(-1, h)
  odds, fits = after.sum(axis=1).reshape(size, a), None
  if rules.has_chance:
    outcomes = jnp.tile(jnp.arange(a, dtype=state.dtype), size)
    dealt, fits = rules.chance(jnp.repeat(state, a, axis=0), outcomes)
    odds = jnp.where((kind == CHANCE)[:, None], dealt.reshape(size, a).astype(odds.dtype), odds)
  odds = jnp.where(rules.legal_actions(state) & (kind != TERMINAL)[:, None], odds, 0.0)
  draw_key, keep_key = jax.random.split(key)
  drawn, rate = choose(draw_key, odds)
  taken = ((mine | drawn) & (odds > 0)).reshape(-1)
  share_kept, taken = _kept(keep_key, taken, size)
  rate = jnp.where(mine, 1.0, rate) * share_kept.astype(rate.dtype)
  weight = jnp.where(mine | (kind < CHANCE)[:, None], 1.0, odds) / rate
  at = jnp.nonzero(taken, size=size, fill_value=-1)[0].astype(state.dtype)
  parent, act = jnp.divmod(at, a)
  carried, mover = reach[parent], kind[parent][:, None, None]
  if origin is not None:
    origin = rules.infostate_parents(state[parent], act)
    carried = jnp.take_along_axis(carried, jnp.maximum(origin, 0), axis=2)
    carried = jnp.where(origin >= 0, carried, 0.0)
  if fits is not None:
    carried = jnp.where(fits[at] | (mover != CHANCE), carried, 0.0)
  seats = jnp.arange(2, dtype=kind.dtype)[None, :, None]
  reach = jnp.where(mover == seats, after[at][:, None], carried)
  reach *= jnp.where(seats == player, 1.0, weight.reshape(-1)[at][:, None, None])
  now = (jnp.arange(history.shape[1]) == depth)[None]
  line = jnp.where(now, act[:, None].astype(history.dtype), history[parent])
  new = Front(
    at >= 0,
    rules.next_states(state[parent], act).astype(state.dtype),
    line,
    jnp.where((at >= 0)[:, None, None], reach, 0.0),
    origin,
  )
  slot = jnp.where(taken, jnp.cumsum(taken) - 1, size).reshape(size, a)
  return new, (front, kind, legal, share, edge, slot)


def _kept(key: jax.Array, taken: jax.Array, size: int) -> tuple[jax.Array, jax.Array]:
  """Returns the share of those taken that is kept, and which are: all of at most `size`."""
  rank, number = jnp.cumsum(taken), taken.sum()
  share = (size - 1) / jnp.maximum(number, 1)
  ranks = jnp.stack([rank - 1, rank]).astype(share.dtype)
  edges = jnp.floor(ranks * share + jax.random.uniform(key, dtype=share.dtype))
  share = jnp.where(number > size, share, 1.0)
  return share, taken & ((edges[1] > edges[0]) | (number <= size))


def _up(rules, player, below, level):
  """Returns a front's values to the traverser, by its infostates and the last, and its visits."""
  front, kind, legal, share, edge, slot = level
  (size, _, h), met = front.reach.shape, front.reach[:, 1 - player]
  mine, possible = (kind == player)[:, None], front.reach[:, player] > 0
  after, passed = (x[slot] for x in below)  # [C, A, H]
  flat = jnp.pad(after.reshape(size, -1), ((0, 0), (0, 1)))
  moved = jnp.take_along_axis(flat, edge.reshape(size, -1), axis=1).reshape(edge.shape)
  values = jnp.where(mine, (share * moved).sum(axis=1), passed.sum(axis=1))
  ends = rules.terminal_values(front.state, met, player)
  values = jnp.where((kind == TERMINAL)[:, None], ends, values)
  values = back = jnp.where(possible, values, 0.0)
  mass = jnp.where(possible & mine, rules.compatible_mass(front.state, met, player), 0.0)
  # Sums over hands that cancel leave rounding, by which nothing is divided.
  mass = jnp.where(mass > 1e-6 * met.sum(axis=1, keepdims=True), mass, 0.0)
  regret = jnp.where(legal & mine[:, None], moved - values[:, None], 0.0)
  if front.origin is not None:
    origin = front.origin[:, player]
    places = jnp.arange(size)[:, None], jnp.where(origin < 0, h, origin)
    back = jnp.zeros_like(values).at[places].add(values, mode="drop")
  theirs = jnp.where((kind == 1 - player)[:, None] & legal.any(axis=1), met, 0.0)
  visits = RangeVisits(front.state, front.history, legal, share, regret, mass, theirs)
  return jnp.pad(jnp.stack([values, back]), ((0, 0), (0, 1), (0, 0))), visits
