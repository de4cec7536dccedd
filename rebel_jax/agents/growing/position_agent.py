"""An agent of games of perfect information, whose moves are searches from where the game stands."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rebel_jax.agents.dealer import Move
from rebel_jax.agents.growing.by_rules import RulesAgent, RulesSearcher
from rebel_jax.agents.growing.own_chain import OwnSearch
from solvers.growing.positions import position_key, search_positions


class PositionSearcher(RulesSearcher):
  """A `RulesSearcher` of positions, for games with one infostate a player."""

  sees_all = True

  def agent(self, *, seed: int = 0) -> "PositionAgent":
    """See `OwnSearcher`."""
    return PositionAgent(self, seed=seed)

  def _search(self, agents: Sequence[Any]) -> list[OwnSearch]:
    filled = [*agents, *[agents[0]] * (self._room - len(agents))]
    states = jnp.asarray(np.stack([self.game.parts(x._state)[0] for x in filled]))
    found = search_positions(
      self.game.rules,
      states,
      _keys(jnp.stack([x._key for x in filled]), states),
      search=self.settings,
      network=self._network,
      params=self._params,
    )
    policies, values = (np.asarray(x) for x in found)
    return [
      OwnSearch(policy[:, None], np.array([[value], [-value]]), None)
      for _, policy, value in zip(agents, policies, values)
    ]


@jax.jit
def _keys(own: jax.Array, states: jax.Array) -> jax.Array:
  return jax.vmap(position_key)(own, states)


class PositionAgent(RulesAgent):
  """A `RulesAgent` that makes the likeliest move of each search.

  `python -m rebel_jax.evaluate` scores it where all states can be enumerated.
  """

  searcher: PositionSearcher

  def _choices(self, policy: np.ndarray) -> dict[Move, float]:
    best = int(policy[:, 0].argmax())
    moves = self.searcher.game.moves(self._state, self.player, self.infostate)
    return {Move(*move): float(move[0] == best) for move in moves}

  def _keep(self, search: OwnSearch) -> None:
    """Keeps nothing: the next search starts anew."""
