"""Warm start by substitute regrets: CFR from an average policy alone (thesis, section 3.2)."""
# `WarmStarted` gives each choice the regrets against an exact best response (lambda = 0), which
# forgets how CFR weighs moves that are about as good. Here each choice is worth so much less than
# its best move that the squares of its positive regrets sum to a share lambda of what regret
# matching may have left after T iterations, such that both players are worth just not more than
# zero.
# Players who take turns answer a policy that the other has already left, and their values sum to
# less than zero. How much less is measured by a short run from every start that is tried.

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.named import started
from solvers.algorithms.wrappers import WarmStarted
from solvers.contrib.payoff_ranges import payoff_ranges
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep, TreeProblem

_TRIAL = 16  # updates of each player that say what turns gain
_NEWTON_STEPS = 12
_SEARCH_STEPS = 16
_HALVINGS = 12
_LEAST = -6.0  # of the decimal logarithm of the share's root


def substitute_started(algorithm: Algorithm, *, num_iterations: int = 15) -> WarmStarted:
  """Starts from `solve`'s `initial_policy` with as much regret as CFR would have left.

  For whole trees. Alternating Linear CFR loses more than others: on Leduc poker less than by
  `warm_started`, on random matrices after long runs no less.

  Args:
    algorithm: of the CFR family, without a gadget.
    num_iterations: how many of each player the policy stands for.

  Raises:
    ValueError: `algorithm` is not of the CFR family or has a gadget, or `num_iterations` is not a
      positive integer.
  """
  return started(SubstituteStarted, algorithm, num_iterations)


@dataclasses.dataclass(frozen=True)
class SubstituteStarted(WarmStarted):
  """CFR that takes the policy to start from as the average of earlier iterations."""

  # For whole trees without a gadget: the share of regret is joint, so both players are valued at
  # once.

  def __post_init__(self):
    if hasattr(self.algorithm, "gadget"):
      raise ValueError(
        "substitute_started values both players at the root, where a gadget lets one stay out; use "
        "warm_started"
      )

  @property
  def primed(self) -> tuple[int, ...]:
    return (1,)

  def init(self, problem: Problem, policy: Levels | None = None) -> Any:
    if problem.tree.depth_limited:
      raise ValueError(
        "substitute_started needs a whole tree: leaf values depend on how players respond; use "
        "warm_started"
      )
    return self.algorithm.init(problem, policy)

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    """Seeds both players' regrets, averages and policies."""
    del values, player
    gain = functools.partial(self._gain, problem, state) if self.algorithm.alternating else None
    policy = self.algorithm.core(state).policy
    sweeps, _ = substitute_values(problem, policy, self.num_iterations, gain)
    return self._started(problem, state, sweeps)

  def _started(self, problem: Problem, state: Any, sweeps: tuple[Sweep, Sweep]) -> Any:
    for p in (0, 1):
      state = self._learn(problem, state, sweeps[p], p)
    return self._begin(problem, state)

  def _gain(self, problem: Problem, state: Any, sweeps: tuple[Sweep, Sweep]) -> jax.Array:
    """Returns by how much less than zero both are worth in updates after a start from `sweeps`."""
    state = self._started(problem, state, sweeps)

    def step(_, carry):
      state, total = carry
      for p in (0, 1):
        state, sweep = self.algorithm.update(problem, state, None, p)
        total -= (problem.root_beliefs(p) * sweep.root).sum()
      return state, total

    return lax.fori_loop(0, _TRIAL, step, (state, jnp.zeros((), problem.tree.dtype)))[1] / _TRIAL


