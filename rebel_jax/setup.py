"""From a configuration to the objects that train by it."""

import dataclasses

from jax.sharding import Mesh

from games import Game
from rebel_jax.config import ALGORITHMS, Config, ConfigError
from rebel_jax.learner import Learner
from rebel_jax.networks import ValueNetwork
from rebel_jax.self_play import SelfPlay
from rebel_jax.training import Trainer, make_mesh
from solvers.subgames import Subgames, SubgameTable, find_subgames, stack_subgames


def make_network(config: Config, game: Game) -> ValueNetwork:
  """Returns the value network of a configuration."""
  return ValueNetwork(
    num_infostates=game.num_infostates,
    hidden_layers=config.hidden_layers,
    width=config.width,
    activation=config.activation,
    layer_norm=config.layer_norm,
    precision=config.precision,
  )


def make_subgames(config: Config, game: Game, depth: int | None = None) -> Subgames:
  """Returns all subgames of the configuration's depth, or of `depth`.

  Raises:
    ConfigError: the depth is not allowed.
  """
  try:
    return find_subgames(game, depth=config.depth if depth is None else depth)
  except ValueError as error:
    raise ConfigError(str(error)) from None


def make_trainer(config: Config, game: Game, table: SubgameTable, num_devices: int) -> Trainer:
  """Returns the training loop of a configuration, for a mesh of `num_devices`.

  Raises:
    ConfigError: the depth reaches the end of the game, or the devices do not divide the work.
  """
  config.check_devices(num_devices)
  if not table.trees.depth_limited:
    raise ConfigError(
      f"depth={config.depth} must be less than what the game lasts at most from its start: a "
      "search that reaches the end of the game needs no network"
    )
  largest = int(table.num_live.max())
  lanes = config.lanes // num_devices
  algorithm = ALGORITHMS[config.algorithm]()
  self_play = SelfPlay(
    algorithm=algorithm,
    num_iterations=config.iterations,
    stop_exponent=algorithm.averaging if config.stop_sampling == "weighted" else 0.0,
    exploration=config.exploration,
    num_lanes=lanes,
    num_rows=max(largest, round(lanes * largest * config.rows_fraction)),
    values_of_average=config.values_of_average,
    share_start=config.share_start,
    random_beliefs=config.random_beliefs,
  )
  learner = Learner(
    network=make_network(config, game),
    learning_rate=config.learning_rate,
    halve_every=config.halve_every,
    decay_steps=config.num_steps * config.learn_steps,
    batch_size=config.batch_size,
    max_gradient_norm=config.max_gradient_norm,
  )
  return Trainer(
    self_play=self_play,
    learner=learner,
    buffer_size=config.buffer_size // num_devices,
    learn_steps=config.learn_steps,
    min_examples=max(1, config.min_examples // num_devices),
  )


@dataclasses.dataclass(frozen=True)
class Setup:
  """What a run is made of.

  Attributes:
    config, game: the configuration and its game.
    subgames, table: all depth-limited subgames, listed and stacked.
    trainer: the compiled loop.
    mesh: the devices.
  """

  config: Config
  game: Game
  subgames: Subgames
  table: SubgameTable
  trainer: Trainer
  mesh: Mesh


def make_setup(config: Config) -> Setup:
  """Validates a configuration and makes what it needs; writes nothing.

  Raises:
    ConfigError: a setting is not allowed.
  """
  config.validate()
  game = config.make_game()
  try:
    mesh = make_mesh(config.num_devices)
  except ValueError as error:
    raise ConfigError(str(error)) from None
  config.check_devices(mesh.devices.size)
  subgames = make_subgames(config, game)
  table = stack_subgames(subgames)
  trainer = make_trainer(config, game, table, mesh.devices.size)
  return Setup(config, game, subgames, table, trainer, mesh)
