"""Starting CFR from a policy as if it had been played for some iterations (appendix J).

An exact best response to the policy gives every infostate's instantaneous regrets: what each
action is worth if the player responds best afterwards, against what the policy's mix of them is
worth. These regrets count as if they had occurred `warm_start` times, the policy as if it had
been averaged as often, and CFR goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from games.public_tree import PublicTree
from solvers import traversal
from solvers.traversal import Setting, Sweep

if TYPE_CHECKING:
  from solvers.algorithm import Algorithm
  from solvers.cfr import CFR, CFRState


def warm_start(algorithm: Algorithm) -> int:
  """Returns how many iterations an algorithm's first policy stands for."""
  return getattr(algorithm, "warm_start", 0)


def prime(
  algorithm: CFR,
  tree: PublicTree,
  setting: Setting,
  state: CFRState,
  values: jax.Array | None,
  player: int,
) -> CFRState:
  """Seeds `player`'s regrets, and after player 1's also both averages and policies.

  Args:
    algorithm: with `warm_start` positive.
    tree, setting: see `traversal`.
    state: the state after `init` with the policy to start from.
    values: `[L, H]` expected leaf values at that policy, None without leaves.
    player: 0, then 1.

  Returns:
    The state as if `warm_start` iterations had passed.
  """
  iterations = algorithm.warm_start
  opponent = state.reach[1 - player]
  if values is not None:
    values = traversal.weigh_leaf_values(tree, setting, values, opponent, player)
  best = traversal.values_up(tree, setting, None, opponent, values, player)
  sweep = _regrets_against_policy(tree, setting, state, best, player)
  regret, policy = state.regret, state.policy
  for k in range(1, iterations + 1):
    state_k = state._replace(regret=regret, policy=policy)
    count = jnp.asarray(k, policy[0].dtype)
    regret, policy = algorithm.match(tree, setting, state_k, sweep, player, count)
  # The reach stays that of the policy started from until both players have responded to it.
  state = state._replace(regret=regret, policy=policy)
  if player == 0:
    return state
  weight = sum(((j + 1) / iterations) ** algorithm.averaging for j in range(iterations))
  decay = weight * (iterations / (iterations + 1)) ** algorithm.averaging
  reach = traversal.both_reach(tree, setting, policy)
  for p in (0, 1):
    state = algorithm.count_policy(tree, setting, state, reach[p], p, decay)
  return state._replace(reach=reach, updates=jnp.full_like(state.updates, iterations))


def _regrets_against_policy(tree, setting, state, best: Sweep, player: int) -> Sweep:
  """Returns the best response's sweep with the policy's mix of its values as the parents'."""
  parents = list(best.parents)
  for i, level in enumerate(tree.structure.levels):
    if parents[i] is None:
      continue
    above = tree.structure.levels[i - 1].num_inner
    mix = traversal.lower(tree, i, player, state.policy[i] * best.nodes[i])
    mix = traversal.reduce_children(level, mix, above)
    parents[i] = traversal.lift(tree, i, player, traversal.to_children(level, mix))
  return best._replace(parents=tuple(parents))
