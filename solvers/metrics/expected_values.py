"""Expected values of a fixed policy on whole and depth-limited trees."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from games.public_tree import Array, PublicTree
from solvers import leaf_values as leaves
from solvers import validation
from solvers.loop import Evaluate
from solvers.sweeps import pairs
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, make_problem, per_unit_of_mass
from solvers.xla.compiler_options import Programs, work_of_solving


def policy_values(problem: Problem, policy: Levels, evaluate: Evaluate | None = None) -> jax.Array:
  """Returns both players' expected values per root infostate under `policy`: `[P, H]`."""
  if evaluate is None:
    return values_given_leaves(problem, policy, None)
  beliefs = leaves.leaf_beliefs(problem, problem.both_reach(policy))
  first, second = (evaluate(leaves.make_query(problem, p, beliefs)) for p in (0, 1))
  return values_given_leaves(problem, policy, (first, second))


def values_given_leaves(
  problem: Problem, policy: Levels, answers: tuple[jax.Array, jax.Array] | None
) -> jax.Array:
  """Returns `policy_values` given both players' expected leaf values, each `[L, H]`."""
  reach = problem.both_reach(policy)
  totals = []
  for player in (0, 1):
    values, opponent = None, reach[1 - player]
    if answers is not None:
      values = problem.weigh_leaf_values(answers[player], opponent, player)
    totals.append(problem.values_up(policy, opponent, values, player).root)
  return per_unit_of_mass(jnp.stack(totals), problem.root_mass)


def check_whole(tree: PublicTree, policy, beliefs) -> jax.Array:
  """Checks the arguments that metrics share; returns the beliefs `[P, H]`."""
  validation.check_unstacked(tree)
  if tree.depth_limited:
    raise ValueError(
      f"tree is cut off at {tree.num_leaves} leaves, so a policy on it has no value; build the "
      "tree without a depth"
    )
  validation.check_policy("policy", tree, policy)
  if beliefs is None:
    return jnp.asarray(tree.prior)
  validation.check_beliefs(tree, beliefs)
  return jnp.asarray(beliefs, tree.dtype)


def expected_values(tree: PublicTree, policy: Array, *, beliefs: Array | None = None) -> jax.Array:
  """Computes what each player expects under `policy`, for each of its root infostates.

  Args:
    tree: a tree without leaves.
    policy: `[N, H]`, as `solve` returns it.
    beliefs: `[P, H]` at the root; None for the tree's own prior.

  Returns:
    `[P, H]` payoffs, the other's infostate drawn from the root beliefs conditioned on the
    player's. Zero where no infostate of the other is compatible.

  Raises:
    ValueError: the tree is depth-limited or stacked, or `policy` or `beliefs` has the wrong
      shape or is concrete and not a distribution.
  """
  beliefs = check_whole(tree, policy, beliefs)
  policy = jnp.asarray(policy, tree.dtype)
  return _programs[work_of_solving(tree, None, policy, beliefs)](tree, policy, beliefs)


def _expected_values(tree, policy, beliefs):
  problem = make_problem(tree, beliefs)
  return policy_values(problem, problem.split(policy))


_programs = Programs(_expected_values)


def infostate_values(
  tree: PublicTree,
  value: Callable[[jax.Array], jax.Array],
  beliefs: Array,
  *,
  player: int,
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
  validation.check_player(player)
  validation.check_beliefs(tree, beliefs)
  if not callable(value):
    raise TypeError(f"value={validation.short(value)} must be a function of beliefs [P, H]")
  beliefs = jnp.asarray(beliefs, tree.dtype)
  mass = pairs.root_mass(tree, beliefs)[player]

  def total(own: jax.Array) -> jax.Array:
    """Returns the sum over pairs, not their mean: linear in how much there is of everything."""
    normalised = beliefs.at[player].set(own / own.sum())
    return value(normalised) * (own * mass).sum()

  slope = jax.grad(total)(beliefs[player])
  return per_unit_of_mass(slope, mass)
