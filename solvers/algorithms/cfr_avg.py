"""CFR-AVG: CFR whose leaves are valued at the beliefs of the average policies (appendix I)."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers import leaf_values as leaves
from solvers.algorithms.algorithm import Pair, pick_players, replace_player
from solvers.algorithms.schedule import decay
from solvers.algorithms.wrapper import Holder
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep


class CFRAvgState(NamedTuple):
  """State of CFR-AVG.

  Attributes:
    inner: that of CFR, which a gadget may be around.
    sums: `[L, H]` of each player, its reach at the leaves, summed with the averaging weights.
    memory: `[L, H]` of each player, its counterfactual values at the other's last sum.
    known: `[]` of each player, whether there are such values yet.
  """

  inner: Any
  sums: Pair
  memory: Pair
  known: Pair


@dataclasses.dataclass(frozen=True)
class CFRAvg(Holder):
  """CFR with leaf beliefs by the average policies (ReBeL, appendix I).

  The modified form, which the paper's experiments use, turns values at the averages back into this
  iteration's. The sound form asks for leaf values with two beliefs, the averages' to solve the
  subgames at and this iteration's to value them at, which an exact oracle can answer.

  Attributes:
    algorithm: a `CFR`.
    sound: whether to use the sound form.
  """

  sound: bool = False

  @property
  def primed(self) -> tuple[int, ...]:
    # Under alternating updates player 1 first responds to player 0's second policy, so it must
    # remember what the first was worth to take the difference.
    return (1,) if self.alternating and not self.sound else ()

  @property
  def uses_average(self) -> bool:
    return True

  def init(self, problem: Problem, policy: Levels | None = None) -> CFRAvgState:
    inner = self.algorithm.init(problem, policy)
    reach = self.algorithm.core(inner).reach
    sums = problem.leaf_reach(reach[0], 0), problem.leaf_reach(reach[1], 1)
    nothing, unknown = jnp.zeros_like(sums[0]), jnp.zeros((), bool)
    return CFRAvgState(inner, sums, (nothing, nothing), (unknown, unknown))

  def leaf_query(self, problem: Problem, state: CFRAvgState, player: int) -> LeafQuery:
    at_averages = leaves.beliefs_of(problem, state.sums)
    now = leaves.leaf_beliefs(problem, self.core(state).reach) if self.sound else None
    return leaves.make_query(problem, player, at_averages, now)

  def prime(
    self, problem: Problem, state: CFRAvgState, values: jax.Array | None, player: int
  ) -> CFRAvgState:
    if values is None:
      return state
    return self._remember(state, self._at_averages(problem, state, values, player), player)

  def update(
    self, problem: Problem, state: CFRAvgState, values: jax.Array | None, player: int
  ) -> tuple[CFRAvgState, Sweep]:
    if values is not None:
      state, values = self._weigh(problem, state, values, player)
    before = self.core(state).updates[player].astype(state.sums[player].dtype) + 1.0
    inner, sweep = self.algorithm.update_weighed(problem, state.inner, values, player)
    state = state._replace(inner=inner)
    reach = self.core(state).reach[player]
    return self._add(problem, state, reach, player, self._decay(before)), sweep

  def _weigh(self, problem: Problem, state: CFRAvgState, values: jax.Array, player: int):
    """Returns the state and the counterfactual leaf values `[L, H]` of this iteration."""
    now = problem.weigh_leaf_values(values, self.core(state).reach[1 - player], player)
    if self.sound:
      return state, now
    # Appendix I, for any weights: with S_j = d_j S_{j-1} + r_j the opponent's summed reach and
    # G(S) the counterfactual values at it, G(S_j) - d_j G(S_{j-1}) stands in for G(r_j), and is
    # equal to it where G is linear.
    total = self._at_averages(problem, state, values, player)
    j = self.core(state).updates[1 - player].astype(values.dtype)
    decay = self._decay(j) if self.averaging else jnp.ones_like(j)
    difference = total - decay * state.memory[player]
    # Without a memory the values at the average stand in for this iteration's. On the very
    # first update the two are the same.
    return self._remember(state, total, player), jnp.where(state.known[player], difference, now)

  def _decay(self, k: jax.Array) -> jax.Array:
    return decay(k, self.averaging)

  def _at_averages(self, problem: Problem, state: CFRAvgState, values: jax.Array, player: int):
    return values * problem.compatible_mass(state.sums[1 - player], player)

  def _remember(self, state: CFRAvgState, total: jax.Array, player: int) -> CFRAvgState:
    return state._replace(
      memory=replace_player(state.memory, player, total),
      known=replace_player(state.known, player, jnp.ones((), bool)),
    )

  def _add(
    self, problem: Problem, state: CFRAvgState, reach: Levels, player: int, decay: Any
  ) -> CFRAvgState:
    at_leaves = problem.leaf_reach(reach, player)
    total = state.sums[player] * decay + at_leaves
    return state._replace(sums=replace_player(state.sums, player, total))

  def count(
    self, problem: Problem, state: CFRAvgState, reach: Levels, player: int, decay: Any
  ) -> CFRAvgState:
    """Adds a policy to `player`'s averages; see `CFR.count`."""
    state = self._add(problem, state, reach, player, decay)
    return super().count(problem, state, reach, player, decay)

  def merge(self, problem: Problem, first: CFRAvgState, second: CFRAvgState) -> CFRAvgState:
    return CFRAvgState(
      self.algorithm.merge(problem, first.inner, second.inner),
      pick_players(first.sums, second.sums),
      pick_players(first.memory, second.memory),
      pick_players(first.known, second.known),
    )
