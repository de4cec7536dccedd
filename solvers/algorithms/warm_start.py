"""Warm start: CFR from a policy as if it had been played for some iterations (appendix J).

An exact best response to the policy gives every infostate's instantaneous regrets: what each
action is worth if the player responds best afterwards, against what the policy's mix of them is
worth. These regrets count as if they had occurred that many times, the policy as if it had been
averaged as often, and CFR goes on from there.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from solvers.algorithms.wrapper import Wrapper
from solvers.sweeps.problem import Problem, Sweep


@dataclasses.dataclass(frozen=True)
class WarmStarted(Wrapper):
  """CFR or CFR-AVG that takes the policy to start from as the result of earlier iterations.

  Attributes:
    algorithm: a `CFR` or a `CFRAvg`.
    num_iterations: how many iterations of each player the policy stands for.
  """

  num_iterations: int = 15

  @property
  def primed(self) -> tuple[int, ...]:
    return (0, 1)

  @property
  def head_start(self) -> int:
    return self.num_iterations

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    """Seeds `player`'s regrets, and after player 1's also both averages and policies.

    The reach stays that of the policy started from until both players have responded to it.
    """
    cfr = self.algorithm
    policy, reach = cfr.core(state).policy, cfr.core(state).reach
    if values is not None:
      values = problem.weigh_leaf_values(values, reach[1 - player], player)
    best = problem.values_up(None, reach[1 - player], values, player)
    sweep = problem.mix_values(best, policy, player)
    state = self._learn(problem, state, sweep, player)
    return state if player == 0 else self._begin(problem, state)

  def _learn(self, problem: Problem, state: Any, sweep: Sweep, player: int) -> Any:
    """Adds a sweep's regrets once for each of the iterations."""
    dtype = problem.tree.dtype

    def step(k, state):
      return self.algorithm.learn(problem, state, sweep, player, jnp.asarray(k + 1, dtype))

    return lax.fori_loop(0, self.num_iterations, step, state)

  def _begin(self, problem: Problem, state: Any) -> Any:
    """Returns the state after the iterations, both players' regrets and next policies known."""
    cfr, iterations = self.algorithm, self.num_iterations
    weight = sum(((j + 1) / iterations) ** self.averaging for j in range(iterations))
    decay = weight * (iterations / (iterations + 1)) ** self.averaging
    reach = problem.both_reach(cfr.core(state).policy)
    for p in (0, 1):
      state = cfr.count(problem, state, reach[p], p, decay)
    core = cfr.core(state)
    done = jnp.full_like(core.updates[0], iterations)
    return cfr.with_core(problem, state, core._replace(reach=reach, updates=(done, done)))
