"""Training targets: the record of one, and those of `TARGETS`, which are trained.

A target is made by its function `..._target`. Its name is the key of its parameters, its optimizer
and its buffer in `TrainState` and in checkpoints.
"""

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
from rebel_jax.networks.value import MoveNetwork, PolicyNetwork, ValueNetwork, ValuePolicyNetwork
from rebel_jax.training.chain_play import Solved
from rebel_jax.training.self_play import Searched
from solvers.search import Stage, policy_targets
from solvers.sweeps import make_problem, root_mass


class Decay(NamedTuple):
  """The state of a cosine decay to zero, `[]` each."""

  taken: jax.Array  # gradient steps
  steps: jax.Array  # of the whole run, so that it may be made shorter without compiling anew


def with_decay_steps(optimizer_state: Any, steps: int) -> Any:
  """Returns the state of optimizers whose cosine decays, if any, end after `steps`."""
  is_decay = lambda x: isinstance(x, Decay)  # noqa: E731
  return jax.tree.map(
    lambda x: x._replace(steps=jnp.full_like(x.steps, max(steps, 1))) if is_decay(x) else x,
    optimizer_state,
    is_leaf=is_decay,
  )


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
  """A target of learning; static and compared by value, so its functions are a module's."""

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


# Values of infostates at the roots of searches (ReBeL, section 5.2 and appendix E).


class ValueExamples(NamedTuple):
  """One example for each search and player."""

  features: Any  # `[E, F]` the root's public state from the player's seat
  beliefs: Any  # `[E, 2 * H]` own beliefs, then the other's
  values: Any  # `[E, H]` the search's root values
  mask: Any  # `[E, H]` 1 where the infostate has a value, else 0


def value_examples(
  network: ValueNetwork, searched: Searched
) -> tuple[ValueExamples, jax.Array] | None:
  """Returns one example for each player and search, player 0's first: `[2 * B, ...]`."""
  if searched.result is None:  # no leaf is a start: its values are never asked for
    return None
  beliefs, values = searched.beliefs, searched.result.root_values
  chex.assert_rank(values, 3)
  chex.assert_equal_shape([beliefs, values])
  trees = searched.trees
  mask = (jax.vmap(root_mass)(trees, beliefs) > 0).astype(values.dtype)
  if trees.possible is not None:
    mask = jnp.where(trees.possible[:, 0], mask, 0.0)
  own_first = jnp.stack([beliefs, beliefs[:, ::-1]], axis=1).reshape(*beliefs.shape[:2], -1)
  arrays = (trees.root_features, own_first, values, mask)  # [B, P, ...]
  examples = ValueExamples(*(x.swapaxes(0, 1).reshape(-1, x.shape[-1]) for x in arrays))
  return examples, jnp.tile(searched.active, 2)


def value_errors(
  network: ValueNetwork, predicted: jax.Array, examples: ValueExamples
) -> tuple[jax.Array, jax.Array]:
  """Returns Huber losses in the network's unit `[E, H]`, weighed by where there is a value."""
  chex.assert_rank(predicted, 2)
  chex.assert_equal_shape([predicted, examples.values, examples.mask])
  unit, values = network.unit(examples.features), examples.values
  if unit is not None:
    predicted, values = predicted / unit, values / unit
  return optax.huber_loss(predicted, values), examples.mask


def most_values(stage: Stage, shared: bool) -> int:
  """Returns 2, one example a player; 0 for a start that lanes share."""
  return 0 if shared else 2


def value_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
  """Returns the target of ReBeL's searches, None where trees grow."""
  if (network := networks.get("value")) is None:
    return None
  values = array(game.num_infostates)
  return Target(
    name="value",
    network=network,
    learning=config.learning,
    example=ValueExamples(*pbs_arrays(game), values, values),
    make_examples=value_examples,
    errors=value_errors,
    most_examples=most_values,
    held_out=True,
  )


# Average policies at the decisions of searched subgames (ReBeL, section 5.3 and appendix E).

STEPS = 255  # the largest number of a quantized probability


class PolicyExamples(NamedTuple):
  """One example for each decision of a searched subgame."""

  features: Any  # `[E, F]` the public state as the player who moves sees it
  beliefs: Any  # `[E, 2 * H]` own beliefs, then the other's
  legal: Any  # `[E, A]` 1 for actions that exist, else 0
  # `[E, A, H]` the search's average policy in steps of 1 / 255 (appendix E: linear quantization);
  # zero for infostates that are impossible
  policy: Any


def policy_examples(
  network: PolicyNetwork, searched: Searched
) -> tuple[PolicyExamples, jax.Array] | None:
  """Returns one example for each inner node of each search, valid where a player moves."""
  if searched.average_policy is None:
    return None
  trees, features = searched.trees, searched.node_features
  assert features is not None

  found = jax.vmap(
    lambda tree, features, beliefs, policy: policy_targets(
      make_problem(tree, beliefs), features, policy, network.num_actions
    )
  )(trees, features, searched.beliefs, searched.average_policy)
  found = found._replace(valid=found.valid & searched.active[:, None])
  (features, beliefs, legal), policy, valid = jax.tree.map(
    lambda x: x.reshape(-1, *x.shape[2:]), found
  )
  chex.assert_rank([features, beliefs, legal, policy, valid], [2, 3, 2, 3, 1])
  legal, policy = (x.astype(jnp.uint8) for x in (legal, jnp.round(policy * STEPS)))
  return PolicyExamples(features, beliefs.reshape(len(beliefs), -1), legal, policy), valid


