"""The protocol of equilibrium-finding algorithms, and counterfactual regret minimisation."""

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from solvers import leaf_values as leaves
from solvers.algorithms.regret_rules import Exponent, RegretRule, Siblings, decay
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep, per_unit_of_mass

Pair = tuple[jax.Array, jax.Array]  # of each player


class Algorithm(Protocol):
  """An iterative algorithm; implementations are frozen dataclasses and thus static arguments.

  `loop.run` runs them all: `init`, `prime` for the players in `primed`, then `leaf_query` and
  `update` for players in turn.
  """

  # Whether players take turns; else both respond to the same policies.
  alternating: bool
  averaging: Exponent  # of the averaging weights, or its schedule
  # Whether root values, and beliefs where play goes on, are those of the average policy. Else root
  # values are a mean over iterations, and beliefs follow the current policy.
  uses_average: bool = False

  @property
  def primed(self) -> tuple[int, ...]:
    """Players for whom `prime` must see leaf values before the first update."""
    return ()

  @property
  def head_start(self) -> int:
    """Number of iterations that the first policy stands for; 0 unless warm-started."""
    return 0

  def init(self, problem: Problem, policy: Levels | None = None) -> Any:
    """Returns the state before the first update, with `policy` (uniform if None) as the first."""

  def leaf_query(self, problem: Problem, state: Any, player: int) -> LeafQuery:
    """Returns the leaf query of `player`'s next update."""

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    """Updates with the leaf values at the first policy, of players in `primed`."""
    return state

  def update(
    self, problem: Problem, state: Any, values: jax.Array | None, player: int
  ) -> tuple[Any, Sweep]:
    """Updates `player` given its expected leaf values `[L, H]` (None without leaves).

    Only that player's part of the state changes.

    Returns:
      The new state, and the sweep of counterfactual values that it learned from.
    """

  def extend(self, problem: Problem, state: Any) -> Any:
    """Returns the state on a problem that has gained nodes, whose moves become choices.

    Growing searches alone need it; they use the CFR family.
    """
    reason = f"{type(self).__name__} does not search trees that grow"
    raise NotImplementedError(reason)

  def current_policy(self, problem: Problem, state: Any) -> Levels:
    """Returns the policy of this iteration, the one to sample leaves and act with."""

  def average_policy(self, problem: Problem, state: Any) -> Levels:
    """Returns the policy that converges to an equilibrium."""

  def root_values(self, problem: Problem, state: Any) -> jax.Array:
    """Returns the mean over updates of the root's expected values: `[P, H]`."""
    return state.values.mean(problem.root_mass)


class RunningValues(NamedTuple):
  """Weighted sums of each player's values over its updates, at the root or at leaves."""

  # Each player has an array: to update a row of `[P, ...]` a GPU would copy the other row too.
  total: Pair  # [H] each, or [L, H], counterfactual values
  weight: Pair  # [] each; at leaves `[L, H]`, the opponent's mass

  @classmethod
  def zeros(cls, problem: Problem, dtype: Any) -> "RunningValues":
    total, weight = jnp.zeros(problem.num_infostates, dtype), jnp.zeros((), dtype)
    return cls((total, total), (weight, weight))

  def add(self, player: int, values: jax.Array, decay: Any, weight: Any = 1.0) -> "RunningValues":
    return RunningValues(
      replace_player(self.total, player, self.total[player] * decay + values),
      replace_player(self.weight, player, self.weight[player] * decay + weight),
    )

  def mean(self, root_mass: jax.Array) -> jax.Array:
    """Returns expected values `[P, H]`: per unit of the opponent's compatible mass, else zero."""
    return per_unit_of_mass(jnp.stack(self.total), jnp.stack(self.weight)[:, None] * root_mass)


def replace_player(pair: tuple[Any, Any], player: int, value: Any) -> tuple[Any, Any]:
  """Returns the pair with `player`'s part replaced."""
  return (value, pair[1]) if player == 0 else (pair[0], value)


class CFRState(NamedTuple):
  """State of CFR on one problem; arrays by level hold None where no player moved."""

  policy: Levels  # [n, H] a level
  regret: tuple[Any, ...]  # state of the regret rule
  average: tuple[jax.Array | None, ...]  # [n, H] a level: sum of policies weighted by own reach
  reach: tuple[Levels, Levels]  # each player's own reach under `policy`
  values: RunningValues
  updates: Pair  # [] each, how often each player was updated


