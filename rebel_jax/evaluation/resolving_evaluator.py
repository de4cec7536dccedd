"""Exploitability of the agent that searches in trees that grow (Player of Games, section 4.1)."""

from collections.abc import Callable, Sequence
from typing import Any

import solvers
from games import Game
from rebel_jax.config.config import Config
from rebel_jax.evaluation.finite import check_finite
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_growing_grounds, make_search, make_state_network
from solvers import GTCFR
from solvers.growing.continual.grounds import Grounds


class ResolvingEvaluator:
  """Measures the agent of one game and network, exactly for each of its seeds.

  Attributes:
    game, whole: what is played.
    network: what searches ask.
    search: settings of searches.
  """

  unit = "searches"  # of `progress`

  def __init__(
    self,
    config: Config,
    *,
    game: Game | None = None,
    whole: Grounds | None = None,
    search: GTCFR | None = None,
  ):
    """Prepares the agent of a configuration; `game`, `whole` and `search` replace its own.

    Raises:
      ConfigError: the game's tree is too large to be written out.
    """
    self.game = config.make_game() if game is None else game
    self.whole = make_growing_grounds(self.game) if whole is None else whole
    self.network = NetworkStates(make_state_network(config, self.game))
    self.search = search or make_search(config, evaluation=True)

  def measure(
    self, params: Any, *, seeds: Sequence[int], progress: Callable[[int, int], None] | None = None
  ) -> dict[str, list[float]]:
    """Returns the `exploitability` of the agent of each seed, in the game's units.

    An agent that searches by one seed has one policy, which is found by searching at every decision
    of the game, each from what the same player's last search left.

    Args:
      params: the network's.
      seeds: of the agents.
      progress: called with searches done and in all.

    Raises:
      ConfigError: the network's values are not finite.
    """
    tree = self.whole.tree
    check_finite(self.network, params, self.whole.nodes.features[0], tree.num_infostates)
    policies = solvers.resolved_policies(
      self.game,
      tree,
      search=self.search,
      seeds=tuple(seeds),
      network=self.network,
      params=params,
      progress=progress,
    )
    return {"exploitability": [float(solvers.exploitability(tree, policy)) for policy in policies]}
