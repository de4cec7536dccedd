"""The evaluator of a configuration's agent, by the kind of its search and the size of its game."""

from typing import Any

from rebel_jax.config.config import Config
from rebel_jax.evaluation.chain_evaluator import ChainEvaluator
from rebel_jax.evaluation.evaluator import Evaluator
from rebel_jax.evaluation.hands_evaluator import HandsEvaluator
from rebel_jax.evaluation.measurement import Measures
from rebel_jax.training.setup import Setup, made_on_device


def make_evaluator(config: Config, setup: Setup | None = None, **options: Any) -> Measures:
  """Returns what measures the agent of a configuration.

  Args:
    config: of the run.
    setup: of the run, if that is made already.
    options: of the evaluator.
  """
  game = None if setup is None else setup.game
  if config.grows:
    return ChainEvaluator(config, game=game, ground=setup and setup.table, **options)
  known: Any = config.make_game() if game is None else game
  if made_on_device(config, known):
    return HandsEvaluator(config, known)
  return Evaluator(config, game=known, subgames=setup and setup.subgames, **options)
