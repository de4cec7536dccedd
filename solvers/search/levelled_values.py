"""Infostate values shifted so that their mean is the value of the public belief state.

A search offers two estimates of what a PBS is worth. Means over its iterations (ReBeL, algorithm 2)
converge like regret. The average policies' values of the PBS converge faster, as neither player can
gain much by leaving them, but say less about infostates that are seldom held. And in a zero-sum
game the players' values are opposite, which a network's answers at the leaves are not quite, so
half of what both are too high is an error of each. `level_values` takes from each estimate what it
is good at.
"""

import jax
import jax.numpy as jnp

from games import PublicTree
from solvers.sweeps.pairs import root_marginals


def level_values(
  tree: PublicTree, beliefs: jax.Array, values: jax.Array, values_of_average: jax.Array
) -> jax.Array:
  """Shifts each player's values so that the PBS is worth what the average policies make it.

  Args:
    tree: of the subgame.
    beliefs: `[P, H]` at its root.
    values: `[P, H]` of infostates, means over iterations.
    values_of_average: `[P, H]` of the average policies.

  Returns:
    `[P, H]`: `values` plus one constant for each player, such that the players' values of the PBS
    are half the difference of those that `values_of_average` gives them, and opposite.
  """
  weights = root_marginals(tree, beliefs)
  weights = jnp.where(jnp.isfinite(weights), weights, 0.0)  # no pair is possible: nothing to level
  worth = (weights * values_of_average).sum(axis=-1)
  level = (worth - worth[::-1]) / 2
  return values + (level - (weights * values).sum(axis=-1))[:, None]
