"""Builds what searches that grow trees need: their settings, networks and training loops."""

from typing import Any

from games import DeviceGame, Game, build_public_tree
from games.on_device.moves import num_moves
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.search import PerfectSearch
from rebel_jax.networks.value_policy import NetworkStates, ValuePolicyNetwork
from rebel_jax.training.chain_play import ChainPlay
from rebel_jax.training.growing_play import GrowingPlay
from rebel_jax.training.loop import Trainer
from rebel_jax.training.perfect_play import PerfectPlay
from rebel_jax.training.play import Play
from rebel_jax.training.targets.target import Target
from rebel_jax.training.trunks import make_trunk
from solvers import GTCFR
from solvers.growing.continual.grounds import Grounds, make_grounds


def make_state_network(config: Config, game: Game | DeviceGame) -> ValuePolicyNetwork:
  """Returns the value-and-policy network of a configuration whose searches grow trees."""
  actions = game.num_player_actions if isinstance(game, Game) else num_moves(game)
  trunk = make_trunk(config, game, 2 + actions)
  return ValuePolicyNetwork(trunk, actions, config.growing.policy_weight)


def make_search(config: Config, *, evaluation: bool = False, **changes: Any) -> GTCFR:
  """Returns the settings of growing searches, of training or of evaluations.

  `changes` are to them; those that are None change nothing.

  Raises:
    ConfigError: they do not go together.
  """
  growing = config.growing
  numbers = growing.simulations, growing.per_update
  simulations, per_update = (growing.eval_iterations // 2, 1.0) if evaluation else numbers
  settings = dict(
    simulations=simulations,
    per_update=per_update,
    mix=growing.mix,
    alternating=growing.alternating,
    children=growing.children or None,
    temperature=growing.temperature,
  )
  try:
    return GTCFR(**settings | {name: value for name, value in changes.items() if value is not None})
  except ValueError as error:
    raise ConfigError(str(error)) from None


def make_growing_grounds(game: Game) -> Grounds:
  """Returns the tree that searches grow into.

  Raises:
    ConfigError: it is too large to be written out.
  """
  try:
    tree = build_public_tree(game)
  except ValueError as error:
    raise ConfigError(str(error)) from None
  return make_grounds(game, tree)


def make_growing_trainer(
  config: Config, game: Game, targets: tuple[Target, ...], num_devices: int
) -> Trainer:
  """Returns the training loop of a configuration whose searches grow trees.

  Raises:
    ConfigError: the devices do not divide the work, or settings do not go together.
  """
  play = GrowingPlay(num_actions=game.num_player_actions, **_shared(config, game, num_devices))
  return _trainer(config, play, targets, num_devices)


def make_device_trainer(
  config: Config, game: DeviceGame, targets: tuple[Target, ...], num_devices: int
) -> Trainer:
  """Returns the training loop of a game of rules on the device, its trees made by searches.

  Raises:
    ConfigError: the devices do not divide the work, or settings do not go together.
  """
  growing, learning = config.growing, config.learning
  shared = _shared(config, game, num_devices)
  if game.num_infostates > 1:
    chains = ChainPlay(game=game, num_actions=num_moves(game), **shared)
    return _trainer(config, chains, targets, num_devices)
  assert isinstance(growing, PerfectSearch)
  play = PerfectPlay(
    game=game,
    **shared,
    td1_share=growing.td1_share,
    greedy_after=growing.greedy_after,
    resign_below=growing.resign_below,
    never_resign=growing.never_resign if growing.resign_below else 0.0,
  )
  most = num_devices * play.most_examples
  if most > learning.buffer_size:
    raise ConfigError(
      f"buffer_size={learning.buffer_size} must be at least {most}: as many examples may come of "
      f"one step of lanes={config.self_play.lanes}"
    )
  return _trainer(config, play, targets, num_devices)


def _shared(config: Config, game: Game | DeviceGame, num_devices: int) -> dict[str, Any]:
  """Returns the settings that all kinds of self-play by growing searches have."""
  config.check_devices(num_devices)
  growing = config.growing
  return dict(
    search=make_search(config),
    network=NetworkStates(make_state_network(config, game)),
    num_lanes=config.self_play.lanes // num_devices,
    num_solvers=-(-config.questions_per_step // num_devices),
    query_share=growing.query_share,
    recursive_share=growing.recursive_share,
    exploration=growing.exploration,
  )


def _trainer(config: Config, play: Play, targets: tuple[Target, ...], num_devices: int) -> Trainer:
  learning = config.learning
  return Trainer(
    self_play=play,
    targets=targets,
    buffer_size=learning.buffer_size // num_devices,
    learn_steps=config.learn_steps,
    min_solves=(learning.min_examples + 1) // 2,
    per_solve=learning.uses_per_example / learning.batch_size,
  )
