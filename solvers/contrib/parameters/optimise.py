"""The parameters that a player would choose, such as the size of a bet (thesis, section 4.2)."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.public_tree import PublicTree
from solvers import validation
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.named import discounted_cfr
from solvers.contrib.parameters.affine_trees import AffineTrees
from solvers.loop import run
from solvers.metrics.policies import policy_values
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.pairs import root_marginals
from solvers.sweeps.problem import make_problem

_GROW, _SHRINK = 1.2, 0.5
_FIRST_STEP = 0.1  # of the parameter


class Optimum(NamedTuple):
  """Parameters that are best for a player, as far as steps nearby can tell.

  Attributes:
    parameters: `[D]`.
    value: what the player expects there, in the game's units.
    gradient: `[D]` what one more of each parameter would add to `value`.
    average_policy: `[N, H]` of the game there.
    path: `[S, D]` the parameters before each step.
  """

  parameters: jax.Array
  value: jax.Array
  gradient: jax.Array
  average_policy: jax.Array
  path: jax.Array


@validation.checked
def optimise(
  trees: AffineTrees,
  *,
  player: validation.Player,
  bounds: Sequence[Sequence[float]],
  start: Sequence[float] | None = None,
  algorithm: Algorithm | None = None,
  num_iterations: int = 4096,
  num_steps: validation.Positive = 40,
) -> Optimum:
  """Climbs to parameters that are best for `player` where both play an equilibrium of them.

  By the envelope theorem one solve gives the whole gradient of a game's value. Steps go by its
  signs (Rprop): they grow by a fifth while a sign stays and are halved where it changes, since
  values have kinks. The result is a local optimum.

  Args:
    trees: from `affine_trees`.
    player: 0 or 1.
    bounds: `[D, 2]` the least and greatest of each parameter.
    start: `[D]` the first parameters; None for those that `trees` starts from.
    algorithm: of each solve; None for `discounted_cfr()`. Static.
    num_iterations, num_steps: of each solve, and how many solves. Static.

  Raises:
    ValueError: a shape or number is out of range, or `start` is not within `bounds`.
  """
  algorithm = discounted_cfr() if algorithm is None else algorithm
  validation.check_algorithm(algorithm)
  num_iterations = validation.check_num_iterations(num_iterations, algorithm.alternating)
  first = np.asarray(trees.start if start is None else start, float)
  limits = np.asarray(bounds, float)
  if first.shape != np.shape(trees.start) or limits.shape != (*first.shape, 2):
    raise ValueError(
      f"start={first.tolist()} and bounds={limits.tolist()} must have a number and a pair of "
      f"numbers for each of {len(np.asarray(trees.start))} parameters"
    )
  if not ((limits[:, 0] <= first) & (first <= limits[:, 1])).all():
    raise ValueError(f"start={first.tolist()} must be within bounds={limits.tolist()}")
  given = (jnp.asarray(x, trees.tree.dtype) for x in (first, limits))
  return _climb(trees, *given, player, algorithm, num_iterations, num_steps)


@functools.partial(jax.jit, static_argnames=("player", "algorithm", "num_iterations", "num_steps"))
def _climb(trees, first, limits, player, algorithm, num_iterations, num_steps) -> Optimum:
  def look(theta) -> tuple[Any, jax.Array, jax.Array]:
    tree = trees.at(theta)
    problem = make_problem(tree, tree.prior)
    state = run(problem, algorithm, None, num_iterations).state
    policy = algorithm.average_policy(problem, state)
    return policy, _value(tree, policy, player), value_gradient(trees, policy, player)

  def step(carry, _):
    theta, size, (_, _, before) = carry
    seen = look(theta)
    gradient = seen[-1]
    turned = gradient * before < 0
    size = jnp.where(before == 0, size, size * jnp.where(turned, _SHRINK, _GROW))
    new = jnp.clip(theta + size * jnp.sign(gradient), limits[:, 0], limits[:, 1])
    return (new, size, seen), theta

  width = limits[:, 1] - limits[:, 0]
  size = jnp.minimum(jnp.where(first == 0, width, jnp.abs(first)) * _FIRST_STEP, width)
  unseen = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(look, first))
  # The last look is one more turn, whose step is not taken: to look elsewhere compiles it twice.
  (_, _, seen), path = lax.scan(step, (first, size, unseen), None, length=num_steps + 1)
  policy, value, gradient = seen
  return Optimum(path[-1], value, gradient, join_levels(policy), path[:-1])


def value_gradient(trees: AffineTrees, policy: Levels, player: int) -> jax.Array:
  """Returns the slope of `player`'s payoff in each parameter under a fixed policy: `[D]`."""
  # At an equilibrium it is that of the game's value (the envelope theorem), where there is one.
  slopes = jnp.asarray(trees.slopes)
  return jax.vmap(lambda slope: _value(trees.with_payoffs(slope), policy, player))(slopes)


def _value(tree: PublicTree, policy: Levels, player: int) -> jax.Array:
  """Returns the expected payoff of `player` under `policy`: a scalar."""
  problem = make_problem(tree, tree.prior)
  values = policy_values(problem, policy)[player]
  return (root_marginals(tree, jnp.asarray(tree.prior))[player] * values).sum()
