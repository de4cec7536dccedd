"""Samples the leaf at which self-play goes on (ReBeL, algorithm 2, SampleLeaf)."""

import jax
import jax.numpy as jnp

from games.public_tree import PADDING, Array
from solvers.sweeps.levels import Levels, chance_reach
from solvers.sweeps.problem import Problem


def explore(problem: Problem, policy: Levels, explorer: jax.Array, rate: float) -> Levels:
  """Mixes uniform play into the policy of one player.

  Args:
    problem: the subgame.
    policy: for each level `[n, H]`.
    explorer: `[]` 0 or 1.
    rate: probability of a uniform move at each of the explorer's decisions.

  Returns:
    The mixed policy; the other player's rows are as they were.
  """
  uniform = problem.uniform_policy()
  mixed = [policy[0]]
  for i in range(1, len(policy)):
    explores = jnp.zeros((), bool)
    for player in (0, 1):
      explores = explores | (jnp.asarray(problem.moves_at(i, player)) & (explorer == player))
    mixed.append(jnp.where(explores, (1 - rate) * policy[i] + rate * uniform[i], policy[i]))
  return tuple(mixed)


def leaf_probabilities(problem: Problem, policy: Levels, beliefs: Array) -> jax.Array:
  """Returns the probability that play by `policy` from root `beliefs` ends at each leaf: `[L]`.

  What is missing to one is the probability of a terminal node; all of it where no pair of
  infostates is compatible.
  """
  tree = problem.tree
  first, second = (
    problem.leaf_reach(own, player) for player, own in enumerate(problem.both_reach(policy))
  )
  joint = (first * problem.compatible_mass(second, 0)).sum(axis=-1)
  if tree.chance_probability is not None:
    # Both players' reach holds the probability of chance; it counts once.
    chance = problem.leaf_rows(chance_reach(tree, joint.dtype))[:, 0]
    joint = joint / jnp.maximum(chance, jnp.finfo(joint.dtype).tiny)
  if tree.padded:  # below a deal padding is reached like any other outcome
    joint = jnp.where(jnp.asarray(tree.leaf_actor) != PADDING, joint, 0.0)
  total = (beliefs[0] * problem.root_mass[0]).sum()
  # Exploring may lead where the beliefs, which know nothing of it, leave no compatible pair of
  # hands; what sums that cancel leave of nothing is rounding.
  return jnp.where(total > 1e-6, joint / jnp.maximum(total, 1e-6), 0.0)


def sample_leaf(key: jax.Array, probabilities: jax.Array, play_on: float = 0.0) -> jax.Array:
  """Samples a leaf by `probabilities` `[L]`; L itself stands for a terminal node.

  Games that end are rather played on to a leaf, if there is one, with a probability of `play_on`.
  """
  reached = probabilities.sum()
  terminal = jnp.maximum(1.0 - reached, 0.0) * jnp.where(reached > 0, 1.0 - play_on, 1.0)
  weights = jnp.append(probabilities, terminal)
  return jax.random.categorical(key, jnp.log(weights + jnp.finfo(weights.dtype).tiny))
