"""From a configuration to the objects that train by it."""

import dataclasses
from typing import Any

import numpy as np
from jax.sharding import Mesh

import solvers
from games import CHANCE, Game
from games.poker import Holdem
from rebel_jax.config import Config, ConfigError
from rebel_jax.learner import Learner, PolicyLearner
from rebel_jax.networks import ValueNetwork
from rebel_jax.poker_networks import CardNetwork, PokerValueNetwork, Table
from rebel_jax.policy_networks import PolicyNetwork, as_search_policy
from rebel_jax.self_play import Layer, SelfPlay
from rebel_jax.training import Trainer, make_mesh
from solvers import CFR, FictitiousPlay, warm_started
from solvers.inner_nodes import add_inner_states
from solvers.policy_network import SearchPolicy
from solvers.subgames import Subgames, SubgameTables, add_node_features, find_subgames
from solvers.variants import stack_variants


def _layers(config: Config) -> dict[str, Any]:
  return dict(
    hidden_layers=config.hidden_layers,
    width=config.width,
    activation=config.activation,
    layer_norm=config.layer_norm,
    belief_roots=config.belief_roots,
    precision=config.precision,
    fused=config.fused_network,
  )


def _table(game: Game) -> Table:
  if not isinstance(game, Holdem):
    raise ConfigError(f"network='cards' is for hold'em games; game={game.name!r} is another")
  return Table.of(game)


def make_network(config: Config, game: Game) -> ValueNetwork:
  """Returns the value network of a configuration.

  Raises:
    ConfigError: the kind of network is not for the game.
  """
  if config.network == "mlp":
    return ValueNetwork(num_infostates=game.num_infostates, **_layers(config))
  return PokerValueNetwork(
    num_infostates=game.num_infostates,
    table=_table(game),
    embedding=config.card_embedding,
    **_layers(config),
  )


def make_policy_network(config: Config, game: Game) -> PolicyNetwork | None:
  """Returns the policy network of a configuration, None if it has none.

  Raises:
    ConfigError: the game has hidden moves, or the kind of network is not for the game.
  """
  if not config.policy_network:
    return None
  start = game.initial_state()[None]
  first = np.flatnonzero(game.legal_actions(start)[0])[:1]
  if game.infostate_parents(start, first) is not None:
    raise ConfigError(
      f"policy_network=True needs infostates that never change; {game.name} has hidden moves"
    )
  num_actions = game.num_player_actions
  outputs = num_actions * game.num_infostates
  if config.network == "mlp":
    trunk = ValueNetwork(num_infostates=outputs, **_layers(config))
  else:
    trunk = CardNetwork(
      num_infostates=outputs,
      table=_table(game),
      embedding=config.card_embedding,
      **_layers(config),
    )
  return PolicyNetwork(trunk, num_actions)


def make_algorithm(config: Config, name: str) -> CFR | FictitiousPlay:
  """Returns `solvers.make_algorithm(name)`, warm-started if there is a policy network."""
  algorithm = solvers.make_algorithm(name)
  if not config.policy_network:
    return algorithm
  if not isinstance(algorithm, CFR):
    raise ConfigError(
      f"algorithm={name!r} cannot start from a policy network; with policy_network=True allowed "
      "are the forms of CFR"
    )
  return warm_started(algorithm, num_iterations=config.warm_start)


def make_search_policy(config: Config, game: Game) -> SearchPolicy | None:
  """Returns the policy network as searches use it, None if the configuration has none."""
  return as_search_policy(make_policy_network(config, game))


def make_subgames(config: Config, game: Game, depth: int | str | None = None) -> Subgames:
  """Returns all subgames of the configuration's depth, or of `depth`.

  Raises:
    ConfigError: the depth is not allowed.
  """
  try:
    return find_subgames(game, depth=config.depth if depth is None else depth)
  except ValueError as error:
    raise ConfigError(str(error)) from None


def make_tables(config: Config, game: Game, subgames: Subgames) -> SubgameTables:
  """Stacks the subgames of training: all in one table, or one for each stage of the game.

  Self-play plays the configuration's variants, if it has any, instead of `game`.

  Raises:
    ConfigError: there are to be examples of inner nodes, but no search asks about their like.
  """
  if config.inner_rows and config.depth in (1, "stage"):
    raise ConfigError(
      f"inner_rows={config.inner_rows} needs a depth of 2 or more public actions, not "
      f"depth={config.depth}: examples are of nodes inside a subgame that are like leaves of others"
    )
  variants, parts = config.make_variants(), [subgames]
  if variants:
    parts = [make_subgames(config, variant) for variant in variants]
  additions = [add_node_features] * config.policy_network
  additions += [add_inner_states] * (config.inner_rows > 0)
  return stack_variants(
    variants or [game], parts, by_stage=config.depth == "stage", additions=additions
  )


