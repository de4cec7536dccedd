"""Algorithms around another, its methods as defaults: starts, averages, gadgets, leaf means."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from solvers import leaf_values as leaves
from solvers.algorithms.cfr import CFR, CFRState, Pair, RunningValues, replace_player
from solvers.algorithms.gadgets import Gadget
from solvers.algorithms.regret_rules import decay
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Alternatives, Problem, Sweep, per_unit_of_mass


@dataclasses.dataclass(frozen=True)
class Wrapper:
  """Does what `algorithm` does, with its state; see `Algorithm` for the operations."""

  algorithm: Any

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):  # copying asks before there is an algorithm
      raise AttributeError(name)
    return getattr(self.algorithm, name)


class Holder(Wrapper):
  """A wrapper whose state holds that of `algorithm` as `inner`."""

  def leaf_query(self, problem: Any, state: Any, player: int) -> LeafQuery:
    return self.algorithm.leaf_query(problem, state.inner, player)

  def prime(self, problem: Any, state: Any, values: Any, player: int) -> Any:
    return state._replace(inner=self.algorithm.prime(problem, state.inner, values, player))

  def learn(self, problem: Any, state: Any, sweep: Any, player: int, k: Any) -> Any:
    return state._replace(inner=self.algorithm.learn(problem, state.inner, sweep, player, k))

  def count(self, problem: Any, state: Any, reach: Levels, player: int, decay: Any) -> Any:
    return state._replace(inner=self.algorithm.count(problem, state.inner, reach, player, decay))

  def core(self, state: Any) -> Any:
    return self.algorithm.core(state.inner)

  def with_core(self, problem: Any, state: Any, core: Any) -> Any:
    return state._replace(inner=self.algorithm.with_core(problem, state.inner, core))

  def extend(self, problem: Any, state: Any) -> Any:
    return state._replace(inner=self.algorithm.extend(problem, state.inner))

  def current_policy(self, problem: Any, state: Any) -> Levels:
    return self.algorithm.current_policy(problem, state.inner)

  def average_policy(self, problem: Any, state: Any) -> Levels:
    return self.algorithm.average_policy(problem, state.inner)

  def root_values(self, problem: Any, state: Any) -> Any:
    return self.algorithm.root_values(problem, state.inner)


@dataclasses.dataclass(frozen=True)
class WarmStarted(Wrapper):
  """CFR or CFR-AVG that takes the policy to start from as the result of earlier iterations."""

  num_iterations: int = 15  # how many iterations of each player the policy stands for

  @property
  def primed(self) -> tuple[int, ...]:
    return (0, 1)

  @property
  def head_start(self) -> int:
    return self.num_iterations

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    """Seeds `player`'s regrets, and after player 1's also both averages and policies."""
    # The reach stays that of the policy started from until both players have responded to it.
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
    """Returns the state after the warm start, with both players' averages and counts of updates."""
    cfr, iterations = self.algorithm, self.num_iterations
    weight = sum(((j + 1) / iterations) ** self.averaging for j in range(iterations))
    decay = weight * (iterations / (iterations + 1)) ** self.averaging
    reach = problem.both_reach(cfr.core(state).policy)
    for p in (0, 1):
      state = cfr.count(problem, state, reach[p], p, decay)
    core = cfr.core(state)
    done = jnp.full_like(core.updates[0], iterations)
    return cfr.with_core(problem, state, core._replace(reach=reach, updates=(done, done)))


class CFRAvgState(NamedTuple):
  """State of CFR-AVG."""

  inner: Any  # that of CFR, which a gadget may be around
  sums: Pair  # `[L, H]` of each player, its reach at the leaves, summed with the averaging weights
  memory: Pair  # `[L, H]` of each player, its counterfactual values at the other's last sum
  known: Pair  # `[]` of each player, whether there are such values yet


@dataclasses.dataclass(frozen=True)
class CFRAvg(Holder):
  """CFR with leaf beliefs by the average policies (ReBeL, appendix I)."""

  # The modified form, which the paper's experiments use, turns values at the averages back into
  # this iteration's. The sound form asks for leaf values with two beliefs, the averages' to solve
  # the subgames at and this iteration's to value them at, which an exact oracle can answer.
  sound: bool = False  # whether to use the sound form

  @property
  def primed(self) -> tuple[int, ...]:
    # Under alternating updates player 1 first responds to player 0's second policy, so it must
    # remember what the first was worth to take the difference.
    return (1,) if self.alternating and not self.sound else ()

  uses_average = True

  def init(self, problem: Problem, policy: Levels | None = None) -> CFRAvgState:
    inner = self.algorithm.init(problem, policy)
    reach = self.algorithm.core(inner).reach
    sums = problem.leaf_reach(reach[0], 0), problem.leaf_reach(reach[1], 1)
    nothing, unknown = jnp.zeros_like(sums[0]), jnp.zeros((), bool)
    return CFRAvgState(inner, sums, (nothing, nothing), (unknown, unknown))

  def leaf_query(self, problem: Problem, state: CFRAvgState, player: int) -> LeafQuery:
    at_averages = leaves.beliefs_of(problem, state.sums)
    now = leaves.leaf_beliefs(problem, self.core(state).reach) if self.sound else None
    return LeafQuery(problem.leaf_features(player), player, at_averages, now)

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
    return self._add(problem, state, reach, player, decay(before, self.averaging)), sweep

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
    factor = decay(j, self.averaging) if self.averaging else jnp.ones_like(j)
    difference = total - factor * state.memory[player]
    # Without a memory the values at the average stand in for this iteration's. On the very
    # first update the two are the same.
    return self._remember(state, total, player), jnp.where(state.known[player], difference, now)

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
    state = self._add(problem, state, reach, player, decay)
    return super().count(problem, state, reach, player, decay)


