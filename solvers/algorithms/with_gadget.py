"""CFR on a subgame that the opponent enters as a gadget says."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.algorithms.cfr import CFR, CFRState
from solvers.algorithms.gadgets.gadget import Gadget
from solvers.algorithms.wrapper import Wrapper
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep


class GadgetState(NamedTuple):
  """State of `WithGadget`: the gadget's, and CFR's, its reach of the opponent scaled by entry."""

  cfr: CFRState
  gadget: Any

  @property
  def reach(self) -> tuple[Levels, Levels]:
    """Each player's own reach, as CFR's."""
    return self.cfr.reach

  @property
  def updates(self) -> jax.Array:
    """How often each player was updated, `[P]`."""
    return self.cfr.updates


@dataclasses.dataclass(frozen=True)
class WithGadget(Wrapper):
  """CFR on a subgame that the opponent enters as a gadget says (thesis, sections 5.1.2 to 5.1.10).

  The searcher's average policy is what it is for. The opponent's weighs its own reach as if it had
  entered always, and its root values are means of what entering was worth; the searcher's root
  values count infostates that stay out as worth nothing.

  Attributes:
    algorithm: a `CFR`.
    gadget: whose alternatives the problem holds.
  """

  algorithm: CFR
  gadget: Gadget

  def init(self, problem: Problem, policy: Levels | None = None) -> GadgetState:
    if problem.alternatives is None:
      raise ValueError(f"alternatives=None, but {self.gadget} needs them: give [H] values")
    cfr = self.algorithm.init(problem, policy)
    return self._entered(problem, cfr, self.gadget.init(problem))

  def leaf_query(self, problem: Problem, state: GadgetState, player: int) -> LeafQuery:
    return self.algorithm.leaf_query(problem, state.cfr, player)

  def prime(self, problem: Problem, state: GadgetState, values: Any, player: int) -> GadgetState:
    del problem, values, player
    return state

  def update(
    self, problem: Problem, state: GadgetState, values: jax.Array | None, player: int
  ) -> tuple[GadgetState, Sweep]:
    if values is not None:
      values = problem.weigh_leaf_values(values, state.reach[1 - player], player)
    return self.update_weighed(problem, state, values, player)

  def update_weighed(
    self, problem: Problem, state: GadgetState, values: jax.Array | None, player: int
  ) -> tuple[GadgetState, Sweep]:
    """Updates `player` given counterfactual leaf values `[L, H]`; see `CFR.update`."""
    cfr, sweep = self.algorithm.update_weighed(problem, state.cfr, values, player)
    if player == self.gadget.searcher:
      return GadgetState(cfr, state.gadget), sweep
    mass = problem.root_mass[player]
    entering = jnp.where(mass > 0, sweep.root / jnp.where(mass > 0, mass, 1.0), 0.0)
    k = cfr.updates[player].astype(entering.dtype)
    gadget = self.gadget.update(problem, state.gadget, entering, k)
    return self._entered(problem, cfr, gadget), sweep

  def _entered(self, problem: Problem, cfr: CFRState, gadget: Any) -> GadgetState:
    """Scales the opponent's reach by how often it enters; never where the searcher cannot be."""
    opponent = 1 - self.gadget.searcher
    entry = jnp.where(problem.root_mass[opponent] > 0, self.gadget.entry(problem, gadget), 0.0)
    reach = list(cfr.reach)
    reach[opponent] = problem.own_reach(cfr.policy, opponent, root=entry)
    return GadgetState(cfr._replace(reach=(reach[0], reach[1])), gadget)

  def learn(
    self, problem: Problem, state: GadgetState, sweep: Sweep, player: int, k: jax.Array
  ) -> GadgetState:
    """Takes in a sweep's instantaneous regrets; see `CFR.learn`."""
    return state._replace(cfr=self.algorithm.learn(problem, state.cfr, sweep, player, k))

  def count(
    self, problem: Problem, state: GadgetState, reach: Levels, player: int, decay: Any
  ) -> GadgetState:
    """Adds a policy to `player`'s averages; see `CFR.count`."""
    return state._replace(cfr=self.algorithm.count(problem, state.cfr, reach, player, decay))

  def core(self, state: GadgetState) -> CFRState:
    """Returns the state of CFR itself."""
    return state.cfr

  def with_core(self, problem: Problem, state: GadgetState, core: CFRState) -> GadgetState:
    """Returns `state` with that of CFR itself replaced."""
    return self._entered(problem, core, state.gadget)

  def merge(self, problem: Problem, first: GadgetState, second: GadgetState) -> GadgetState:
    own = second if self.gadget.searcher == 0 else first
    return GadgetState(self.algorithm.merge(problem, first.cfr, second.cfr), own.gadget)

  def extend(self, problem: Problem, state: GadgetState) -> GadgetState:
    return self._entered(problem, self.algorithm.extend(problem, state.cfr), state.gadget)

  def current_policy(self, problem: Problem, state: GadgetState) -> Levels:
    return self.algorithm.current_policy(problem, state.cfr)

  def average_policy(self, problem: Problem, state: GadgetState) -> Levels:
    return self.algorithm.average_policy(problem, state.cfr)

  def root_values(self, problem: Problem, state: GadgetState) -> jax.Array:
    return self.algorithm.root_values(problem, state.cfr)