def policy_errors(
  network: PolicyNetwork, predicted: jax.Array, examples: PolicyExamples
) -> tuple[jax.Array, jax.Array]:
  """Returns squared errors of the probabilities `[E, H]`, weighed by whether there are any."""
  chex.assert_rank(predicted, 3)
  chex.assert_equal_shape([predicted, examples.policy])
  target = examples.policy.astype(predicted.dtype)
  total = target.sum(axis=1, keepdims=True)
  target = target / jnp.maximum(total, 1.0)  # what was rounded need not sum to one
  return ((predicted - target) ** 2).sum(axis=1), (total[:, 0] > 0).astype(predicted.dtype)


def most_policies(stage: Stage, shared: bool) -> int:
  """Returns how many decisions a subgame of the stage has at most."""
  return stage.most_decisions


def policy_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
  """Returns the target of the policy network, if there is one."""
  if (network := networks.get("policy")) is None:
    return None
  actions, infostates = network.num_actions, game.num_infostates
  return Target(
    name="policy",
    network=network,
    learning=config.learning,
    example=PolicyExamples(
      *pbs_arrays(game),
      legal=array(actions, dtype=jnp.uint8),
      policy=array(actions, infostates, dtype=jnp.uint8),
    ),
    make_examples=policy_examples,
    errors=policy_errors,
    most_examples=most_policies,
    num_inputs=3,
    node_features=True,
  )


# Values and policies of PBSs that other searches queried (Player of Games, section 3.4).


def value_policy_errors(
  network: ValuePolicyNetwork, predicted: tuple[jax.Array, jax.Array], examples: Solved
) -> tuple[jax.Array, jax.Array]:
  """Returns Huber losses of values, then KL of policies, and their weights: `[E, 3, H]` each."""
  values, logits = predicted
  chex.assert_equal_shape([values, examples.values, examples.value_weight])
  of_values = optax.huber_loss(values, examples.values)
  of_policy = divergence(logits, examples.policy, examples.comes_from >= 0)
  weights = [examples.value_weight, network.policy_weight * examples.policy_weight[:, None]]
  return jnp.concatenate([of_values, of_policy[:, None]], axis=1), jnp.concatenate(weights, axis=1)


def divergence(logits: jax.Array, target: jax.Array, legal: jax.Array) -> jax.Array:
  """Returns KL(target || softmax of logits) at each infostate, zero without a target: `[E, H]`."""
  # All are `[E, M, H]`.
  learned = jax.nn.log_softmax(jnp.where(legal, logits, -1e9), axis=1)
  gain = jax.scipy.special.xlogy(target, target) - target * learned
  return jnp.where(legal, gain, 0.0).sum(axis=1)


def value_policy_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
  """Returns the target of searches in trees that grow, None for ReBeL's."""
  if (network := networks.get("value_policy")) is None:
    return None
  number, actions = game.num_infostates, network.num_actions
  return Target(
    name="value_policy",
    network=network,
    learning=config.learning,
    example=Solved(
      *pbs_arrays(game),
      values=array(2, number),
      value_weight=array(2, number),
      policy=array(actions, number),
      comes_from=array(actions, number, dtype=jnp.int32),
      policy_weight=array(number),
    ),
    errors=value_policy_errors,
    held_out=True,
  )


# Deep CFR's targets at infostates: each player's advantages, and the average policy of both.


class MoveExamples(NamedTuple):
  """Samples of infostates that traversals visited, with the inputs of `MoveNetwork`."""

  features: Any
  history: Any
  place: Any
  legal: Any  # `[E, M]` which moves there are
  weight: Any  # `[E]` of the errors
  numbers: Any  # `[E, M]` advantages in units of the largest payoff, or probabilities


def advantage_errors(
  network: MoveNetwork, predicted: jax.Array, examples: MoveExamples
) -> tuple[jax.Array, jax.Array]:
  """Returns squared errors of the advantages of legal moves `[E]`, and their weights."""
  errors = jnp.where(examples.legal, predicted - examples.numbers, 0.0)
  return (errors**2).sum(axis=1), examples.weight


def average_errors(
  network: MoveNetwork, predicted: jax.Array, examples: MoveExamples
) -> tuple[jax.Array, jax.Array]:
  """Returns squared errors of the probabilities of legal moves `[E]`, and their weights."""
  logits = jnp.where(examples.legal, predicted, -1e9)
  return advantage_errors(network, jax.nn.softmax(logits, axis=1), examples)


def move_targets(name: str) -> TargetMaker:
  """Returns the maker of one of Deep CFR's targets."""

  def moves_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
    """Returns the target, None for other searches."""
    if (network := networks.get("moves")) is None:
      return None
    features = game.features(game.initial_state()[None], 0).shape[1]
    return Target(
      name=name,
      network=network,
      learning=config.learning,
      example=MoveExamples(
        array(features - game.num_infostates * game.orders_infostates),
        history=array(game.max_moves, dtype=jnp.int32),
        place=array(dtype=jnp.int32),
        legal=array(network.num_moves, dtype=bool),
        weight=array(),
        numbers=array(network.num_moves),
      ),
      num_inputs=3,
      errors=average_errors if name == "average" else advantage_errors,
    )

  return moves_target


# In the order in which their parameters are drawn; of Deep CFR's the first two are their players'.
TARGETS: tuple[TargetMaker, ...] = (
  value_target,
  policy_target,
  value_policy_target,
  *map(move_targets, ("advantage_0", "advantage_1", "average")),
)
