"""Average policies of Monte Carlo CFR by the rules of a game, as metrics play against them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from solvers.contrib.sampling.mccfr import MCCFR, MCCFRState
from solvers.contrib.sampling.traversal import RulesSampler, walk
from solvers.metrics import Strategy


class WalkedStrategy(Strategy):
  """Plays the average policy of a run."""

  def __init__(self, sampler: RulesSampler, algorithm: MCCFR, state: MCCFRState):
    self._game, self._length = sampler.game, sampler.start.history.shape[1]
    infostates = jnp.arange(self._game.num_infostates)
    policy = functools.partial(algorithm.policy, sampler, average=True)
    # Tables are an argument, so that no program holds them.
    rows = jax.jit(lambda state, *node: policy(state)(walk(*node), infostates).T)
    self._rows = functools.partial(rows, state)
    self._history: tuple[int, ...] = ()

  def start(self) -> None:
    self._history = ()

  def observe(self, action: int) -> None:
    self._history = (*self._history, action)

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    path = [*self._history, *ahead]
    line = np.array(path + [-1] * (self._length - len(path)), np.int32)
    node = (self._game.state_after(path).astype(np.int32), line)
    size = self._game.num_infostates
    return np.asarray(self._rows(*(np.tile(x, (size, 1)) for x in node)), float)
