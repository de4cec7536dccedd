"""Deep CFR's targets at infostates: each player's advantages, and the average policy of both."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import Game
from rebel_jax.config import Config
from rebel_jax.networks.value import MoveNetwork
from rebel_jax.training.targets.target import Target, TargetMaker, array


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


def maker(name: str) -> TargetMaker:
  """Returns the maker of one of Deep CFR's targets."""

  def make_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
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

  return make_target


# By name: the first two are their players'.
MAKERS = tuple(map(maker, ("advantage_0", "advantage_1", "average")))
