"""Builds a configuration's networks, targets, subgames and training loop."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from jax.sharding import Mesh

import solvers
from games import Game, build_public_tree, tabulate
from games.build import check_size
from games.poker import Holdem
from rebel_jax.config import Config, ConfigError, DeepCFR, PerfectSearch, in_config_errors
from rebel_jax.networks.names import NETWORKS
from rebel_jax.networks.poker import CardNetwork, PokerValueNetwork, Table
from rebel_jax.networks.value import (
  MoveNetwork,
  NetworkLeafValues,
  NetworkPolicy,
  NetworkStates,
  OrderedNetwork,
  OwnNetwork,
  PolicyNetwork,
  ValueNetwork,
  ValuePolicyNetwork,
)
from rebel_jax.training import targets as training_targets
from rebel_jax.training.chain_play import ChainPlay
from rebel_jax.training.deep_cfr import SLOTS, DeepTrainer, Traversals, make_decisions
from rebel_jax.training.loop import Trainer, make_mesh
from rebel_jax.training.self_play import LARGE, SelfPlay, ServedStage
from rebel_jax.training.targets import Target
from solvers.growing import RulesGround, tree_ground
from solvers.search import (
  FoundSubgames,
  SearchPolicy,
  Stage,
  Subgames,
  TemplateSubgames,
  find_subgames,
  rows_at_a_time,
  stack_stages,
  stages_fit,
)

# Iterations that a policy network's policy counts as (ReBeL, appendix J).
_WARM_START = 15
# Where games start in many ways and lanes share searches of the start, so many lanes share one; and
# how many are searched each step at most.
_LANES_A_START, _MOST_STARTS = 16, 8
# Learning starts with as many batches in the buffer.
_MIN_BATCHES = 4


def _trunk(
  config: Config, game: Game, outputs: int, cards: type[CardNetwork] | None = CardNetwork
) -> ValueNetwork:
  """Returns a network of a game's PBS; hold'em's MLPs are `cards`, None for no PBS."""
  network: Any = config.network
  if (make := NETWORKS[network.architecture]) is not None:
    return OwnNetwork(outputs, module=make(config, game, outputs))
  sizes: dict[str, Any] = dict(
    num_infostates=outputs,
    hidden_layers=network.hidden_layers,
    width=network.width,
    activation=network.activation,
    belief_roots=network.belief_roots,
    precision=network.precision,
  )
  if cards is None:
    return ValueNetwork(**sizes)
  if isinstance(game, Holdem):
    return cards(table=Table.of(game), showdown_inputs=network.architecture == "showdowns", **sizes)
  if game.orders_infostates:
    return OrderedNetwork(places=game.num_infostates, **sizes)
  return ValueNetwork(**sizes)


def make_network(config: Config, game: Game) -> ValueNetwork:
  """Returns the value network of a configuration."""
  return _trunk(config, game, game.num_infostates, PokerValueNetwork)


def make_policy_network(config: Config, game: Game) -> PolicyNetwork | None:
  """Returns the policy network of a configuration, None if it has none."""
  if not config.rebel.policy_network:
    return None
  if _hides_moves(game):
    raise ConfigError(
      f"policy_network=True needs infostates that never change; {game.name} has hidden moves"
    )
  actions = game.num_player_actions
  return PolicyNetwork(_trunk(config, game, actions * game.num_infostates), actions)


def make_state_network(config: Config, game: Game) -> ValuePolicyNetwork:
  """Returns the value-and-policy network of a configuration whose searches grow trees."""
  moves = _num_moves(game)
  trunk = _trunk(config, game, (2 + moves) * game.num_infostates)
  return ValuePolicyNetwork(trunk, moves, config.growing.policy_weight)


def make_move_network(config: Config, game: Game) -> MoveNetwork:
  """Returns the network of Deep CFR's advantages, and of its average policy."""
  moves = _num_moves(game)
  trunk = _trunk(config, game, moves, None)
  return MoveNetwork(trunk, game.num_infostates, game.num_actions, moves)


def _num_moves(game: Game) -> int:
  # Games need not say themselves how many hidden moves there are.
  return tabulate(game).num_moves if _hides_moves(game) else game.num_moves


def _hides_moves(game: Game) -> bool:
  start = game.initial_state()[None]
  return game.infostate_parents(start, game.legal_actions(start).argmax(axis=1)) is not None


@in_config_errors()
def make_search(config: Config, *, evaluation: bool = False, **changes: Any) -> solvers.GTCFR:
  """Returns the settings of growing searches, with the `changes` that are not None."""
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
  return solvers.GTCFR(
    **settings | {name: value for name, value in changes.items() if value is not None}
  )


