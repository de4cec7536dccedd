"""The one loop over iterations: every solver, search and growing tree is a caller of it."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.regret_rules import at_horizon
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep
from solvers.xla import varying_alike

# Answers a query with the traverser's expected values at the leaves, `[L, H]`.
Evaluate = Callable[[LeafQuery], jax.Array]
# (j, problem, state, carry) -> carry, before each pair of updates: j of each player are done.
Observe = Callable[[jax.Array, Problem, Any, Any], Any]


FIRST = 32  # iterations before the first look; later ones are a quarter of those done
_SECONDS = 3.0  # between two calls, after which signals are handled, if iterations are that quick


class Run(NamedTuple):
  """The end of a run: the algorithm's state and the carry of `observe`."""

  state: Any
  carry: Any


def update_both(
  problem: Any, algorithm: Algorithm, state: Any, answer: Callable[[Any, int], jax.Array | None]
) -> tuple[Any, tuple[Sweep, Sweep]]:
  """Updates both players: in turn if the algorithm alternates, else both from the same state."""
  if algorithm.alternating:
    state, first = algorithm.update(problem, state, answer(state, 0), 0)
    state, second = algorithm.update(problem, state, answer(state, 1), 1)
    return state, (first, second)
  answers = answer(state, 0), answer(state, 1)
  state_0, first = algorithm.update(problem, state, answers[0], 0)
  state_1, second = algorithm.update(problem, state, answers[1], 1)
  return merged(state, state_0, state_1), (first, second)


def merged(before: Any, first: Any, second: Any) -> Any:
  """Returns a state as player 0's update left it in `first`, and player 1's in `second`."""

  # Each update changes its own player's part alone.
  def merge(old, x, y):
    if x is old or y is old:
      return y if x is old else x
    return jnp.where(x != old, x, y)

  return jax.tree.map(merge, before, first, second)


def begin(
  problem: Any, algorithm: Algorithm, evaluate: Evaluate | None = None, policy: Levels | None = None
) -> Any:
  """Returns the algorithm's state before the first update; arguments as for `run`."""
  state = algorithm.init(problem, policy)
  answers = {
    player: _ask(problem, algorithm, evaluate, state, player) for player in algorithm.primed
  }
  for player, answer in answers.items():
    state = algorithm.prime(problem, state, answer, player)
  return state


def run(
  problem: Any,
  algorithm: Algorithm,
  evaluate: Evaluate | None,
  num_iterations: int | jax.Array,
  *,
  policy: Levels | None = None,
  observe: Observe | None = None,
  carry: Any = None,
  state: Any = None,
) -> Run:
  """Runs an algorithm on a problem, or a batched algorithm on a batch of them."""

  def answer(state: Any, player: int) -> jax.Array | None:
    return _ask(problem, algorithm, evaluate, state, player)

  def step(j, loop):
    carry = loop.carry if observe is None else observe(j, problem, loop.state, loop.carry)
    return varying_alike(
      Run(update_both(problem, algorithm, loop.state, answer)[0], carry), problem
    )

  if state is None:
    algorithm = at_horizon(algorithm, (num_iterations + 1) // 2)
    state = begin(problem, algorithm, evaluate, policy)
  start = varying_alike(Run(state, carry), problem)
  end = lax.fori_loop(0, num_iterations // 2, step, start)
  if isinstance(num_iterations, int) and num_iterations % 2:
    state, _ = algorithm.update(problem, end.state, answer(end.state, 0), 0)
    end = end._replace(state=state)
  return end


def _ask(problem: Any, algorithm: Algorithm, evaluate: Evaluate | None, state: Any, player: int):
  return None if evaluate is None else evaluate(algorithm.leaf_query(problem, state, player))


def until(
  run: Callable[[int], Any], target, most: int, progress, size: int = 0, done: int = 0
) -> Any:
  """Calls `run` for a few seconds at a time until its solution is within the target at a look."""
  # Iterations are counted from `done` on. Tables of a large `size` in bytes make iterations slow:
  # then the first call is of two, which are timed.
  least = FIRST if size < 2**25 else 2
  look, gap, piece = done, float("inf"), least
  while done < most and not (done == look and gap <= (target or 0)):
    step = most if target is None else before_next_look(done, most, max, min)
    look = done + step if done == look else look
    number, began = min(look - done, piece), time.monotonic()
    done, found = done + number, run(number)
    gap = float(found.exploitability)
    piece = max(least, int(_SECONDS * number / (time.monotonic() - began)) // 2 * 2)
    found = found._replace(exploitability=gap, iterations=done)
    if progress is not None and progress(found):
      break
  return found


def before_next_look(done: Any, most: int, larger: Any, smaller: Any) -> Any:
  """Returns iterations until the next look; `larger` and `smaller` compare two numbers."""
  return smaller(larger(FIRST, done // 8 * 2), most - done)
