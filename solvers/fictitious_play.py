"""Fictitious play, linear fictitious play and FLOP on public trees (ReBeL, appendix H)."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from games.public_tree import PublicTree
from solvers import leaf_values as leaves
from solvers import traversal
from solvers.algorithm import RunningValues, pick_players
from solvers.leaf_values import LeafQuery
from solvers.traversal import Levels, Setting


class FictitiousPlayState(NamedTuple):
  """State of fictitious play on one tree.

  A sum of policies weighted by own reach is, up to its total weight, the reach of their
  average, so sums are kept in reach form at every node.
  """

  sums: tuple[Levels, Levels]  # [n, H] a level: each player's summed own reach
  weight: jax.Array  # [P] total weight of the sums
  response: tuple[Levels, Levels]  # [n, H] a level: own reach of each player's last response
  values: RunningValues
  updates: jax.Array  # [P]


@dataclasses.dataclass(frozen=True)
class FictitiousPlay:
  """Best responses to the other's average policy.

  Conventions as in the reference program: the first policy is uniform; a player's k-th best
  response is added to its sum, which is then scaled by `((k + 1) / (k + 2)) ** averaging`.
  Ties are split evenly; moves that rounding cannot tell apart are tied.

  Attributes:
    averaging: 0 for fictitious play, 1 for its linear form.
    optimistic: whether responses are to the average with the last response counted twice
      (fictitious linear optimistic play).
    alternating: whether players take turns.
  """

  averaging: float = 0.0
  optimistic: bool = False
  alternating: bool = True

  @property
  def primed(self) -> tuple[int, ...]:
    return ()

  @property
  def values_of_average(self) -> bool:
    return True

  def init(self, tree: PublicTree, setting: Setting, policy: Levels) -> FictitiousPlayState:
    reach = traversal.both_reach(tree, setting, policy)
    dtype, h = policy[0].dtype, tree.num_infostates
    return FictitiousPlayState(
      sums=reach,
      weight=jnp.ones(2, dtype),
      response=reach,
      values=RunningValues(jnp.zeros((2, h), dtype), jnp.zeros(2, dtype)),
      updates=jnp.zeros(2, jnp.int32),
    )

  def _target(self, state: FictitiousPlayState, player: int) -> Levels:
    """Returns the reach of `player`'s policy that the other responds to."""
    sums, weight = state.sums[player], state.weight[player]
    if not self.optimistic:
      return tuple(x / weight for x in sums)
    response = state.response[player]
    return tuple((x + y) / (weight + 1.0) for x, y in zip(sums, response))

  def leaf_query(
    self, tree: PublicTree, setting: Setting, state: FictitiousPlayState, player: int
  ) -> LeafQuery:
    reach = (self._target(state, 0), self._target(state, 1))
    return leaves.make_query(tree, player, leaves.leaf_reach(tree, setting, reach))

  def prime(self, tree, setting, state, values, player) -> FictitiousPlayState:
    del tree, setting, values, player
    return state

  def update(
    self,
    tree: PublicTree,
    setting: Setting,
    state: FictitiousPlayState,
    values: jax.Array | None,
    player: int,
  ) -> FictitiousPlayState:
    k = (state.updates[player] + 1).astype(state.weight.dtype)
    opponent = self._target(state, 1 - player)
    if values is not None:
      values = traversal.weigh_leaf_values(tree, setting, values, opponent, player)
    sweep = traversal.values_up(tree, setting, None, opponent, values, player)
    policy = best_moves(tree, setting, sweep, opponent, player)
    response = traversal.own_reach(tree, setting, policy, player)
    decay = ((k + 1.0) / (k + 2.0)) ** self.averaging
    sums = tuple((x + y) * decay for x, y in zip(state.sums[player], response))
    return FictitiousPlayState(
      sums=_replace(state.sums, player, sums),
      weight=state.weight.at[player].set((state.weight[player] + 1.0) * decay),
      response=_replace(state.response, player, response),
      values=state.values.add(player, sweep.root, decay),
      updates=state.updates.at[player].add(1),
    )

  def merge(
    self,
    tree: PublicTree,
    setting: Setting,
    first: FictitiousPlayState,
    second: FictitiousPlayState,
  ) -> FictitiousPlayState:
    del tree, setting
    return FictitiousPlayState(
      sums=(first.sums[0], second.sums[1]),
      weight=pick_players(first.weight, second.weight),
      response=(first.response[0], second.response[1]),
      values=first.values.merge(second.values),
      updates=pick_players(first.updates, second.updates),
    )

  def current_policy(
    self, tree: PublicTree, setting: Setting, state: FictitiousPlayState
  ) -> Levels:
    # Beliefs follow the average in fictitious play (ReBeL, section 5.2).
    return self.average_policy(tree, setting, state)

  def average_policy(
    self, tree: PublicTree, setting: Setting, state: FictitiousPlayState
  ) -> Levels:
    reach = (self._target(state, 0), self._target(state, 1))
    weights = [jnp.ones_like(x) for x in reach[0]]
    for i in range(1, len(weights)):
      for player in (0, 1):
        moved = traversal.moves_at(tree, setting, i, player)
        weights[i] = traversal.choose(moved, reach[player][i], weights[i])
    return traversal.normalise_policy(tree, setting, tuple(weights))

  def root_values(self, setting: Setting, state: FictitiousPlayState) -> jax.Array:
    return state.values.mean(setting.root_mass)


def _replace(pair, player: int, value):
  return (value, pair[1]) if player == 0 else (pair[0], value)


def best_moves(
  tree: PublicTree, setting: Setting, sweep: traversal.Sweep, opponent_reach: Levels, player: int
) -> Levels:
  """Returns the policy that takes the best moves of a best-response sweep, ties split evenly.

  Moves are tied if rounding cannot tell them apart: if they differ by less than a few units in the
  last place of the largest payoff times the opponent's reach. Equality would not do. XLA may
  compute a value twice, for the maximum and for the comparison, and round it differently, and then
  no move would be best. The weight falls off over as much again rather than at once, for the same
  reason. Rows that `player` did not move to are one.
  """
  largest = jnp.abs(jnp.asarray(tree.payoffs)).max()
  if tree.payoff_scale.shape[-1]:
    largest = largest * jnp.maximum(jnp.abs(jnp.asarray(tree.payoff_scale)).max(), 1.0)
  policy = []
  for i, values in enumerate(sweep.nodes):
    parents = sweep.parents[i]
    if parents is None:
      policy.append(jnp.ones_like(values))
      continue
    mass = (opponent_reach[i] * setting.nature[1 - player][i]).sum(axis=-1, keepdims=True)
    scale = jnp.maximum(mass * largest, jnp.abs(values))
    rounding = jnp.finfo(values.dtype)
    unit = jnp.maximum(_ROUNDING * rounding.eps * scale, rounding.tiny)
    best = jnp.clip(2.0 - (parents - values) / unit, 0.0, 1.0)
    moved = traversal.moves_at(tree, setting, i, player)
    policy.append(traversal.choose(moved, best, jnp.ones_like(best)))
  return traversal.normalise_policy(tree, setting, tuple(policy))


_ROUNDING = 32  # units in the last place: sums of up to some thousand terms stay well below
