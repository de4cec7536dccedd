"""Exploitability of the average policy that Deep CFR's network has learned."""

from typing import Any

import jax

import solvers
from games import Game, PublicTree
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.evaluation.measurement import Measurement, Show
from rebel_jax.networks.moves import answers
from rebel_jax.training.decisions import Decisions, make_decisions
from rebel_jax.training.deep_cfr import probabilities
from rebel_jax.training.setup import make_move_network


class AverageEvaluator:
  """Measures the average policy of one game and network, exactly.

  Attributes:
    about: see `Measures`.
    tree: the whole game's.
  """

  def __init__(self, config: Config, game: Game | None = None, table: Decisions | None = None):
    """Prepares; `game` and `table` are of the configuration, if they are made already."""
    self.about: dict[str, Any] = {}
    game = config.make_game() if game is None else game
    self._table = table = make_decisions(game) if table is None else table
    self.tree: PublicTree = table.tree
    network = make_move_network(config, game)

    def policy(params: Any) -> jax.Array:
      numbers = answers(network, params["average"], table, slice(None))
      return table.policy(probabilities(numbers, table.legal))

    self.policy = jax.jit(policy)  # [N, H]

  def measure(
    self, params: Any, seed: int, *, final: bool = True, show: Show = lambda *_: None
  ) -> Measurement:
    """Returns the exploitability, in which nothing is sampled."""
    del seed, final, show
    policy = self.policy(params)
    if not jax.numpy.isfinite(policy).all():
      raise ConfigError("the network's probabilities are not finite")
    return Measurement({"exploitability": float(solvers.exploitability(self.tree, policy))})