@in_config_errors()
def make_ground(config: Config, game: Game, search: solvers.GTCFR | None = None) -> Any:
  """Returns the ground of a game's chains of searches, those of training by default."""
  if not game.written:
    return RulesGround.of(game, search or make_search(config))
  return tree_ground(game, build_public_tree(game))


def make_algorithm(config: Config, name: str) -> solvers.Algorithm:
  """Returns `solvers.make_algorithm(name)`, warm-started if there is a policy network."""
  algorithm = solvers.make_algorithm(name)
  if not config.rebel.policy_network:
    return algorithm
  with in_config_errors(
    f"algorithm={name!r} cannot start from a policy network; with policy_network=True allowed are "
    "the forms of CFR",
    ValueError,
    reason=False,
  ):
    return solvers.warm_started(algorithm, num_iterations=_WARM_START)


def make_search_policy(config: Config, game: Game) -> SearchPolicy | None:
  """Returns the policy network as searches use it, None if the configuration has none."""
  network = make_policy_network(config, game)
  return None if network is None else SearchPolicy(NetworkPolicy(network), network.num_actions)


@in_config_errors()
def make_subgames(
  config: Config, game: Game, depth: int | str | None = None, *, measured: bool = True
) -> FoundSubgames:
  """Returns all subgames of a depth, of a tree not too large where exploitability is `measured`."""
  if measured:
    check_size(game, game.initial_state())
  return find_subgames(game, depth=config.rebel.depth if depth is None else depth)


def made_on_device(config: Config, game: Game) -> bool:
  """Says whether a game's subgames are too many to be written out, and are made from templates."""
  if config.rebel.depth != "stage":
    return False
  try:
    return game.templates() is not None and (game.unlisted or not stages_fit(game))
  except ValueError:  # it has none with these parameters
    return False


def make_targets(config: Config, game: Game) -> tuple[Target, ...]:
  """Returns the targets that a configuration trains, as `training.targets` lists them."""
  if config.grows:
    networks: dict[str, Any] = {"value_policy": make_state_network(config, game)}
  elif isinstance(config.search, DeepCFR):
    networks = {"moves": make_move_network(config, game)}
  else:
    value, policy = make_network(config, game), make_policy_network(config, game)
    networks = {"value": value, "policy": policy}
  made = [make(config, game, networks) for make in training_targets.TARGETS]
  targets = tuple(target for target in made if target is not None)
  names = [target.name for target in targets]
  if len(set(names)) < len(names):
    raise ValueError(f"training.targets={names} must have different names")
  return targets


def make_training_subgames(
  config: Config, game: Game, targets: Sequence[Target], *, measured: bool = True
) -> tuple[Subgames, FoundSubgames | None]:
  """Returns the subgames of self-play, and all of the game where they are written out."""
  features, search = any(target.node_features for target in targets), config.rebel
  templates, by_stage = None, search.depth == "stage"
  if by_stage:
    try:
      templates = game.templates()
    except ValueError as error:
      if search.vary:
        raise ConfigError(f"vary={dict(search.vary)}: {error}") from None
  if templates is None:
    if search.vary:  # tables hold the hands of one start
      raise ConfigError(
        f"vary={dict(search.vary)} needs depth='stage', not depth={search.depth}, and a "
        "game whose subgames are made on the device"
      )
    found = make_subgames(config, game, measured=measured)
    return stack_stages(game, found, by_stage=by_stage, node_features=features), found
  return TemplateSubgames(templates, features), None


