"""Values of infostates from a value of public belief states (ReBeL, theorem 1)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.sweeps import pairs
from solvers.sweeps.problem import per_unit_of_mass


@validation.checked
def infostate_values(
  tree: PublicTree,
  value: Callable[[jax.Array], jax.Array],
  beliefs: Array,
  *,
  player: validation.Player,
) -> jax.Array:
  """Computes values of infostates `[H]` from how a PBS's value changes with its belief.

  Where play is an equilibrium they are a supergradient of the PBS's value (ReBeL, theorem 1), so a
  network of one output serves a search. Zero where no infostate of the other is compatible.

  Args:
    tree: whose root the PBSs are at.
    value: of beliefs `[P, H]`, rows summing to one: what `player` expects, a scalar; differentiable
      by JAX, which takes one of several supergradients.
    beliefs: `[P, H]`.
    player: 0 or 1.

  Raises:
    ValueError: `player` or `beliefs` are not allowed.
  """
  validation.check_unstacked(tree)
  validation.check_beliefs(tree, beliefs)
  beliefs = jnp.asarray(beliefs, tree.dtype)
  mass = pairs.root_mass(tree, beliefs)[player]

  def total(own: jax.Array) -> jax.Array:
    """Returns the sum over pairs, not their mean: linear in how much there is of everything."""
    normalised = beliefs.at[player].set(own / own.sum())
    return value(normalised) * (own * mass).sum()

  slope = jax.grad(total)(beliefs[player])
  return per_unit_of_mass(slope, mass)
