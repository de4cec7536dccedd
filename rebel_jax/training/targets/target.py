"""The record of a training target: its network, its examples and its loss."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from games import Game
from rebel_jax.config import Config
from rebel_jax.config.config import LearningSettings
from rebel_jax.networks.optimizers import OPTIMIZERS
from solvers.search import Stage


class Decay(NamedTuple):
  """The state of a cosine decay to zero, `[]` each."""

  taken: jax.Array  # gradient steps
  steps: jax.Array  # of the whole run, so that it may be made shorter without compiling anew


def with_decay_steps(optimizer_state: Any, steps: int) -> Any:
  """Returns the state of optimizers whose cosine decays, if any, end after `steps`."""

  def replaced(x: Any) -> Any:
    if not isinstance(x, Decay):
      return x
    return x._replace(steps=jnp.full_like(x.steps, max(steps, 1)))

  return jax.tree.map(replaced, optimizer_state, is_leaf=lambda x: isinstance(x, Decay))


def _cosine_decay() -> optax.GradientTransformation:
  """Scales updates by a cosine decay; Optax's needs the number of steps when it is compiled."""

  def update(updates: Any, state: Decay, params: Any = None) -> tuple[Any, Decay]:
    done = jnp.minimum(state.taken / state.steps, 1.0)
    left = 0.5 * (1.0 + jnp.cos(jnp.pi * done))
    scaled = jax.tree.map(lambda x: x * left.astype(x.dtype), updates)
    return scaled, state._replace(taken=state.taken + 1)

  return optax.GradientTransformation(
    lambda params: Decay(jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32)), update
  )


class LearnerStats(NamedTuple):
  """Of one gradient step: the loss before it and the global norm of its gradient, not clipped."""

  loss: jax.Array
  gradient_norm: jax.Array


@dataclasses.dataclass(frozen=True)
class Target:
  """One thing that a network learns; static, compared by value, so its functions are a module's."""

  # Examples are named tuples of arrays `[E, ...]`, the arguments of the network first.

  name: str  # of its parameters, optimizer, buffer and metrics
  network: nn.Module  # what learns; a loss and `make_examples` see it too
  learning: LearningSettings
  example: Any  # one example's shapes and dtypes, without the axis `[E]`; see `array`
  # (network, predicted, examples) -> errors and their weights, of one shape `[E, ...]`
  errors: Callable[[Any, Any, Any], tuple[jax.Array, jax.Array]]
  # (network, searched) -> examples and which of them are valid `[E]`; None where such searches say
  # nothing about the target; by default what was searched
  make_examples: Callable[[Any, Any], tuple[Any, jax.Array] | None] = lambda network, found: found
  # (stage, shared) -> most valid examples of one search of the stage, `shared` for that of a start
  # that lanes share; None where searches are not by stage
  most_examples: Callable[[Stage, bool], int] | None = None
  num_inputs: int = 2  # arguments of the network
  node_features: bool = False  # whether `make_examples` needs `Searched.node_features`
  held_out: bool = False  # whether `NAME_error`, the loss on each step's own examples, is reported

  def optimizer(self) -> optax.GradientTransformation:
    """Returns the optimizer with its schedule; see `with_decay_steps`."""
    learning = self.learning
    make = OPTIMIZERS[learning.optimizer]
    if not learning.halve_every:
      clip = optax.clip_by_global_norm(learning.max_gradient_norm)
      return optax.chain(clip, make(learning.learning_rate), _cosine_decay())
    rate = optax.exponential_decay(
      learning.learning_rate, learning.halve_every, 0.5, staircase=True
    )
    return optax.chain(make(rate))

  def init(self, key: jax.Array) -> Any:
    """Returns fresh parameters."""
    one = jax.tree.map(lambda x: jnp.zeros((1, *x.shape), x.dtype), self.example)
    return self.network.init(key, *one[: self.num_inputs])

  def examples_of(self, searches: Sequence[Any]) -> tuple[Any, jax.Array]:
    """Returns the examples of all batches of searches, one after the other, and which are valid."""
    found = [self.make_examples(self.network, searched) for searched in searches]
    found = [examples for examples in found if examples is not None]
    if not found:
      raise ValueError(f"target={self.name!r} makes no examples of any search")
    return jax.tree.map(lambda *x: jnp.concatenate(x), *found)

  def loss(self, params: Any, examples: Any, valid: jax.Array | None = None) -> jax.Array:
    """Returns the weighted mean of the errors of those examples that are valid, all by default."""
    predicted = self.network.apply(params, *examples[: self.num_inputs])
    errors, weights = self.errors(self.network, predicted, examples)
    chex.assert_equal_shape([errors, weights])
    if valid is not None:
      valid = valid.reshape(-1, *[1] * (errors.ndim - 1))
      # What is not valid may be anything, NaN among it.
      errors, weights = (jnp.where(valid, x, 0.0) for x in (errors, weights))
    return (errors * weights).sum() / jnp.maximum(weights.sum(), 1.0)

  def update(
    self, params: Any, optimizer_state: Any, examples: Any, axis_name: str | None = None
  ) -> tuple[Any, Any, LearnerStats]:
    """Takes one gradient step: parameters, optimizer state and statistics, means over devices."""
    loss, gradients = jax.value_and_grad(self.loss)(params, examples)
    if axis_name is not None:
      loss, gradients = jax.lax.pmean((loss, gradients), axis_name)
    optimizer = self.optimizer()
    with jax.numpy_dtype_promotion("standard"):  # Optax raises numbers to a count of steps
      updates, optimizer_state = optimizer.update(gradients, optimizer_state, params)
    # One sum, as XLA compiles and launches the sum of each layer by itself.
    norm = jnp.linalg.norm(jnp.concatenate([x.ravel() for x in jax.tree.leaves(gradients)]))
    return optax.apply_updates(params, updates), optimizer_state, LearnerStats(loss, norm)


# (config, game, networks by name) -> the target, None where the configuration has none.
TargetMaker = Callable[[Config, Any, Mapping[str, Any]], Target | None]


def array(*shape: int, dtype: Any = float) -> jax.ShapeDtypeStruct:
  """Returns shape and dtype of one example's array; `float` has JAX's present precision."""
  return jax.ShapeDtypeStruct(shape, jnp.result_type(dtype))


def pbs_arrays(game: Game) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
  """Returns shapes and dtypes of a PBS from one seat: features `[F]` and beliefs `[2 * H]`."""
  features = game.features(game.initial_state()[None], 0)
  return array(features.shape[-1]), array(2 * game.num_infostates)


def init_params(targets: Sequence[Target], key: jax.Array) -> dict[str, Any]:
  """Returns fresh parameters of all targets, by name."""
  return {
    target.name: target.init(key if number == 0 else jax.random.fold_in(key, number))
    for number, target in enumerate(targets)
  }
