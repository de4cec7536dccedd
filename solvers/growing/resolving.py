"""Re-solving for whichever player has promises, which is known only while the program runs."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.algorithms.algorithm import replace_player
from solvers.algorithms.cfr import CFRState
from solvers.algorithms.gadgets.continual_resolve import ContinualResolve
from solvers.algorithms.with_gadget import GadgetState, WithGadget
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep


class Promises(NamedTuple):
  """What players are promised instead of a search's root; at most one of them, or nobody.

  Attributes:
    values: `[P, H]` expected payoffs, for the opponent of the searcher.
    beliefs: `[P, H]` what it is believed to hold.
    given: `[P]` bool, whether a player has them.
  """

  values: jax.Array
  beliefs: jax.Array
  given: jax.Array

  @classmethod
  def none(cls, num_infostates: int, dtype: Any) -> "Promises":
    """Returns the promises of a search without an opponent."""
    nothing = jnp.zeros((2, num_infostates), dtype)
    return cls(nothing, nothing, jnp.zeros(2, bool))

  @classmethod
  def to_opponent(cls, searcher: Any, values: Any, beliefs: Any) -> "Promises":
    """Returns those of the opponent of `searcher`, `values` and `beliefs` `[H]`."""
    others = jnp.arange(2, dtype=jnp.int32) == 1 - jnp.asarray(searcher, jnp.int32)
    rows = [jnp.where(others[:, None], x, 0.0) for x in (values, beliefs)]
    return cls(rows[0], rows[1], others)


@dataclasses.dataclass(frozen=True)
class Resolving(WithGadget):
  """`WithGadget` whose searcher is data: a player with promises enters as the gadget says.

  Attributes:
    promises: may be traced.
  """

  promises: Promises

  def init(self, problem: Problem, policy: Levels | None = None) -> GadgetState:
    states = tuple(self._gadget(p).init(problem) for p in (0, 1))
    return self._enter(problem, self.algorithm.init(problem, policy), states, (0, 1))

  def update_weighed(
    self, problem: Problem, state: GadgetState, values: jax.Array | None, player: int
  ) -> tuple[GadgetState, Sweep]:
    cfr, sweep = self.algorithm.update_weighed(problem, state.cfr, values, player)
    mass = problem.root_mass[player]
    entering = jnp.where(mass > 0, sweep.root / jnp.where(mass > 0, mass, 1.0), 0.0)
    k = cfr.updates[player].astype(entering.dtype)
    gadget, promised = self._gadget(player), self._promised(problem, player)
    new = gadget.update(promised, state.gadget[player], entering, k)
    states = replace_player(state.gadget, player, new)
    return self._enter(problem, cfr, states, (player,)), sweep

  def merge(self, problem: Problem, first: GadgetState, second: GadgetState) -> GadgetState:
    cfr = self.algorithm.merge(problem, first.cfr, second.cfr)
    return GadgetState(cfr, (first.gadget[0], second.gadget[1]))

  def _entered(self, problem: Problem, cfr: CFRState, gadget: Any) -> GadgetState:
    return self._enter(problem, cfr, gadget, (0, 1))

  def _enter(
    self, problem: Problem, cfr: CFRState, states: Any, players: tuple[int, ...]
  ) -> GadgetState:
    """Scales the reach of `players`, as CFR has it, by how often they enter."""
    reach = cfr.reach
    for player in players:
      entry = self._gadget(player).entry(self._promised(problem, player), states[player])
      entry = jnp.where(problem.root_mass[player] > 0, entry, 0.0)
      entry = jnp.where(self.promises.given[player], entry, 1.0)
      if problem.tree.infostate_parent is None:  # an infostate's reach is its entry's multiple
        scaled = tuple(x * entry[None] for x in cfr.reach[player])
      else:
        scaled = problem.own_reach(cfr.policy, player, root=entry)
      reach = replace_player(reach, player, scaled)
    return GadgetState(cfr._replace(reach=reach), states)

  def _gadget(self, opponent: int) -> Any:
    assert isinstance(self.gadget, ContinualResolve)
    return dataclasses.replace(self.gadget, searcher=1 - opponent)

  def _promised(self, problem: Problem, opponent: int) -> Problem:
    value, beliefs = self.promises.values[opponent], self.promises.beliefs[opponent]
    return dataclasses.replace(problem, alternatives=Alternatives(value, beliefs=beliefs))
