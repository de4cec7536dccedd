"""An agent as local best response may know it: its average policy, and not its cards."""

import numpy as np

from rebel_jax.agents.moves import child_after
from rebel_jax.agents.playing import Agent
from solvers import Strategy


class AgentStrategy(Strategy):
  """What `solvers.local_best_response` plays against: an agent, and a shadow of it.

  The shadow searches with the same network, and answers with the average policies of its searches;
  the agent plays one random iteration of each of its own, which nobody is told.

  Args:
    agent: plays.
    shadow: an agent whose searcher plays averages.
  """

  def __init__(self, agent: Agent, shadow: Agent):
    self._agent, self._shadow = agent, shadow
    self._num_actions = agent.searcher.game.num_player_actions

  def start(self) -> None:
    """See `Strategy`."""
    held = int(np.argmax(np.asarray(self._agent.searcher.game.prior())[0] > 0))
    for agent in (self._agent, self._shadow):
      agent.start(0, held)  # what it really holds, `act` says

  def observe(self, action: int) -> None:
    """See `Strategy`."""
    for agent in (self._agent, self._shadow):
      agent.observe(action)

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    """See `Strategy`."""
    search, node = self._shadow.node()
    for action in ahead:
      node = child_after(search.tree, node, action)
    found = np.zeros((self._num_actions, search.policy.shape[1]))
    for child in np.flatnonzero(search.tree.parent == node):
      found[int(search.tree.action[child])] = search.policy[child]
    return found

  def act(self, infostate: int, rng: np.random.Generator) -> int:
    """See `Strategy`."""
    search, node = self._agent.node()
    self._agent.player, self._agent.infostate = int(search.tree.kind[node]), int(infostate)
    del rng  # the agent has its own
    return self._agent.act().action