@dataclasses.dataclass(frozen=True)
class CFR(Algorithm):
  """CFR with any regret rule.

  The first policy is uniform and counts in the average (`docs/conventions.md`). A player's k-th
  update adds its regrets against the other's current policy and matches the next policy to them. It
  multiplies the average by `(k / (k + 1)) ** averaging` and adds the new policy, weighted by own
  reach. So the policy after j updates weighs `(j + 1) ** averaging`.

  Attributes:
    rule: the regret rule.
    averaging: exponent of the averaging weights: 0 uniform, 1 linear, 2 quadratic, inf the last
      policy alone; or a schedule of it.
    alternating: whether players take turns; else both respond to the same policies.
  """

  rule: RegretRule
  averaging: Exponent = 0.0
  alternating: bool = True

  def init(self, problem: Problem, policy: Levels | None = None) -> CFRState:
    policy = problem.uniform_policy() if policy is None else policy
    reach = problem.both_reach(policy)
    empty = (None,) * len(policy)
    return CFRState(
      policy=policy,
      regret=problem.where_moved(empty, lambda i, _: self.rule.init(jnp.zeros_like(policy[i]))),
      average=problem.where_moved(empty, lambda i, p: reach[p][i]),
      reach=reach,
      values=RunningValues.zeros(problem, policy[0].dtype),
      updates=(jnp.zeros((), jnp.int32),) * 2,
    )

  def resume(self, problem: Problem, sums: Any, number: Any) -> CFRState:
    """Returns the state after a number of updates of each player, with its regrets and averages."""
    updates = (jnp.asarray(number, jnp.int32),) * 2
    state = self.init(problem)._replace(regret=sums[0], average=sums[1], updates=updates)
    return self.extend(problem, state)

  def leaf_query(self, problem: Problem, state: CFRState, player: int) -> LeafQuery:
    beliefs = leaves.leaf_beliefs(problem, state.reach)
    return LeafQuery(problem.leaf_features(player), player, beliefs)

  def update(
    self, problem: Problem, state: CFRState, values: jax.Array | None, player: int
  ) -> tuple[CFRState, Sweep]:
    if values is not None:
      values = problem.weigh_leaf_values(values, self.core(state).reach[1 - player], player)
    return self.update_weighed(problem, state, values, player)

  def update_weighed(
    self, problem: Problem, state: CFRState, values: jax.Array | None, player: int
  ) -> tuple[CFRState, Sweep]:
    """Updates `player` given counterfactual leaf values `[L, H]`; see `update`."""
    k = (state.updates[player] + 1).astype(state.policy[0].dtype)
    sweep = problem.values_up(state.policy, state.reach[1 - player], values, player)
    state = self.learn(problem, state, sweep, player, k)
    return self.average(problem, state, sweep.root, player, k), sweep

  def average(
    self, problem: Problem, state: CFRState, root: jax.Array, player: int, k: jax.Array
  ) -> CFRState:
    """Counts `player`'s new policy and its k-th root values `[H]` in the averages."""
    reach = problem.own_reach(state.policy, player)
    state = self.count(problem, state, reach, player, decay(k, self.averaging))
    value_decay = decay(k - 1.0, self.averaging) if self.averaging else jnp.ones_like(k)
    return state._replace(
      reach=replace_player(state.reach, player, reach),
      values=state.values.add(player, root, value_decay),
      updates=replace_player(state.updates, player, state.updates[player] + 1),
    )

  def learn(
    self, problem: Problem, state: CFRState, sweep: Sweep, player: int, k: jax.Array
  ) -> CFRState:
    """Adds a sweep's instantaneous regrets, `player`'s k-th, and matches the next policy."""

    def update(i: int, _: int) -> Any:
      return self.rule.update(state.regret[i], self.advantages(problem, sweep, i, player), k)

    regret = problem.where_moved(state.regret, update, [player])
    return self.matched(problem, state._replace(regret=regret), player, k)

  def advantages(self, problem: Problem, sweep: Sweep, index: int, player: int) -> Any:
    """Returns instantaneous regrets of a level that `player` moved to, as the rule takes them."""
    return problem.advantages(sweep, index, player)

  def matched(self, problem: Problem, state: CFRState, player: int, k: jax.Array) -> CFRState:
    """Returns the state with `player`'s policy matched to its regrets."""

    def match(i: int, _: int) -> jax.Array:
      return self.rule.match(state.regret[i], Siblings(problem, i, player), k)

    return state._replace(policy=problem.where_moved(state.policy, match, [player]))

  def count(
    self, problem: Problem, state: CFRState, reach: Levels, player: int, decay: Any
  ) -> CFRState:
    """Scales `player`'s averages by `decay` and adds the policy of own reach `reach`."""

    def add(i: int, _: int) -> jax.Array:
      return state.average[i] * decay + reach[i]

    return state._replace(average=problem.where_moved(state.average, add, [player]))

  def core(self, state: CFRState) -> CFRState:
    """Returns the state of CFR itself, which wrappers may hold inside their own."""
    return state

  def with_core(self, problem: Problem, state: CFRState, core: CFRState) -> CFRState:
    """Returns `state` with that of CFR itself replaced."""
    return core

  def extend(self, problem: Problem, state: CFRState) -> CFRState:
    state = state._replace(policy=problem.chance_policy(state.policy))
    for player in (0, 1):
      k = state.updates[player].astype(state.policy[0].dtype)
      state = self.matched(problem, state, player, k)
    return state._replace(reach=problem.both_reach(state.policy))

  def current_policy(self, problem: Problem, state: CFRState) -> Levels:
    return state.policy

  def average_policy(self, problem: Problem, state: CFRState) -> Levels:
    weights = [jnp.ones_like(p) if a is None else a for a, p in zip(state.average, state.policy)]
    return problem.normalise(tuple(weights))
