"""Regret transfer: a solution at some parameters as the start at others (thesis, section 4.2.2)."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.public_tree import Array
from solvers import validation
from solvers.algorithms.cfr import CFR, CFRState
from solvers.algorithms.named import vanilla_cfr
from solvers.algorithms.regret_rules import DiscountedRegret
from solvers.contrib.parameters.affine_cfr import AffineCFR, AffineProblem, affine_problem
from solvers.contrib.parameters.affine_trees import AffineTrees
from solvers.loop import run
from solvers.metrics.policies import policy_values
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.pairs import root_marginals
from solvers.sweeps.problem import make_problem

_WEIGHTS = ("bound", "potential")


class Transferable(NamedTuple):
  """A solution that can be carried over to other parameters.

  Attributes:
    average_policy: `[N, H]`.
    parameters: `[D]` where it was found.
    state: of CFR, with regrets as functions of the parameters.
    iterations: how many updates of each player it stands for, weighed.
    weight: by which what came before was weighed; 1 without.
  """

  average_policy: jax.Array
  parameters: jax.Array
  state: CFRState
  iterations: jax.Array
  weight: jax.Array


@validation.checked
def solve_affine(
  trees: AffineTrees,
  parameters: Sequence[float] | Array,
  *,
  num_iterations: int,
  start: Transferable | None = None,
  weight: str | float = "bound",
  algorithm: CFR | None = None,
) -> Transferable:
  """Solves a game by CFR, going on from regrets that were collected at other parameters.

  Args:
    trees: from `affine_trees`.
    parameters: `[D]` of the game to be solved.
    num_iterations: one player's update is one; even, and not static.
    start: what to go on from; None for nothing.
    weight: of what `start` has seen: "bound" for (4.52) with the mean absolute payoff for L;
      "potential" for the ratio of potentials before and after, at most 1; or a number. The lesser
      of both players' holds.
    algorithm: vanilla or Linear CFR; None for `vanilla_cfr()`.

  Raises:
    ValueError: the algorithm is another, or a shape or number is out of range.
  """
  algorithm = vanilla_cfr() if algorithm is None else algorithm
  rule = algorithm.rule if type(algorithm) is CFR else None
  if not isinstance(rule, DiscountedRegret) or rule.alpha != rule.beta:
    raise ValueError(
      f"algorithm={validation.short(algorithm)} must be vanilla_cfr() or linear_cfr(), whose "
      "sums of regret are linear"
    )
  num_iterations = validation.check_num_iterations(num_iterations, algorithm.alternating)
  if num_iterations % 2:
    raise ValueError(f"num_iterations={num_iterations} must be even: both players are updated")
  theta = trees.parameters("parameters", parameters)
  known = weight in _WEIGHTS if isinstance(weight, str) else 0 <= float(weight) < np.inf
  if not known or isinstance(weight, bool):
    raise ValueError(
      f"weight={validation.short(weight)} must be one of {', '.join(_WEIGHTS)}, or a number from 0"
    )
  affine = AffineCFR(rule, algorithm.averaging, algorithm.alternating)
  kind = weight if isinstance(weight, str) else "given"
  factor = 1.0 if isinstance(weight, str) else float(weight)
  return _solve(trees, theta, start, factor, affine, jnp.asarray(num_iterations), kind)


@validation.checked
def transfer_weight(
  trees: AffineTrees, parameters: Sequence[float] | Array, start: Transferable
) -> jax.Array:
  """Returns how much the iterations of `start` count at other `parameters`: (4.52), a scalar."""
  return _bound(trees, trees.parameters("parameters", parameters), start)


@jax.jit
def _bound(trees, theta, start):
  return _joint_weight(affine_problem(trees, theta), trees, start, "bound")


@functools.partial(jax.jit, static_argnames=("algorithm", "kind"))
def _solve(trees, theta, start, factor, algorithm, num_iterations, kind) -> Transferable:
  problem = affine_problem(trees, theta)
  done, weight = jnp.zeros((), trees.tree.dtype), jnp.ones((), trees.tree.dtype)
  state = None
  if start is not None:
    weight = jnp.asarray(factor, trees.tree.dtype)
    if kind != "given":
      weight = _joint_weight(problem, trees, start, kind)
    done = weight * start.iterations
    state = _weighed(algorithm, problem, start.state, weight)
  state = run(problem, algorithm, None, num_iterations, state=state).state
  average = join_levels(algorithm.average_policy(problem, state))
  return Transferable(average, theta, state, done + num_iterations / 2, weight)


def _weighed(algorithm: AffineCFR, problem: AffineProblem, state: CFRState, weight) -> CFRState:
  """Scales what was collected by `weight`; the next policies are those of the new parameters."""
  regret, average = jax.tree.map(lambda x: x * weight, (state.regret, state.average))
  values = jax.tree.map(jnp.zeros_like, state.values)
  return algorithm.extend(problem, state._replace(regret=regret, average=average, values=values))


def _joint_weight(problem: AffineProblem, trees: AffineTrees, start: Transferable, kind: str):
  """Returns the lesser of both players' weights."""
  old = affine_problem(trees, start.parameters)
  return jnp.minimum(*(_weight(old, problem, start, player, kind) for player in (0, 1)))


def _weight(old: AffineProblem, new: AffineProblem, start: Transferable, player: int, kind: str):
  """Returns the weight that `kind` gives the iterations of `start`, for one player."""
  iterations = jnp.maximum(start.iterations, 1.0)
  before, after, growth, moves = (jnp.asarray(x, iterations.dtype) for x in (0, 0, 0, 1))
  for i, regret in enumerate(start.state.regret):
    moved = new.moves_at(i, player)
    if moved is False:
      continue
    one, two = (jnp.where(moved, p.combine(regret), 0.0) for p in (old, new))
    before += (jnp.maximum(one, 0.0) ** 2).sum()
    after += (jnp.maximum(two, 0.0) ** 2).sum()
    growth = jnp.maximum(growth, (two - one).max() / iterations)
    choices = new._over_children(i, player, jnp.where(moved, 1.0, jnp.zeros_like(two)))
    moves = jnp.maximum(moves, choices.max())
  if kind == "potential":
    return jnp.where(after > before, before / jnp.where(after > 0, after, 1.0), 1.0)
  share = growth * jnp.sqrt(iterations) / _mean_payoff(new, start.state.policy)
  return 1 / (1 + 2 * jnp.sqrt(moves) * share + share**2)


def _mean_payoff(problem: AffineProblem, policy: Levels) -> jax.Array:
  """Returns the mean absolute payoff under `policy`: a scalar."""
  tree = problem.tree
  if tree.hands is None:
    tree = dataclasses.replace(tree, payoffs=jnp.abs(tree.payoffs))
  else:  # as if every game ended with a fold
    tree = dataclasses.replace(tree, payoff_index=jnp.zeros_like(tree.payoff_index))
  tree = dataclasses.replace(tree, payoff_scale=jnp.abs(tree.payoff_scale))
  values = policy_values(make_problem(tree, tree.prior), policy)[0]
  return (root_marginals(tree, tree.prior)[0] * values).sum()
