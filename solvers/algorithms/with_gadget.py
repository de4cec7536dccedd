"""CFR on a subgame that the opponent enters as a gadget says."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.algorithms.algorithm import replace_player
from solvers.algorithms.cfr import CFR, CFRState
from solvers.algorithms.gadgets import Gadget
from solvers.algorithms.wrapper import Holder
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep, per_unit_of_mass


class GadgetState(NamedTuple):
  """State of `WithGadget`: CFR's, its reach of the opponent scaled by entry, and the gadget's."""

  inner: CFRState
  gadget: tuple[Any, Any]  # of each player, None for one that always enters


@dataclasses.dataclass(frozen=True)
class WithGadget(Holder):
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

  @property
  def _opponents(self) -> tuple[int, ...]:
    """Returns the players who may stay out."""
    return (1 - self.gadget.searcher,)

  def _gadget(self, opponent: int) -> Gadget:
    return self.gadget

  def _promised(self, problem: Problem, opponent: int) -> Problem:
    """Returns the problem with the alternatives of an opponent."""
    if problem.alternatives is None:
      raise ValueError(f"alternatives=None, but {self.gadget} needs them: give [H] values")
    return problem

  def _entry(self, problem: Problem, opponent: int, state: Any) -> jax.Array:
    """Returns how often an opponent enters, `[H]`; never where the searcher cannot be."""
    entry = self._gadget(opponent).entry(self._promised(problem, opponent), state)
    return jnp.where(problem.root_mass[opponent] > 0, entry, 0.0)

  def init(self, problem: Problem, policy: Levels | None = None) -> GadgetState:
    states: Any = tuple(
      self._gadget(p).init(self._promised(problem, p)) if p in self._opponents else None
      for p in (0, 1)
    )
    return self._entered(problem, self.algorithm.init(problem, policy), states, self._opponents)

  def update(
    self, problem: Problem, state: GadgetState, values: jax.Array | None, player: int
  ) -> tuple[GadgetState, Sweep]:
    if values is not None:
      values = problem.weigh_leaf_values(values, state.inner.reach[1 - player], player)
    return self.update_weighed(problem, state, values, player)

  def update_weighed(
    self, problem: Problem, state: GadgetState, values: jax.Array | None, player: int
  ) -> tuple[GadgetState, Sweep]:
    """Updates `player` given counterfactual leaf values `[L, H]`; see `CFR.update`."""
    cfr, sweep = self.algorithm.update_weighed(problem, state.inner, values, player)
    if player not in self._opponents:
      return GadgetState(cfr, state.gadget), sweep
    entering = per_unit_of_mass(sweep.root, problem.root_mass[player])
    k = cfr.updates[player].astype(entering.dtype)
    gadget, promised = self._gadget(player), self._promised(problem, player)
    new = gadget.update(promised, state.gadget[player], entering, k)
    states = replace_player(state.gadget, player, new)
    return self._entered(problem, cfr, states, (player,)), sweep

  def _entered(
    self, problem: Problem, cfr: CFRState, states: tuple[Any, Any], players: tuple[int, ...]
  ) -> GadgetState:
    """Scales the reach of `players`, as CFR has it, by how often they enter."""
    reach = cfr.reach
    for player in players:
      entry = self._entry(problem, player, states[player])
      if problem.tree.infostate_parent is None:  # an infostate's reach is its entry's multiple
        scaled = tuple(x * entry[None] for x in reach[player])
      else:
        scaled = problem.own_reach(cfr.policy, player, root=entry)
      reach = replace_player(reach, player, scaled)
    return GadgetState(cfr._replace(reach=reach), states)

  def with_core(self, problem: Problem, state: GadgetState, core: CFRState) -> GadgetState:
    """Returns `state` with that of CFR itself replaced."""
    return self._entered(problem, core, state.gadget, self._opponents)

  def merge(self, problem: Problem, first: GadgetState, second: GadgetState) -> GadgetState:
    cfr = self.algorithm.merge(problem, first.inner, second.inner)
    return GadgetState(cfr, (first.gadget[0], second.gadget[1]))

  def extend(self, problem: Problem, state: GadgetState) -> GadgetState:
    return self.with_core(problem, state, self.algorithm.extend(problem, state.inner))
