"""Which evaluator measures an agent whose searches grow trees."""

from typing import Any

from games import DeviceGame, Game
from rebel_jax.config.config import Config
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.perfect_evaluator import PerfectEvaluator
from rebel_jax.evaluation.resolving_evaluator import ResolvingEvaluator
from solvers import GTCFR

Growing = ResolvingEvaluator | PerfectEvaluator | ChainEvaluator


def make_growing_evaluator(
  config: Config,
  *,
  game: Game | DeviceGame | None = None,
  table: Any = None,
  search: GTCFR | None = None,
) -> Growing:
  """Returns what measures the agent of a configuration.

  Args:
    config: of a network whose searches grow trees.
    game: its rules; None to make them.
    table: the `Grounds` of a game whose tree is made beforehand; None to make them.
    search: settings of searches; None for the configuration's.

  Raises:
    ConfigError: a tree that is needed is too large to be written out.
  """
  rules = config.make_rules() if game is None else game
  if isinstance(rules, Game):
    return ResolvingEvaluator(config, game=rules, whole=table, search=search)
  if rules.num_infostates == 1:
    return PerfectEvaluator(config, game=rules, search=search)
  return ChainEvaluator(config, game=rules, search=search)
