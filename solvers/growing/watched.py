"""What simulations see of the last update, kept beside what the next search is promised."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.algorithms.algorithm import replace_player
from solvers.algorithms.leaf_means import LeafMeans, LeafMeansState
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Sweep


class Seen(NamedTuple):
  """State of `Watched`: that of `LeafMeans`, and the last update's values and masses."""

  means: LeafMeansState
  nodes: tuple[jax.Array, jax.Array]  # [rows of all levels, H] for each player, counterfactual
  mass: tuple[jax.Array, jax.Array]  # [L, H] for each player


class Watched(LeafMeans):
  """`LeafMeans` that also keeps the last sweep, which simulations choose by."""

  def init(self, problem: Any, policy: Levels | None = None) -> Any:
    means = super().init(problem, policy)
    nodes = jnp.zeros_like(join_levels(super().core(means).policy))
    return Seen(means, (nodes, nodes), means.mass)

  def leaf_query(self, problem: Any, state: Any, player: int) -> Any:
    return super().leaf_query(problem, state.means, player)

  def update(
    self, problem: Any, state: Any, values: jax.Array | None, player: int
  ) -> tuple[Any, Sweep]:
    means, sweep, mass = self.update_with_mass(problem, state.means, values, player)
    nodes = replace_player(state.nodes, player, join_levels(sweep.nodes))
    return Seen(means, nodes, replace_player(state.mass, player, mass)), sweep

  def merge(self, problem: Any, first: Any, second: Any) -> Any:
    means = super().merge(problem, first.means, second.means)
    return Seen(means, (first.nodes[0], second.nodes[1]), (first.mass[0], second.mass[1]))

  def extend(self, problem: Any, state: Any) -> Any:
    return state._replace(means=super().extend(problem, state.means))

  def core(self, state: Any) -> Any:
    return super().core(state.means)
