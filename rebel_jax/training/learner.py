"""Optimizers of training and their learning rates."""

import dataclasses

import optax

from rebel_jax.config.config import LearningSettings
from rebel_jax.networks.optimizers import OPTIMIZERS


@dataclasses.dataclass(frozen=True)
class Learner:
  """How a network learns, all static.

  Attributes:
    settings: the configuration's.
    decay_steps: gradient steps of the whole run, for the cosine decay.
  """

  settings: LearningSettings
  decay_steps: int

  def optimizer(self) -> optax.GradientTransformation:
    """Returns the optimizer with its schedule."""
    rate, halve_every = self.settings.learning_rate, self.settings.halve_every
    if halve_every:
      schedule = optax.exponential_decay(rate, halve_every, 0.5, staircase=True)
    else:
      schedule = optax.cosine_decay_schedule(rate, max(self.decay_steps, 1))
    steps = [OPTIMIZERS[self.settings.optimizer](schedule)]
    if self.settings.max_gradient_norm:
      steps.insert(0, optax.clip_by_global_norm(self.settings.max_gradient_norm))
    return optax.chain(*steps)