class Promises(NamedTuple):
  """Alternative payoffs of a search's root, of at most one player."""

  values: jax.Array  # `[P, H]` expected payoffs, for the opponent of the searcher
  beliefs: jax.Array  # `[P, H]` what it is believed to hold
  given: jax.Array  # `[P]` bool, whether a player has them

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


class GadgetState(NamedTuple):
  """State of `WithGadget`: CFR's, its reach of the opponent scaled by entry, and the gadget's."""

  inner: CFRState
  gadget: tuple[Any, Any]  # of each player, None for one that always enters


@dataclasses.dataclass(frozen=True)
class WithGadget(Holder):
  """CFR on a subgame that the opponent enters by a gadget (thesis, sections 5.1.2 to 5.1.10)."""

  # The searcher's average policy is the result. The opponent's average weighs its reach as if it
  # always entered, and its root values are mean values of entering. The searcher's root values
  # count infostates that stay out as zero.
  algorithm: CFR
  gadget: Gadget  # whose alternatives the problem holds
  promises: Promises | None = None  # may be traced: who searches is then data, not the gadget's

  @property
  def _opponents(self) -> tuple[int, ...]:
    """Returns the players who may stay out."""
    return (1 - self.gadget.searcher,) if self.promises is None else (0, 1)

  def _promised(self, problem: Any, opponent: int) -> tuple[Any, Problem]:
    """Returns the gadget of an opponent, and the problem with its alternatives."""
    if self.promises is None:
      if problem.alternatives is None:
        raise ValueError(f"alternatives=None, but {self.gadget} needs them: give [H] values")
      return self.gadget, problem
    value, beliefs = self.promises.values[opponent], self.promises.beliefs[opponent]
    promised = dataclasses.replace(problem, alternatives=Alternatives(value, beliefs=beliefs))
    return dataclasses.replace(self.gadget, searcher=1 - opponent), promised

  def _entry(self, problem: Problem, opponent: int, state: Any) -> jax.Array:
    """Returns how often an opponent enters, `[H]`; never where the searcher cannot be."""
    gadget, promised = self._promised(problem, opponent)
    entry = jnp.where(problem.root_mass[opponent] > 0, gadget.entry(promised, state), 0.0)
    if self.promises is None:
      return entry
    return jnp.where(self.promises.given[opponent], entry, 1.0)

  def init(self, problem: Problem, policy: Levels | None = None) -> GadgetState:
    states: Any = tuple(self.gadget.init(problem) if p in self._opponents else None for p in (0, 1))
    return self._entered(problem, self.algorithm.init(problem, policy), states, self._opponents)

  update = CFR.update  # by the reach that CFR has, which entry scales

  def update_weighed(
    self, problem: Problem, state: GadgetState, values: jax.Array | None, player: int
  ) -> tuple[GadgetState, Sweep]:
    cfr, sweep = self.algorithm.update_weighed(problem, state.inner, values, player)
    if player not in self._opponents:
      return GadgetState(cfr, state.gadget), sweep
    entering = per_unit_of_mass(sweep.root, problem.root_mass[player])
    k = cfr.updates[player].astype(entering.dtype)
    gadget, promised = self._promised(problem, player)
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
    return self._entered(problem, core, state.gadget, self._opponents)

  def extend(self, problem: Problem, state: GadgetState) -> GadgetState:
    return self.with_core(problem, state, self.algorithm.extend(problem, state.inner))


class LeafMeansState(NamedTuple):
  """State of `LeafMeans`: the algorithm's, and sums of leaf values over updates."""

  inner: Any
  sums: RunningValues


class LeafMeans(Holder):
  """Does what `algorithm` does, and keeps each player's mean leaf values."""

  # A mean is counterfactual and per unit of the opponent's mass, with the weights of the average
  # policy: the promise to the opponent of the next search (thesis, section 5.1). Values at the
  # beliefs of the average policies would not do: several answers are often best there, and each
  # leaves the opponent other values.

  def init(self, problem: Problem, policy: Levels | None = None) -> LeafMeansState:
    inner = self.algorithm.init(problem, policy)
    leaves = problem.leaf_rows(problem.split(jnp.zeros_like(problem.tree.parent)[:, None]))
    nothing = jnp.zeros((len(leaves), problem.num_infostates), problem.tree.dtype)
    return LeafMeansState(inner, RunningValues((nothing, nothing), (nothing, nothing)))

  def update(
    self, problem: Problem, state: LeafMeansState, values: jax.Array | None, player: int
  ) -> tuple[LeafMeansState, Sweep]:
    core = self.algorithm.core(state.inner)
    inner, sweep = self.algorithm.update(problem, state.inner, values, player)
    worth = problem.leaf_rows(sweep.nodes)
    mass = problem.weigh_leaf_values(jnp.ones_like(worth), core.reach[1 - player], player)
    k = core.updates[player].astype(worth.dtype) + 1.0
    factor = decay(k - 1.0, self.averaging) if self.averaging else 1.0
    sums = state.sums.add(player, worth, factor, mass)
    return LeafMeansState(inner, sums), sweep._replace(mass=mass)

  def means(self, state: LeafMeansState) -> jax.Array:
    """Returns each player's mean leaf values, `[P, L, H]`; zero at leaves without reach."""
    return per_unit_of_mass(jnp.stack(state.sums.total), jnp.stack(state.sums.weight))

  def known(self, state: LeafMeansState) -> jax.Array:
    """Returns whether `means` has data on a player's infostates at a leaf: `[P, L]` bool."""
    return (jnp.stack(state.sums.weight) > 0).any(axis=-1)
