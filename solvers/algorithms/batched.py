"""An algorithm on a batch of problems of one shape."""

from typing import Any

import jax

from solvers.algorithms.wrapper import Wrapper
from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, Sweep


class Batched(Wrapper):
  """Does what `algorithm` does to each of `B` problems; all arrays have a leading axis `[B]`.

  Leaves of all problems come in one query, so that a network may be asked about them together.
  """

  def init(self, problem: Problem, policy: Levels | None = None) -> Any:
    if policy is None:
      return jax.vmap(self.algorithm.init)(problem)
    return jax.vmap(self.algorithm.init)(problem, policy)

  def leaf_query(self, problem: Problem, state: Any, player: int) -> LeafQuery:
    """Returns the question about the leaves of all problems, features `[B, L, F]` and so on."""

    def ask(problem, state):
      # The traverser is static, which what comes out of `vmap` cannot be.
      return self.algorithm.leaf_query(problem, state, player)._replace(traverser=None)

    return jax.vmap(ask)(problem, state)._replace(traverser=player)

  def prime(self, problem: Problem, state: Any, values: jax.Array | None, player: int) -> Any:
    return jax.vmap(lambda *x: self.algorithm.prime(*x, player))(problem, state, values)

  def update(
    self, problem: Problem, state: Any, values: jax.Array | None, player: int
  ) -> tuple[Any, Sweep]:
    return jax.vmap(lambda *x: self.algorithm.update(*x, player))(problem, state, values)

  def merge(self, problem: Problem, first: Any, second: Any) -> Any:
    return jax.vmap(self.algorithm.merge)(problem, first, second)

  def extend(self, problem: Problem, state: Any) -> Any:
    return jax.vmap(self.algorithm.extend)(problem, state)

  def current_policy(self, problem: Problem, state: Any) -> Levels:
    return jax.vmap(self.algorithm.current_policy)(problem, state)

  def average_policy(self, problem: Problem, state: Any) -> Levels:
    return jax.vmap(self.algorithm.average_policy)(problem, state)

  def root_values(self, problem: Problem, state: Any) -> jax.Array:
    return jax.vmap(self.algorithm.root_values)(problem, state)
