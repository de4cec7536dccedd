"""What agents share whose searches make their trees, by rules on the device."""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np

from games import Game
from games.on_device.one_play import OnePlay
from rebel_jax.agents.growing.own_chain import OwnChain, OwnSearch
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import ConfigError
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_search, make_state_network
from solvers import GTCFR, validation


class RulesSearcher(abc.ABC):
  """Searches decisions with a trained network, several at a time; agents share one.

  Attributes:
    game: one play of the rules.
    settings: of every search.
  """

  def __init__(
    self,
    policy: Policy,
    *,
    simulations: int | None = None,
    per_update: float | None = None,
    num_games: int = 1,
  ):
    """Prepares the searches; the first one compiles.

    Args:
      policy: from `rebel_jax.load`, of a run whose searches make their trees.
      simulations: of each search; None for the run's `eval_simulations`.
      per_update: simulations for each update of both players; None for `eval_per_update`.
      num_games: how many decisions one compiled call has room for.

    Raises:
      ConfigError: the run's trees are made beforehand, its game is played by another kind of
        searcher, or settings do not go together.
      ValueError: a number is not allowed.
    """
    self._room = validation.check_integer("num_games", num_games)
    given = {"eval_simulations": simulations, "eval_per_update": per_update}
    config = policy.config.replace(**{k: v for k, v in given.items() if v is not None})
    rules = config.make_rules()
    if isinstance(rules, Game):
      raise ConfigError(
        f"the searches of preset={config.preset!r} do not make their trees; take make_searcher"
      )
    if (rules.num_infostates == 1) != self.sees_all:
      raise ConfigError(
        f"game={config.game!r} has num_infostates={rules.num_infostates}, for which this is not "
        "the searcher; take make_searcher"
      )
    self.settings: GTCFR = make_search(config, evaluation=True)
    self.game = OnePlay(rules)
    self._params = policy.params
    self._network = NetworkStates(make_state_network(config, rules))

  # Whether it is for games of perfect information, or for all others.
  sees_all: bool

  @abc.abstractmethod
  def agent(self, *, seed: int = 0) -> "RulesAgent":
    """Returns an agent that searches so."""

  @abc.abstractmethod
  def _search(self, agents: Sequence[Any]) -> list[OwnSearch]:
    """Searches for at most as many agents as there is room for."""

  def search_for(self, agents: Sequence["RulesAgent"]) -> None:
    """Lets agents that must search do so, side by side."""
    for first in range(0, len(agents), self._room):
      some = agents[first : first + self._room]
      for agent, search in zip(some, self._search(some)):
        agent._search = search


class RulesAgent(OwnChain):
  """An `OwnChain` by rules on the device; `policy` is as `moves_of` numbers moves."""

  searcher: RulesSearcher

  def _begin(self) -> None:
    self._state = self.searcher.game.initial_state()

  @property
  def _mover(self) -> int:
    return int(self.searcher.game.actor(self._state[None])[0])

  def _check(self, action: int) -> None:
    legal = np.flatnonzero(self.searcher.game.legal_actions(self._state[None])[0]).tolist()
    if action not in legal:
      raise ValueError(f"action={action!r} is not legal here; legal: {legal}")

  def _follow(self, action: int) -> None:
    self._state = self.searcher.game.next_states(self._state[None], np.array([action]))[0]
