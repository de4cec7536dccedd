"""An algorithm around another, with the other's methods as defaults."""

import dataclasses
from typing import Any

from solvers.leaf_values import LeafQuery
from solvers.sweeps.levels import Levels


@dataclasses.dataclass(frozen=True)
class Wrapper:
  """Does what `algorithm` does, with its state; see `Algorithm` for the operations."""

  algorithm: Any

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):  # copying asks before there is an algorithm
      raise AttributeError(name)
    return getattr(self.algorithm, name)


class Holder(Wrapper):
  """A wrapper whose state holds that of `algorithm` as `inner`, and more."""

  def leaf_query(self, problem: Any, state: Any, player: int) -> LeafQuery:
    return self.algorithm.leaf_query(problem, state.inner, player)

  def prime(self, problem: Any, state: Any, values: Any, player: int) -> Any:
    return state._replace(inner=self.algorithm.prime(problem, state.inner, values, player))

  def learn(self, problem: Any, state: Any, sweep: Any, player: int, k: Any) -> Any:
    return state._replace(inner=self.algorithm.learn(problem, state.inner, sweep, player, k))

  def count(self, problem: Any, state: Any, reach: Levels, player: int, decay: Any) -> Any:
    return state._replace(inner=self.algorithm.count(problem, state.inner, reach, player, decay))

  def core(self, state: Any) -> Any:
    return self.algorithm.core(state.inner)

  def with_core(self, problem: Any, state: Any, core: Any) -> Any:
    return state._replace(inner=self.algorithm.with_core(problem, state.inner, core))

  def extend(self, problem: Any, state: Any) -> Any:
    return state._replace(inner=self.algorithm.extend(problem, state.inner))

  def current_policy(self, problem: Any, state: Any) -> Levels:
    return self.algorithm.current_policy(problem, state.inner)

  def average_policy(self, problem: Any, state: Any) -> Levels:
    return self.algorithm.average_policy(problem, state.inner)

  def root_values(self, problem: Any, state: Any) -> Any:
    return self.algorithm.root_values(problem, state.inner)
