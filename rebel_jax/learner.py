"""The learners: Huber loss for values, squared error for policies (ReBeL, appendix E)."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from optax import contrib

OPTIMIZERS: dict[str, Callable[[optax.Schedule], optax.GradientTransformation]] = {
  "adam": optax.adam,  # the paper's
  # Momentum, with each matrix replaced by its nearest orthogonal one (Jordan et al. 2024); vectors
  # by Adam.
  "muon": contrib.muon,
}


class LearnerStats(NamedTuple):
  """Of one gradient step: the loss before it and the global norm of its gradient, not clipped."""

  loss: jax.Array
  gradient_norm: jax.Array


@dataclasses.dataclass(frozen=True)
class Learner:
  """Settings of the value network's learner, all static.

  Attributes:
    network: the value network.
    optimizer_name: a key of `OPTIMIZERS`.
    learning_rate: at the start.
    halve_every: gradient steps after which the learning rate halves; 0 for a cosine decay to
      zero over `decay_steps`.
    decay_steps: gradient steps of the whole run, for the cosine decay.
    batch_size: examples a gradient step, all devices together.
    max_gradient_norm: gradients are clipped to this global norm; 0 for no clipping.
  """

  network: Any
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

  def loss(self, params: Any, examples: Any) -> jax.Array:
    """Returns the mean Huber loss of `Examples` over the infostates that have a value."""
    predicted = self.network.apply(params, examples.features, examples.beliefs)
    values = examples.values
    unit = self.network.unit(examples.features)
    if unit is not None:
      predicted, values = predicted / unit, values / unit
    losses = optax.huber_loss(predicted, values) * examples.mask
    return losses.sum() / jnp.maximum(examples.mask.sum(), 1.0)

  def update(
    self, params: Any, optimizer_state: Any, examples: Any, axis_name: str | None = None
  ) -> tuple[Any, Any, LearnerStats]:
    """Takes one gradient step; gradients are averaged over devices if `axis_name` is given.

    Returns:
      Parameters, optimizer state, and loss and gradient norm.
    """
    loss, gradients = jax.value_and_grad(self.loss)(params, examples)
    if axis_name is not None:
      loss, gradients = jax.lax.pmean((loss, gradients), axis_name)
    updates, optimizer_state = self.optimizer().update(gradients, optimizer_state, params)
    squares = sum(jnp.sum(x * x) for x in jax.tree.leaves(gradients))
    stats = LearnerStats(loss, jnp.sqrt(squares))
    return optax.apply_updates(params, updates), optimizer_state, stats


@dataclasses.dataclass(frozen=True)
class PolicyLearner(Learner):
  """Settings of the policy network's learner; `network` is a `PolicyNetwork`."""

  def loss(self, params: Any, examples: Any) -> jax.Array:
    """Returns the mean squared error of `PolicyExamples`' probabilities (ReBeL, section 7)."""
    legal = examples.legal.astype(examples.beliefs.dtype)
    target = examples.policy.astype(legal.dtype)
    mask = (target.sum(axis=1) > 0).astype(legal.dtype)
    # What was rounded need not sum to one.
    target = target / jnp.maximum(target.sum(axis=1, keepdims=True), 1.0)
    predicted = self.network.apply(params, examples.features, examples.beliefs, legal)
    losses = ((predicted - target) ** 2).sum(axis=1) * mask
    return losses.sum() / jnp.maximum(mask.sum(), 1.0)
