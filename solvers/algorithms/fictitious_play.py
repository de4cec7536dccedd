"""Fictitious play, linear fictitious play and FLOP on public trees (ReBeL, appendix H)."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from solvers import leaf_values as leaves
from solvers.algorithms.cfr import Algorithm, Pair, RunningValues, replace_player
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep

_ROUNDING = 32  # units in the last place: sums of up to some thousand terms stay well below


class FictitiousPlayState(NamedTuple):
  """State of fictitious play on one problem."""

  # A sum of policies weighted by own reach is, up to its total weight, the reach of their average.
  sums: tuple[Levels, Levels]  # [n, H] a level: each player's summed own reach
  weight: Pair  # [] each, total weight of the sums
  response: tuple[Levels, Levels]  # [n, H] a level: own reach of each player's last response
  values: RunningValues
  updates: Pair  # [] each


@dataclasses.dataclass(frozen=True)
class FictitiousPlay(Algorithm):
  """Fictitious play: each update adds a best response to the other's average policy."""

  # As in the reference program the first policy is uniform, and a player's k-th best response is
  # added to its sum, which is then scaled by `((k + 1) / (k + 2)) ** averaging`.
  averaging: float = 0.0  # 0 for fictitious play, 1 for its linear form
  optimistic: bool = False  # whether the last response counts twice
  alternating: bool = True  # whether players take turns

  uses_average = True

  def init(self, problem: Problem, policy: Levels | None = None) -> FictitiousPlayState:
    reach = problem.both_reach(problem.uniform_policy() if policy is None else policy)
    dtype = reach[0][0].dtype
    return FictitiousPlayState(
      sums=reach,
      weight=(jnp.ones((), dtype),) * 2,
      response=reach,
      values=RunningValues.zeros(problem, dtype),
      updates=(jnp.zeros((), jnp.int32),) * 2,
    )

  def _target(self, state: FictitiousPlayState, player: int) -> Levels:
    """Returns the reach of `player`'s policy that the other responds to."""
    sums, weight = state.sums[player], state.weight[player]
    if not self.optimistic:
      return tuple(x / weight for x in sums)
    response = state.response[player]
    return tuple((x + y) / (weight + 1.0) for x, y in zip(sums, response))

  def leaf_query(self, problem: Problem, state: FictitiousPlayState, player: int) -> LeafQuery:
    reach = (self._target(state, 0), self._target(state, 1))
    beliefs = leaves.leaf_beliefs(problem, reach)
    return LeafQuery(problem.leaf_features(player), player, beliefs)

  def update(
    self, problem: Problem, state: FictitiousPlayState, values: jax.Array | None, player: int
  ) -> tuple[FictitiousPlayState, Sweep]:
    k = (state.updates[player] + 1).astype(state.weight[player].dtype)
    opponent = self._target(state, 1 - player)
    if values is not None:
      values = problem.weigh_leaf_values(values, opponent, player)
    sweep = problem.values_up(None, opponent, values, player)
    response = problem.own_reach(best_moves(problem, sweep, opponent, player), player)
    decay = ((k + 1.0) / (k + 2.0)) ** self.averaging
    sums = tuple((x + y) * decay for x, y in zip(state.sums[player], response))
    state = FictitiousPlayState(
      sums=replace_player(state.sums, player, sums),
      weight=replace_player(state.weight, player, (state.weight[player] + 1.0) * decay),
      response=replace_player(state.response, player, response),
      values=state.values.add(player, sweep.root, decay),
      updates=replace_player(state.updates, player, state.updates[player] + 1),
    )
    return state, sweep

  def average_policy(self, problem: Problem, state: FictitiousPlayState) -> Levels:
    reach = self._target(state, 0), self._target(state, 1)
    ones = [jnp.ones_like(x) for x in reach[0]]
    return problem.normalise(problem.where_moved(ones, lambda i, p: reach[p][i]))

  current_policy = average_policy  # beliefs follow the average (ReBeL, section 5.2)


def best_moves(problem: Problem, sweep: Sweep, opponent_reach: Levels, player: int) -> Levels:
  """Returns the policy that takes the best moves of a best-response sweep, ties split evenly."""
  # Moves are tied if they differ by less than a few units in the last place of the largest payoff
  # times the opponent's reach. Equality would not do: XLA may compute a value twice, for the
  # maximum and for the comparison, and round it differently, and then no move would be best. The
  # weight falls off over as much again, not at once, for the same reason.

  def shares(i: int, _: int) -> jax.Array:
    values, advantages = sweep.nodes[i], jnp.asarray(problem.advantages(sweep, i, player))
    reach = problem.with_nature(i, opponent_reach[i], 1 - player)
    scale = jnp.maximum(
      reach.sum(axis=-1, keepdims=True) * problem.payoff_bound(i), jnp.abs(values)
    )
    rounding = jnp.finfo(values.dtype)
    unit = jnp.maximum(_ROUNDING * rounding.eps * scale, rounding.tiny)
    return jnp.clip(2.0 + advantages / unit, 0.0, 1.0)

  ones = [jnp.ones_like(x) for x in sweep.nodes]
  return problem.normalise(problem.where_moved(ones, shares, [player]), free=True)
