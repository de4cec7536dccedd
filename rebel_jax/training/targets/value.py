"""Values of infostates at the roots of searches (ReBeL, section 5.2 and appendix E)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax

from games import Game
from rebel_jax.config import Config
from rebel_jax.networks.value import ValueNetwork
from rebel_jax.training.self_play import Searched
from rebel_jax.training.targets.target import Target, array, pbs_arrays
from solvers.search import Stage
from solvers.sweeps import root_mass


class Examples(NamedTuple):
  """One example for each search and player."""

  features: Any  # `[E, F]` the root's public state from the player's seat
  beliefs: Any  # `[E, 2 * H]` own beliefs, then the other's
  values: Any  # `[E, H]` the search's root values
  mask: Any  # `[E, H]` 1 where the infostate has a value, else 0


def make_examples(network: ValueNetwork, searched: Searched) -> tuple[Examples, jax.Array] | None:
  """Returns one example for each player and search, player 0's first: `[2 * B, ...]`."""
  if searched.result is None:  # a start is no leaf: nobody asks for its values
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
  examples = Examples(*(x.swapaxes(0, 1).reshape(-1, x.shape[-1]) for x in arrays))
  return examples, jnp.tile(searched.active, 2)


def errors(
  network: ValueNetwork, predicted: jax.Array, examples: Examples
) -> tuple[jax.Array, jax.Array]:
  """Returns Huber losses in the network's unit `[E, H]`, weighed by where there is a value."""
  chex.assert_rank(predicted, 2)
  chex.assert_equal_shape([predicted, examples.values, examples.mask])
  unit, values = network.unit(examples.features), examples.values
  if unit is not None:
    predicted, values = predicted / unit, values / unit
  return optax.huber_loss(predicted, values), examples.mask


def most_examples(stage: Stage, shared: bool) -> int:
  """Returns two, one a player; none of a start that is searched for all lanes."""
  return 0 if shared else 2


def make_target(config: Config, game: Game, networks: Mapping[str, Any]) -> Target | None:
  """Returns the target of ReBeL's searches, None where trees grow."""
  if (network := networks.get("value")) is None:
    return None
  features, beliefs = pbs_arrays(game)
  values = array(game.num_infostates)
  return Target(
    name="value",
    network=network,
    learning=config.learning,
    example=Examples(features, beliefs, values, values),
    make_examples=make_examples,
    errors=errors,
    most_examples=most_examples,
    held_out=True,
  )
