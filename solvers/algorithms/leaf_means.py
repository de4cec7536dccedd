"""Mean leaf values of a search over its iterations, for the searches that follow."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from solvers.algorithms.algorithm import replace_player
from solvers.algorithms.schedule import decay
from solvers.algorithms.wrapper import Holder
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep, per_unit_of_mass


class LeafMeansState(NamedTuple):
  """State of `LeafMeans`: the algorithm's, and for each player sums `[L, H]` over its updates."""

  inner: Any
  values: tuple[jax.Array, jax.Array]  # counterfactual
  mass: tuple[jax.Array, jax.Array]  # the opponent's, compatible with the infostate


class LeafMeans(Holder):
  """Does what `algorithm` does, and keeps each player's mean leaf values.

  A mean is counterfactual and per unit of the opponent's mass, with the weights of the average
  policy: what the opponent of the next search is promised (thesis, section 5.1; Player of Games).
  Values at the beliefs of the average policies would not do. In equilibrium several answers are
  often best there, and each leaves the opponent other values.
  """

  def init(self, problem: Problem, policy: Levels | None = None) -> LeafMeansState:
    inner = self.algorithm.init(problem, policy)
    leaves = problem.leaf_rows(problem.split(jnp.zeros_like(problem.tree.parent)[:, None]))
    nothing = jnp.zeros((len(leaves), problem.num_infostates), problem.tree.dtype)
    return LeafMeansState(inner, (nothing, nothing), (nothing, nothing))

  def update(
    self, problem: Problem, state: LeafMeansState, values: jax.Array | None, player: int
  ) -> tuple[LeafMeansState, Sweep]:
    core = self.algorithm.core(state.inner)
    inner, sweep = self.algorithm.update(problem, state.inner, values, player)
    worth = problem.leaf_rows(sweep.nodes)
    mass = problem.weigh_leaf_values(jnp.ones_like(worth), core.reach[1 - player], player)
    k = core.updates[player].astype(worth.dtype) + 1.0
    factor = decay(k - 1.0, self.averaging) if self.averaging else 1.0
    sums = [x[player] * factor for x in (state.values, state.mass)]
    return LeafMeansState(
      inner,
      replace_player(state.values, player, sums[0] + worth),
      replace_player(state.mass, player, sums[1] + mass),
    ), sweep._replace(mass=mass)

  def merge(
    self, problem: Problem, first: LeafMeansState, second: LeafMeansState
  ) -> LeafMeansState:
    return LeafMeansState(
      self.algorithm.merge(problem, first.inner, second.inner),
      (first.values[0], second.values[1]),
      (first.mass[0], second.mass[1]),
    )

  def means(self, state: LeafMeansState) -> jax.Array:
    """Returns each player's mean leaf values, `[P, L, H]`; zero at leaves without reach."""
    return per_unit_of_mass(jnp.stack(state.values), jnp.stack(state.mass))

  def known(self, state: LeafMeansState) -> jax.Array:
    """Returns whether `means` has data on a player's infostates at a leaf: `[P, L]` bool."""
    return (jnp.stack(state.mass) > 0).any(axis=-1)