class Substitutes(NamedTuple):
  """Both players' substitute values, and the share of (3.6) that their regrets take up."""

  # `nodes` of a sweep are `v'(I, a)`, `parents` are `v'(I)`. The share is 1, and the players' sum
  # above zero, if the policy is too far from an equilibrium to stand for so many iterations.
  sweeps: tuple[Sweep, Sweep]  # of player 0 and of player 1
  share: jax.Array  # lambda, 0 to 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class SubstituteProblem(TreeProblem):
  """A problem in which best responses fall short of the best move by some slack."""

  slack: tuple[Levels, Levels]  # by player and level `[inner nodes, H]`

  def _answer(self, index: int, player: int, values: jax.Array) -> jax.Array:
    """Returns `u` such that `norm(max(values - u, 0)) = slack` over the moves of each choice."""
    # The norm falls with `u` and is convex, so that Newton's steps come from below.
    slack, exists = self.slack[player][index - 1], self._existing(index, values)
    if self.floor is not None:
      slack = slack * self._over_children(index, player, self.floor.free[index], maximum=True)
    best = super()._answer(index, player, values)
    there = jnp.isfinite(best)
    best, slack = jnp.where(there, best, 0.0), jnp.where(there, slack, 0.0)

    def step(_, value):
      excess = jnp.maximum(values - self.from_parents(index, player, value), 0.0) * exists
      norm = jnp.sqrt(self._over_children(index, player, excess**2))
      total = self._over_children(index, player, excess)
      rise = (norm - slack) * norm / jnp.where(total > 0, total, 1.0)
      return jnp.minimum(value + rise, best)

    return lax.fori_loop(0, _NEWTON_STEPS, step, best - slack)

  def with_most_slack(self, reach: tuple[Levels, Levels]) -> "SubstituteProblem":
    """Returns the problem with slack `sqrt(pi_-i(I) |A(I)|) L(I)`: (3.6) for T = 1."""
    # In the unit of counterfactual values. Infostates without belief have no slack.
    return dataclasses.replace(self, slack=(self._most(reach, 0), self._most(reach, 1)))

  def _most(self, reach: tuple[Levels, Levels], player: int) -> Levels:
    other, belief = 1 - player, self.nature[player][0]
    fixed = len(self.tree.pair_weights) == 1  # else they count as part of the payoffs
    total = (belief[0] * self.root_mass[player]).sum() if fixed else 1.0
    slack: list[jax.Array] = []
    for i, width in enumerate(payoff_ranges(self, player)):
      belief = self.from_parents(i, player, belief) if i else belief
      if i + 1 == len(self.shapes):
        slack.append(width)
        break
      mass = self.with_nature(i, reach[other][i], other)
      if fixed:
        mass = self.compatible_mass(mass, player)
      else:
        mass = jnp.broadcast_to(mass.sum(axis=1, keepdims=True), mass.shape)
      mass = self.pairs.mask_values(i, player, jnp.maximum(mass, 0.0))[: len(width)]
      own = belief[: len(width)]
      share = jnp.where(own > 0, mass * total / jnp.where(own > 0, own, 1.0), 0.0)
      children = jnp.zeros((self.tree.structure.levels[i + 1].size, width.shape[1]), width.dtype)
      moves = self._over_children(i + 1, player, self._existing(i + 1, children))
      slack.append(jnp.sqrt(share * moves) * width)
    return tuple(slack)


def substitute_values(
  problem: Problem,
  policy: Levels,
  num_iterations: int | jax.Array,
  gain: Callable[[tuple[Sweep, Sweep]], jax.Array] | None = None,
) -> Substitutes:
  """Returns values of `policy` as if it were the average of `num_iterations` of each player."""
  # `v'(I)` solves `sum_a max(v'(I, a) - v'(I), 0)^2 = lambda pi_-i(I) L(I)^2 |A(I)| / T` from the
  # bottom up, and the least lambda is taken that has `v'_0 + v'_1 <= -gain` (thesis, section 3.2.4,
  # which prints the difference the other way round); `gain` is what taking turns wins, None for 0.
  # Under a floor regrets are those of what the floor leaves free.
  reach = problem.both_reach(policy)
  most = SubstituteProblem(**vars(problem), slack=((), ())).with_most_slack(reach)
  beliefs = [problem.nature[player][0][0] for player in (0, 1)]

  def respond(root: jax.Array) -> tuple[Sweep, Sweep]:
    """Answers with lambda = `root` squared."""
    by = root / jnp.sqrt(jnp.asarray(num_iterations, problem.tree.dtype))
    there = dataclasses.replace(most, slack=jax.tree.map(lambda x: x * by, most.slack))
    first, second = (there.values_up(None, reach[1 - p], None, p) for p in (0, 1))
    return first, second

  def value_of(sweeps: tuple[Sweep, Sweep]) -> jax.Array:
    return sum(((b * sweep.root).sum() for b, sweep in zip(beliefs, sweeps)), jnp.zeros(()))

  def together(root: jax.Array) -> jax.Array:
    return value_of(respond(root))

  def narrow(_, ends):
    # What both are worth is convex in the root: a chord crosses zero on the right of it. Halving
    # the end that stays (the Illinois rule) moves that one too.
    low, high, above, below = ends
    middle = low + (high - low) * above / (above - below)
    middle = jnp.where(above > below, jnp.clip(middle, low, high), high)
    value = together(middle)
    right = value <= 0
    return (
      jnp.where(right, low, middle),
      jnp.where(right, middle, high),
      jnp.where(right, above / 2, value),
      jnp.where(right, value, below / 2),
    )

  zero, one = jnp.zeros((), problem.tree.dtype), jnp.ones((), problem.tree.dtype)
  if gain is not None:

    def halve(_, ends):
      low, high = ends
      middle = (low + high) / 2
      sweeps = respond(10.0**middle)
      right = value_of(sweeps) + gain(sweeps) <= 0
      return jnp.where(right, low, middle), jnp.where(right, middle, high)

    found = 10.0 ** lax.fori_loop(0, _HALVINGS, halve, (_LEAST * one, zero))[1]
    return Substitutes(respond(found), found**2)
  above, below = together(zero), together(one)
  found = lax.fori_loop(0, _SEARCH_STEPS, narrow, (zero, one, above, below))[1]
  found = jnp.where(above <= 0, zero, jnp.where(below > 0, one, found))
  return Substitutes(respond(found), found**2)
