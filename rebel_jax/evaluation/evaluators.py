"""The evaluator of a configuration's agent, by the kind of its search and the size of its game."""

from typing import Any

from rebel_jax.config.config import Config
from rebel_jax.config.search import DeepCFR
from rebel_jax.evaluation.average_evaluator import AverageEvaluator
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator
from rebel_jax.evaluation.measurement import Measures
from rebel_jax.training.setup import Setup, made_on_device


def make_evaluator(config: Config, setup: Setup | None = None, **options: Any) -> Measures:
  """Returns the evaluator of a configuration's agent.

  Args:
    config: of the run.
    setup: of the run, if that is made already.
    options: of the evaluator.
  """
  made: Any = setup
  if config.grows:
    known = {} if made is None else {"game": made.game, "ground": made.table}
    return ChainEvaluator(config, **known, **options)
  if isinstance(config.search, DeepCFR):
    known = {} if made is None else {"game": made.game, "table": made.table}
    return AverageEvaluator(config, **known, **options)
  game: Any = config.make_game() if made is None else made.game
  if made_on_device(config, game):
    return HandsEvaluator(config, game)
  return Evaluator(config, game=game, subgames=made and made.subgames, **options)
