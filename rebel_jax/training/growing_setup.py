"""Builds what searches that grow trees need: their settings, networks and training loops."""

from typing import Any

from games import DeviceGame, Game, TableGame, build_public_tree
from games.on_device.moves import num_moves
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.config.search import PerfectSearch
from rebel_jax.networks.value_policy import NetworkStates, ValuePolicyNetwork
from rebel_jax.training.chain_play import ChainPlay
from rebel_jax.training.loop import Trainer
from rebel_jax.training.targets.target import Target
from rebel_jax.training.trunks import make_trunk
from solvers import GTCFR
from solvers.growing.continual.grounds import RulesGround, tree_ground


def make_state_network(config: Config, game: Game | DeviceGame) -> ValuePolicyNetwork:
  """Returns the value-and-policy network of a configuration whose searches grow trees."""
  actions = _num_moves(game)
  trunk = make_trunk(config, game, 2 + actions)
  return ValuePolicyNetwork(trunk, actions, config.growing.policy_weight)


def _num_moves(game: Game | DeviceGame) -> int:
  if not isinstance(game, Game):
    return num_moves(game)
  state = game.initial_state()[None]
  first = game.legal_actions(state).argmax(axis=1)
  if game.infostate_parents(state, first) is None:
    return game.num_player_actions
  return TableGame(game, build_public_tree(game)).num_hidden


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


def make_ground(config: Config, game: Game | DeviceGame, search: GTCFR | None = None) -> Any:
  """Returns the ground of a game's chains of searches, those of training by default.

  Raises:
    ConfigError: its tree is too large to be written out.
  """
  if not isinstance(game, Game):
    return RulesGround.of(game, search or make_search(config))
  try:
    return tree_ground(game, build_public_tree(game))
  except ValueError as error:
    raise ConfigError(str(error)) from None


def make_growing_trainer(
  config: Config, game: Game | DeviceGame, targets: tuple[Target, ...], num_devices: int
) -> Trainer:
  """Returns the training loop of a configuration whose searches grow trees.

  Raises:
    ConfigError: the devices do not divide the work, or settings do not go together.
  """
  config.check_devices(num_devices)
  growing, learning, outcomes = config.growing, config.learning, dict[str, Any]()
  if isinstance(growing, PerfectSearch):
    assert not isinstance(game, Game)
    outcomes = dict(
      td1_share=growing.td1_share,
      most_moves=game.max_moves if growing.td1_share else 1,
      greedy_after=growing.greedy_after,
      resign_below=growing.resign_below,
      never_resign=growing.never_resign if growing.resign_below else 0.0,
    )
  play = ChainPlay(
    search=make_search(config),
    network=NetworkStates(make_state_network(config, game)),
    num_lanes=config.self_play.lanes // num_devices,
    num_solvers=-(-config.questions_per_step // num_devices),
    query_share=growing.query_share,
    recursive_share=growing.recursive_share,
    exploration=growing.exploration,
    **outcomes,
  )
  most = num_devices * play.most_examples
  if most > learning.buffer_size:
    raise ConfigError(
      f"buffer_size={learning.buffer_size} must be at least {most}: as many examples may come of "
      f"one step of lanes={config.self_play.lanes}"
    )
  return Trainer(
    self_play=play,
    targets=targets,
    buffer_size=learning.buffer_size // num_devices,
    learn_steps=config.learn_steps,
    min_solves=(learning.min_examples + 1) // 2,
    per_solve=learning.uses_per_example / learning.batch_size,
  )
