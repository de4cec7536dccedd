"""Warm start by substitute regrets: CFR from an average policy alone (thesis, section 3.2).

`WarmStarted` gives each choice the regrets against an exact best response (lambda = 0), which
forgets how CFR weighs moves that are about as good. Here each choice keeps as much positive regret
as CFR would have left after as many iterations.
"""

import dataclasses
from typing import Any

import jax

from solvers.algorithms.warm_start import WarmStarted
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem
from solvers.sweeps.substitute_values import substitute_values


@dataclasses.dataclass(frozen=True)
class SubstituteStarted(WarmStarted):
  """CFR that takes the policy to start from as the average of earlier iterations.

  For whole trees without a gadget: the share of regret is joint, so that both players must be
  valued at once, and at the root. Policies may be locked.
  """

  def __post_init__(self):
    if hasattr(self.algorithm, "gadget"):
      raise ValueError(
        "response='substitute' values both players at the root, where a gadget lets one stay out; "
        "use response='best'"
      )

  @property
  def primed(self) -> tuple[int, ...]:
    return (1,)

  def init(self, problem: Problem, policy: Levels | None = None) -> Any:
    if problem.asks:
      raise ValueError(
        "response='substitute' needs a whole tree: leaf values depend on how players respond; "
        "use response='best'"
      )
    return self.algorithm.init(problem, policy)

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    """Seeds both players' regrets, averages and policies."""
    del values, player
    policy = self.algorithm.core(state).policy
    sweeps, _ = substitute_values(problem, policy, self.num_iterations)
    for p in (0, 1):
      state = self._learn(problem, state, sweeps[p], p)
    return self._begin(problem, state)
