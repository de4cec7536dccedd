"""Warm start by substitute regrets: CFR from an average policy alone (thesis, section 3.2).

`WarmStarted` gives each choice the regrets against an exact best response (lambda = 0), which
forgets how CFR weighs moves that are about as good. Here each choice keeps as much positive regret
as CFR would have left after as many iterations.

Where players take turns each answers a policy that the other has already left, and what both were
worth sums to less than zero. How much less is measured by a short run from every start that is
tried: a start stands if what its updates gain by taking turns is what its values say.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from solvers.algorithms.warm_start import WarmStarted
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep
from solvers.sweeps.substitute_values import substitute_values

_TRIAL = 16  # updates of each player that say what turns gain


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
    gain = functools.partial(self._gain, problem, state) if self.algorithm.alternating else None
    policy = self.algorithm.core(state).policy
    sweeps, _ = substitute_values(problem, policy, self.num_iterations, gain)
    return self._started(problem, state, sweeps)

  def _started(self, problem: Problem, state: Any, sweeps: tuple[Sweep, Sweep]) -> Any:
    for p in (0, 1):
      state = self._learn(problem, state, sweeps[p], p)
    return self._begin(problem, state)

  def _gain(self, problem: Problem, state: Any, sweeps: tuple[Sweep, Sweep]) -> jax.Array:
    """Returns by how much less than zero both are worth in updates after a start from `sweeps`."""
    state = self._started(problem, state, sweeps)

    def step(_, carry):
      state, total = carry
      for p in (0, 1):
        state, sweep = self.algorithm.update(problem, state, None, p)
        total -= (problem.root_beliefs(p) * sweep.root).sum()
      return state, total

    return lax.fori_loop(0, _TRIAL, step, (state, jnp.zeros((), problem.tree.dtype)))[1] / _TRIAL
