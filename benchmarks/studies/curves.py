"""Exploitability against iterations, every point of a curve from one run of one program."""

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

import solvers
from games import Array, PublicTree
from games.poker.lines import Lines
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.metrics.policies import exploitability_of
from solvers.sweeps import join_levels, make_lines_problem, make_problem
from solvers.xla import Programs, work_on_trees


def checkpoints(last: int, first: int = 4) -> list[int]:
  """Returns even numbers of iterations, two to each doubling, from `first` to `last`."""
  found, power = [], first
  while power < last:
    found += [power, power * 3 // 2 // 2 * 2]
    power *= 2
  return sorted({i for i in found if i < last} | {last})


def jittered_priors(tree: PublicTree, runs: int) -> list[np.ndarray]:
  """Returns the prior `[P, H]` and others that differ from it in the last bit."""
  # Where two moves are worth the same, rounding decides which regret is positive, and the runs part
  # from there: a number from a single run says little.
  rng, epsilon = np.random.default_rng(0), np.finfo(tree.dtype).eps
  priors = []
  for i in range(runs):
    last_bits = rng.integers(-1, 2, size=tree.prior.shape) * (i > 0)
    priors.append((tree.prior * (1 + epsilon * last_bits)).astype(tree.dtype))
  return priors


def curve(
  tree: PublicTree | Lines,
  algorithm: solvers.Algorithm,
  iterations: Sequence[int],
  *,
  prior: Array | None = None,
  initial_policy: Array | None = None,
) -> np.ndarray:
  """Returns the exploitability at each of `iterations`, even and rising, of one solve: `[K]`."""
  # Equal to that of what `solvers.solve` returns after as many. `prior` `[P, H]` is what is solved
  # from, and the tree's what is measured from; `initial_policy` `[N, H]` is a warm start's.
  steps = np.diff([0, *iterations])
  if not len(steps) or (steps <= 0).any() or (steps % 2).any():
    raise ValueError(f"iterations={list(iterations)} must be even and rise from at least 2")
  if not algorithm.alternating:
    raise ValueError(f"algorithm={algorithm} must update the players in turn")
  averaging = None
  if isinstance(algorithm, FictitiousPlay):
    # Given apart, so that fictitious play with any weights is one program.
    averaging = algorithm.averaging
    algorithm = FictitiousPlay(optimistic=algorithm.optimistic)
  start = tree.prior if prior is None and isinstance(tree, PublicTree) else prior
  found = _curves[work_on_trees()](
    tree, start, steps // 2, averaging, initial_policy, algorithm=algorithm
  )
  return np.asarray(found, float)


def _curve(tree, prior, steps, averaging, initial_policy, *, algorithm: solvers.Algorithm):
  if averaging is not None:
    assert isinstance(algorithm, FictitiousPlay)
    algorithm = dataclasses.replace(algorithm, averaging=averaging)
  lines = isinstance(tree, Lines)
  problem = make_lines_problem(tree) if lines else make_problem(tree, prior)
  policy = None
  if initial_policy is not None:
    policy = problem.split(jnp.asarray(initial_policy, tree.dtype))

  def score(state):
    average = algorithm.average_policy(problem, state)
    if lines:
      return exploitability_of(problem, average)
    return solvers.exploitability(problem.tree, join_levels(average))

  # Each score is that of the policy before the next pair of updates.
  ends = jnp.cumsum(jnp.asarray(steps))

  def observe(j, problem, state, found):
    due = ends == j
    return jax.lax.cond(due.any(), lambda: jnp.where(due, score(state), found), lambda: found)

  found = jnp.zeros(len(steps), tree.dtype)
  end = solvers.loop.run(
    problem, algorithm, None, 2 * ends[-1], policy=policy, observe=observe, carry=found
  )
  return end.carry.at[-1].set(score(end.state))


_curves = Programs(_curve, static_argnames="algorithm")