def _chain_play(config: Config, game: Game, num_devices: int) -> ChainPlay:
  """Returns self-play of a configuration whose searches grow trees, on one of the devices."""
  growing, lanes, outcomes = config.growing, config.self_play.lanes, dict[str, Any]()
  if isinstance(growing, PerfectSearch):
    outcomes = dict(
      td1_share=growing.td1_share,
      most_moves=game.max_moves if growing.td1_share else 1,
      greedy_after=growing.greedy_after,
      resign_below=growing.resign_below,
      never_resign=growing.never_resign if growing.resign_below else 0.0,
    )
  return ChainPlay(
    search=make_search(config),
    network=NetworkStates(make_state_network(config, game)),
    num_lanes=lanes // num_devices,
    num_solvers=-(-math.ceil(round(lanes * growing.questions_per_lane, 6)) // num_devices),
    query_share=growing.query_share,
    recursive_share=growing.recursive_share,
    exploration=growing.exploration,
    **outcomes,
  )


def _self_play(config: Config, game: Game, subgames: Subgames, num_devices: int) -> SelfPlay:
  """Returns ReBeL's self-play of a configuration on one of the devices."""
  search = config.rebel
  if not any(stage.depth_limited for stage in subgames.stages):
    raise ConfigError(
      f"depth={search.depth} must be less than what the game lasts at most from its start: a "
      "search that reaches the end of the game needs no network"
    )
  lanes = config.self_play.lanes // num_devices
  algorithm = make_algorithm(config, search.algorithm)
  # The start is no leaf: where it is a stage by itself and searched for all, no lane is there.
  start_apart = search.share_start and subgames.starts_apart
  # Subgames of one stage are alike, so rows for a share of the lanes serve no more than that.
  share = search.rows_fraction if search.depth == "stage" else 1.0
  layers = [
    ServedStage(
      num_rows=max(stage.most_live, round(lanes * stage.most_live * search.rows_fraction)),
      capacity=max(1, round(lanes * share)),
      served=number > 0 or not start_apart,
      piece=_piece(stage, game.num_infostates),
    )
    for number, stage in enumerate(subgames.stages)
  ]
  return SelfPlay(
    algorithm=algorithm,
    num_iterations=search.iterations,
    num_lanes=lanes,
    layers=tuple(layers),
    leaf_values=NetworkLeafValues(make_network(config, game)),
    policy=make_search_policy(config, game),
    level_values=search.level_values,
    share_start=search.share_start,
    num_starts=1 if subgames.one_start else min(_MOST_STARTS, -(-lanes // _LANES_A_START)),
    play_on=search.play_on,
  )


def _piece(stage: Stage, num_infostates: int) -> int | None:
  """Returns how many lanes of a stage a CPU searches at once: those that fill one network call."""
  rows = rows_at_a_time(num_infostates)
  if rows is None or stage.table_entries < LARGE:
    return None
  return max(1, rows // stage.most_live) if stage.most_live else 1


@dataclasses.dataclass(frozen=True)
class Setup:
  """The objects of a run."""

  config: Config
  game: Game
  # all depth-limited ones; None where they are made from templates or trees grow
  subgames: FoundSubgames | None
  table: Any  # what self-play plays: subgames as tables or templates; a `Ground`; `Decisions`
  trainer: Trainer  # the compiled loop that training begins with
  mesh: Mesh

  def trainer_at(self, step: int) -> Trainer:
    """Returns the loop that goes on after `step` steps: late searches may be longer."""
    number, play = self.config.search.late_iterations, self.trainer.self_play
    if step < self.config.late_step or not number:
      return self.trainer
    assert isinstance(play, SelfPlay)
    longer = dataclasses.replace(play, num_iterations=number)
    return dataclasses.replace(self.trainer, self_play=longer)


def make_setup(config: Config, num_devices: int | None = None, *, measured: bool = True) -> Setup:
  """Validates a configuration and makes its objects for `num_devices`, None for all."""
  config.validate()
  game = config.make_game()
  mesh = in_config_errors()(make_mesh)(num_devices)
  devices, learning = mesh.devices.size, config.learning
  sizes = config.self_play.lanes, learning.batch_size, learning.buffer_size
  for field, size in zip(("lanes", "batch_size", "buffer_size"), sizes):
    if size % devices:
      raise ConfigError(f"{field}={size} must be a multiple of the {devices} devices")
  targets = make_targets(config, game)
  settings: dict[str, Any] = dict(
    targets=targets,
    buffer_size=learning.buffer_size // devices,
    learn_steps=config.learn_steps,
    # Two examples of values each.
    min_solves=(min(_MIN_BATCHES * learning.batch_size, learning.buffer_size) + 1) // 2,
    per_solve=learning.uses_per_example / learning.batch_size if config.grows else 0.0,
    decay_steps=config.gradient_steps,
  )
  if isinstance(config.search, DeepCFR):
    number = config.self_play.lanes // devices
    decisions = in_config_errors()(make_decisions)(game)
    # Few public states are met by many traversals anyway: more draws of one scatter less.
    traversals = Traversals(number, SLOTS * number, draws=1 if decisions.tree is None else 3)
    trainer = DeepTrainer(traversals, alternating=config.search.alternating, **settings)
    return Setup(config, game, None, decisions, trainer, mesh)
  play: SelfPlay | ChainPlay
  if config.grows:
    table, subgames = make_ground(config, game), None
    play = _chain_play(config, game, devices)
  else:
    table, subgames = make_training_subgames(config, game, targets, measured=measured)
    play = _self_play(config, game, table, devices)
  most = devices * max(play.most_examples(table, target) for target in targets)
  if most > learning.buffer_size:
    raise ConfigError(
      f"buffer_size={learning.buffer_size} must be at least {most}: as many examples may come of "
      f"one step of lanes={config.self_play.lanes}"
    )
  return Setup(config, game, subgames, table, Trainer(play, **settings), mesh)
