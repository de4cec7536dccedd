"""The one loop over iterations: every solver, search and growing tree is a caller of it."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import lax

from solvers.algorithms.algorithm import Algorithm
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep

# Answers a query with the traverser's expected values at the leaves, `[L, H]`.
Evaluate = Callable[[LeafQuery], jax.Array]
# (j, problem, state, carry) -> carry, before each pair of updates: j of each player are done.
Observe = Callable[[jax.Array, Problem, Any, Any], Any]
# (j, problem, state, sweeps, carry) -> problem, carry, after each pair of updates. `sweeps` are
# those that player 0 and player 1 learned from; only which nodes are there may change.
Grow = Callable[[jax.Array, Problem, Any, tuple[Sweep, Sweep], Any], tuple[Any, Any]]


class Run(NamedTuple):
  """The end of a run: the problem, the algorithm's state and the carry of `observe` and `grow`."""

  problem: Any
  state: Any
  carry: Any


def update_both(
  problem: Any, algorithm: Algorithm, state: Any, answer: Callable[[Any, int], jax.Array | None]
) -> tuple[Any, tuple[Sweep, Sweep]]:
  """Updates player 0 and player 1: in turn if the algorithm alternates, else each as if first.

  Args:
    problem, algorithm, state: as for `run`.
    answer: leaf values of a player, given the state before its update.

  Returns:
    The state, and the sweeps that player 0 and player 1 learned from.
  """
  if algorithm.alternating:
    state, first = algorithm.update(problem, state, answer(state, 0), 0)
    state, second = algorithm.update(problem, state, answer(state, 1), 1)
    return state, (first, second)
  # Each update reads the state from before either; what belongs to player 1 is the second's.
  answers = answer(state, 0), answer(state, 1)
  state_0, first = algorithm.update(problem, state, answers[0], 0)
  state_1, second = algorithm.update(problem, state, answers[1], 1)
  return algorithm.merge(problem, state_0, state_1), (first, second)


def run(
  problem: Any,
  algorithm: Algorithm,
  evaluate: Evaluate | None,
  num_iterations: int | jax.Array,
  *,
  policy: Levels | None = None,
  observe: Observe | None = None,
  grow: Grow | None = None,
  carry: Any = None,
  state: Any = None,
) -> Run:
  """Runs an algorithm on a problem, or a batched algorithm on a batch of them.

  Args:
    problem: from `make_problem`.
    algorithm: such as `linear_cfr()`, or `Batched` of one for a batch of problems; static.
    evaluate: values of leaves; None if the problem asks for none.
    num_iterations: one player's update is one; player 0 is first. May be traced if it is even.
    policy: the first; None for uniform.
    observe: samples an iterate, keeps all of them, or scores a curve.
    grow: adds nodes to a masked problem.
    carry: what `observe` and `grow` are given first.
    state: of the algorithm, to go on from; None to begin.

  Returns:
    Where the run ended.
  """

  def ask(problem, state, player: int):
    return None if evaluate is None else evaluate(algorithm.leaf_query(problem, state, player))

  def step(j, loop):
    now = problem if grow is None else loop.problem
    carry = loop.carry if observe is None else observe(j, now, loop.state, loop.carry)
    state, sweeps = update_both(now, algorithm, loop.state, functools.partial(ask, now))
    if grow is None:
      return Run(None, state, carry)
    now, carry = grow(j, now, state, sweeps, carry)
    return Run(now, algorithm.extend(now, state), carry)

  if state is None:
    state = algorithm.init(problem, policy)
    answers = {player: ask(problem, state, player) for player in algorithm.primed}
    for player, answer in answers.items():
      state = algorithm.prime(problem, state, answer, player)
  start = Run(None if grow is None else problem, state, carry)
  end = lax.fori_loop(0, num_iterations // 2, step, start)
  end = end._replace(problem=problem if grow is None else end.problem)
  if isinstance(num_iterations, int) and num_iterations % 2:
    state, _ = algorithm.update(end.problem, end.state, ask(end.problem, end.state, 0), 0)
    end = end._replace(state=state)
  return end
