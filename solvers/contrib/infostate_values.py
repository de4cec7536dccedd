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
  """Computes what each infostate is worth from how a PBS's value changes with its belief.

  A value function of PBSs, such as a network of one output, thus knows all that a search needs:
  where play is an equilibrium the values of infostates are a supergradient of it (ReBeL, theorem
  1; of its extension to beliefs that do not sum to one). Infostates that exclude each other make
  the value of a PBS a mean over pairs, whose weight is taken out here.

  Args:
    tree: whose root the PBSs are at.
    value: of beliefs `[P, H]`, rows summing to one: what `player` expects, a scalar; differentiable
      by JAX. At beliefs where it is not it has several supergradients, and JAX takes one.
    beliefs: `[P, H]`.
    player: 0 or 1.

  Returns:
    `[H]` expected payoffs to `player`; zero where no infostate of the other is compatible.

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
