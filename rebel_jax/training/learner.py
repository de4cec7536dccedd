"""Optimizers of training and their learning rates."""

import dataclasses

import optax

from rebel_jax.networks.optimizers import OPTIMIZERS


@dataclasses.dataclass(frozen=True)
class Learner:
  """Settings of how a network learns, all static.

  Attributes:
    optimizer_name: a key of `OPTIMIZERS`.
    learning_rate: at the start.
    halve_every: gradient steps after which the learning rate halves; 0 for a cosine decay to
      zero over `decay_steps`.
    decay_steps: gradient steps of the whole run, for the cosine decay.
    batch_size: examples a gradient step, all devices together.
    max_gradient_norm: gradients are clipped to this global norm; 0 for no clipping.
  """

  optimizer_name: str
  learning_rate: float
  halve_every: int
  decay_steps: int
  batch_size: int
  max_gradient_norm: float = 0.0

  def optimizer(self) -> optax.GradientTransformation:
    """Returns the optimizer with its schedule."""
    if self.halve_every:
      schedule = optax.exponential_decay(self.learning_rate, self.halve_every, 0.5, staircase=True)
    else:
      schedule = optax.cosine_decay_schedule(self.learning_rate, max(self.decay_steps, 1))
    steps = [OPTIMIZERS[self.optimizer_name](schedule)]
    if self.max_gradient_norm:
      steps.insert(0, optax.clip_by_global_norm(self.max_gradient_norm))
    return optax.chain(*steps)
