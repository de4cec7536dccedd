"""The MLPs of a configuration's networks, which see infostates as the game suggests."""

from typing import Any

from games import DeviceGame, Game
from games.poker import Holdem
from rebel_jax.config.config import Config
from rebel_jax.networks.ordered import OrderedNetwork
from rebel_jax.networks.poker import CardNetwork, Table
from rebel_jax.networks.value import ValueNetwork


def sizes(config: Config, game: Game | DeviceGame, answers: int = 1) -> dict[str, Any]:
  """Returns the sizes of a network that has so many answers for each infostate."""
  network = config.network
  return dict(
    num_infostates=answers * game.num_infostates,
    hidden_layers=network.hidden_layers,
    width=network.width,
    activation=network.activation,
    belief_roots=network.belief_roots,
    precision=network.precision,
    fused=config.search.fused_network,
  )


def card_sizes(config: Config, game: Holdem, answers: int = 1) -> dict[str, Any]:
  """Returns what a network for hold'em is made of."""
  shown = config.network.showdown_inputs
  return dict(table=Table.of(game), showdown_inputs=shown, **sizes(config, game, answers))


def make_trunk(config: Config, game: Game | DeviceGame, answers: int = 1) -> ValueNetwork:
  """Returns an MLP with so many answers for each infostate; hold'em has its own kind."""
  if isinstance(game, Holdem):
    return CardNetwork(**card_sizes(config, game, answers))
  size = sizes(config, game, answers)
  if getattr(game, "orders_infostates", False):
    return OrderedNetwork(places=game.num_infostates, **size)
  return ValueNetwork(**size)
