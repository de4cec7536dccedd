"""What agents share whose searches make their trees, by rules on the device."""

from typing import Any

import numpy as np

from games import DeviceGame, Game
from games.on_device.one_play import OnePlay
from rebel_jax.agents.growing.own_chain import OwnChain, OwnSearcher
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import Config, ConfigError


class RulesSearcher(OwnSearcher):
  """An `OwnSearcher` whose searches make their trees; `game` is one play of the rules."""

  game: OnePlay
  # Whether it is for games of perfect information, or for all others.
  sees_all: bool

  def __init__(self, policy: Policy, **settings: Any):
    """Prepares the searches; `settings` as for `OwnSearcher`."""
    super().__init__(policy, **settings)
    self.game = OnePlay(self._rules)

  def _make_rules(self, config: Config) -> DeviceGame:
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
    return rules


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
