"""Optimizers of training and their learning rates."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from rebel_jax.networks.optimizers import OPTIMIZERS


class Decay(NamedTuple):
  """The state of a cosine decay to zero: gradient steps taken, and those of the whole run, `[]`.

  The latter is a part of the state so that a run may be made shorter without compiling anew.
  """

  taken: jax.Array
  steps: jax.Array


@dataclasses.dataclass(frozen=True)
class Learner:
  """Settings of how a network learns, all static.

  Attributes:
    optimizer_name: a key of `OPTIMIZERS`.
    learning_rate: at the start.
    halve_every: gradient steps after which the learning rate halves; 0 for a cosine decay to
      zero over `decay_steps`.
    decay_steps: gradient steps of the whole run. A new state of the optimizer says so, and nothing
      else asks, so that learners which differ in it share programs.
    batch_size: examples a gradient step, all devices together.
    max_gradient_norm: gradients are clipped to this global norm; 0 for no clipping.
  """

  optimizer_name: str
  learning_rate: float
  halve_every: int
  decay_steps: int = dataclasses.field(compare=False)
  batch_size: int
  max_gradient_norm: float = 0.0

  def optimizer(self) -> optax.GradientTransformation:
    """Returns the optimizer with its schedule."""
    rate: Any = self.learning_rate
    if self.halve_every:
      rate = optax.exponential_decay(rate, self.halve_every, 0.5, staircase=True)
    steps = [OPTIMIZERS[self.optimizer_name](rate)]
    if self.max_gradient_norm:
      steps.insert(0, optax.clip_by_global_norm(self.max_gradient_norm))
    if not self.halve_every:
      steps.append(_cosine_decay(self.decay_steps))
    return optax.chain(*steps)


def with_decay_steps(optimizer_state: Any, steps: int) -> Any:
  """Returns the state of optimizers whose cosine decays, if any, end after `steps`."""

  def replaced(x: Any) -> Any:
    if not isinstance(x, Decay):
      return x
    return x._replace(steps=jnp.full_like(x.steps, max(steps, 1)))

  return jax.tree.map(replaced, optimizer_state, is_leaf=lambda x: isinstance(x, Decay))


def _cosine_decay(steps: int) -> optax.GradientTransformation:
  """Scales updates by what a cosine decay leaves of the learning rate.

  Optax's schedule takes a number of steps that is known when it is compiled.
  """

  def init(params: Any) -> Decay:
    del params
    return Decay(jnp.zeros((), jnp.int32), jnp.full((), max(steps, 1), jnp.int32))

  def update(updates: Any, state: Decay, params: Any = None) -> tuple[Any, Decay]:
    del params
    done = jnp.minimum(state.taken / state.steps, 1.0)
    left = 0.5 * (1.0 + jnp.cos(jnp.pi * done))
    scaled = jax.tree.map(lambda x: x * left.astype(x.dtype), updates)
    return scaled, state._replace(taken=state.taken + 1)

  return optax.GradientTransformation(init, update)
