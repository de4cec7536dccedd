"""Average policies by the rules of a game, where no tree fits, as metrics play against them."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import Game
from solvers.contrib.local_best_response import Strategy
from solvers.contrib.sampling.mccfr import MCCFR, MCCFRState
from solvers.contrib.sampling.traversal import RulesSampler, walk


class RulesStrategy(Strategy):
  """Plays a policy of public states.

  Args:
    game: the rules.
    policy: (state `[1, S]`, public actions before `[1, L]`) -> the mover's policy `[A, H]`.
  """

  def __init__(self, game: Game, policy: Callable[..., Any]):
    self._game, self._policy = game, policy
    self.start()

  def start(self) -> None:
    self._history, self._state = list[int](), self._game.initial_state()

  def observe(self, action: int) -> None:
    self._history.append(action)
    self._state = self._game.state_after([action], start=self._state)

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    path = [*self._history, *ahead]
    line = np.array([path + [-1] * (self._game.max_moves - len(path))], np.int32)
    state = self._game.state_after(ahead, start=self._state)
    return np.asarray(self._policy(state.astype(np.int32)[None], line), float)


class WalkedStrategy(RulesStrategy):
  """Plays the average policy of a run of Monte Carlo CFR."""

  def __init__(self, sampler: RulesSampler, algorithm: MCCFR, state: MCCFRState):
    infostates = jnp.arange(sampler.game.num_infostates)
    policy = functools.partial(algorithm.policy, sampler, average=True)

    # Tables are an argument, so that no program holds them.
    @jax.jit
    def rows(state: MCCFRState, *node: Any) -> jax.Array:
      here = (jnp.repeat(x, len(infostates), axis=0) for x in node)
      return policy(state)(walk(*here), infostates).T

    super().__init__(sampler.game, functools.partial(rows, state))
