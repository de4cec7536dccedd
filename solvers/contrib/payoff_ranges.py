"""Ranges of the payoffs that a game can still reach: `L(I)` of regret bounds."""

import jax
import jax.numpy as jnp
from jax import lax

from solvers.sweeps.levels import Levels, lower, reduce_children
from solvers.sweeps.problem import Problem


def payoff_ranges(problem: Problem, player: int) -> Levels:
  """Returns the most less the least paid below inner nodes, `[inner nodes, H]` a level."""
  # A showdown of hands of cards may be won and lost with any hand, which bounds the range from
  # above. Where the weights of pairs differ between nodes they count as part of the payoffs.
  tree = problem.tree
  levels = tree.structure.levels
  everything = tuple(jnp.ones((level.size, tree.num_infostates), tree.dtype) for level in levels)
  dealt = problem.both_reach(everything)
  ranges: list[jax.Array] = []
  inner: list[jax.Array] = []  # of the level: what can be paid, and what can be lost
  for i in reversed(range(len(levels))):
    if inner:
      ranges.append(jnp.where(jnp.isfinite(inner[0] + inner[1]), inner[0] + inner[1], 0.0))
    else:
      ranges.append(jnp.zeros((0, tree.num_infostates), tree.dtype))
    if i == 0:
      break
    ends = slice(levels[i].size - levels[i].num_terminals, levels[i].size)
    there = [problem.with_nature(i, dealt[p][i], p)[ends] > 0 for p in (player, 1 - player)]
    if problem.exists is not None:
      there[0] &= problem.exists[i][ends] > 0
    bounds = _terminal_bounds(problem, i, player, there[1])
    bounds = [jnp.where(there[0], x, -jnp.inf) for x in bounds]
    joined = [jnp.concatenate(pair) for pair in zip(inner, bounds)] if inner else bounds
    inner = [
      reduce_children(
        levels[i], lower(tree, i, player, x, maximum=True), levels[i - 1].num_inner, maximum=True
      )
      for x in joined
    ]
  return tuple(reversed(ranges))


def _terminal_bounds(problem: Problem, i: int, player: int, there: jax.Array) -> list[jax.Array]:
  """Returns the most that `player` can win and lose at a level's terminal nodes, `[T, H]` each."""
  tree = problem.tree
  if not len(there):
    return [jnp.zeros(there.shape, tree.dtype)] * 2
  start = tree.structure.terminal_offsets[i]
  rows = slice(start, start + len(there))
  scale, index = tree.payoff_scale[rows], tree.payoff_index[rows]
  if tree.hands is not None:
    folds, stake = (index == 0)[:, None], (scale if player == 0 else -scale)[:, None]
    return [
      jnp.broadcast_to(jnp.where(folds, x, jnp.abs(stake)), there.shape) for x in (stake, -stake)
    ]
  weights = jnp.asarray(tree.pair_weights[0])
  if len(tree.pair_weights) > 1:
    weights = jnp.ones_like(weights)
  paid = tree.payoffs / jnp.where(weights > 0, weights, 1.0)[None]
  paid = jnp.where(weights[None] > 0, paid, 0.0)
  if player == 1:
    paid, weights = -paid.swapaxes(1, 2), weights.T

  def bounds(row):
    table, factor, others = row
    possible, payoffs = others[None] & (weights > 0), paid[table] * factor
    return [jnp.where(possible, x, -jnp.inf).max(axis=1) for x in (payoffs, -payoffs)]

  return lax.map(bounds, (index, scale, there))