def make_trainer(config: Config, game: Game, tables: SubgameTables, num_devices: int) -> Trainer:
  """Returns the training loop of a configuration, for a mesh of `num_devices`.

  Raises:
    ConfigError: the depth reaches the end of the game, the devices do not divide the work, or the
      network is not for the game.
  """
  config.check_devices(num_devices)
  if not tables.depth_limited:
    raise ConfigError(
      f"depth={config.depth} must be less than what the game lasts at most from its start: a "
      "search that reaches the end of the game needs no network"
    )
  lanes = config.lanes // num_devices
  algorithm = make_algorithm(config, config.algorithm)
  # The start is no leaf: where it has a table to itself and is searched for all, no lane is there.
  start_apart = config.share_start and tables.tables[0].num_subgames == tables.num_variants
  layers = []
  for number, table in enumerate(tables.tables):
    largest = int(table.num_live.max())
    rows = max(largest, round(lanes * largest * config.rows_fraction))
    layers.append(Layer(rows, table.decides, served=number > 0 or not start_apart))
  self_play = SelfPlay(
    algorithm=algorithm,
    num_iterations=config.iterations,
    stop_exponent=algorithm.averaging if config.stop_sampling == "weighted" else 0.0,
    exploration=config.exploration,
    num_lanes=lanes,
    layers=tuple(layers),
    values_of_average=config.values_of_average,
    level_values=config.level_values,
    share_start=config.share_start,
    num_starts=min(config.starts_per_step, tables.num_variants),
    random_beliefs=config.random_beliefs,
    inner_rows=config.inner_rows,
  )
  most = 2 * config.lanes * (1 + config.inner_rows) * sum(layer.served for layer in layers)
  if config.policy_network:
    most = max(most, _most_policy_examples(self_play, tables, config.lanes))
  if most > config.buffer_size:
    raise ConfigError(
      f"buffer_size={config.buffer_size} must be at least {most}: as many examples may come of one "
      f"step of lanes={config.lanes}"
    )
  learning: dict[str, Any] = dict(
    optimizer_name=config.optimizer,
    learning_rate=config.learning_rate,
    halve_every=config.halve_every,
    decay_steps=config.num_steps * config.learn_steps,
    batch_size=config.batch_size,
    max_gradient_norm=config.max_gradient_norm,
  )
  policy_network = make_policy_network(config, game)
  policy_learner = None
  if policy_network is not None:
    policy_learner = PolicyLearner(network=policy_network, **learning)
  return Trainer(
    self_play=self_play,
    learner=Learner(network=make_network(config, game), **learning),
    buffer_size=config.buffer_size // num_devices,
    learn_steps=config.learn_steps,
    min_examples=max(1, config.min_examples // num_devices),
    policy_learner=policy_learner,
    policy_buffer_size=config.buffer_size // num_devices,
  )


def _most_policy_examples(self_play: SelfPlay, tables: SubgameTables, lanes: int) -> int:
  """Returns how many a step can make: one of each decision of the subgames that are searched."""
  decisions = [
    int((np.asarray(table.trees.kind) < CHANCE).sum(axis=-1).max()) if layer.decides else 0
    for table, layer in zip(tables.tables, self_play.layers)
  ]
  of_lanes = lanes * sum(n for n, layer in zip(decisions, self_play.layers) if layer.served)
  shared = lanes // self_play.num_lanes * self_play.num_starts if self_play.share_start else 0
  return of_lanes + shared * decisions[0]


@dataclasses.dataclass(frozen=True)
class Setup:
  """What a run is made of.

  Attributes:
    config, game: the configuration and its game.
    subgames: all depth-limited subgames of the game.
    table: the subgames that self-play plays, in tables: those, or those of the game's variants.
    trainer: the compiled loop that training begins with.
    mesh: the devices.
  """

  config: Config
  game: Game
  subgames: Subgames
  table: SubgameTables
  trainer: Trainer
  mesh: Mesh

  def trainer_at(self, step: int) -> Trainer:
    """Returns the loop that goes on after `step` steps: late searches may be longer."""
    if step < self.config.late_step:
      return self.trainer
    longer = dataclasses.replace(self.trainer.self_play, num_iterations=self.config.last_iterations)
    return dataclasses.replace(self.trainer, self_play=longer)


def with_examples(setup: Setup, examples: int) -> Setup:
  """Returns the setup of the same run with another number of examples."""
  config, trainer = dataclasses.replace(setup.config, examples=examples), setup.trainer
  decay = config.num_steps * config.learn_steps
  learner = dataclasses.replace(trainer.learner, decay_steps=decay)
  policy_learner = trainer.policy_learner
  if policy_learner is not None:
    policy_learner = dataclasses.replace(policy_learner, decay_steps=decay)
  trainer = dataclasses.replace(trainer, learner=learner, policy_learner=policy_learner)
  return dataclasses.replace(setup, config=config, trainer=trainer)


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
  table = make_tables(config, game, subgames)
  trainer = make_trainer(config, game, table, mesh.devices.size)
  return Setup(config, game, subgames, table, trainer, mesh)
