"""AIVAT estimates of the games that agents played, and agents as local best response meets them."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import games
import solvers
from games import Game
from games.poker import Holdem
from rebel_jax.agents.belief_agent import Agent
from rebel_jax.agents.dealer import child_after
from rebel_jax.agents.match import PlayedGame
from solvers.metrics import Strategy

_MOST_PAIRS = 2**24  # entries of a table of pairs at every node
_MOST_BYTES = 2**29
ITERATIONS = 64
ZERO = "zero"
SOLVED = f"half the difference of both players' values after {ITERATIONS} iterations of linear CFR"
SHARES = "shares of the pot if nobody bet any more"
Progress = Callable[[int, int], None]  # (done, in all)


class Estimator(NamedTuple):
  """AIVAT estimates of games that `Agent`s played.

  Attributes:
    recorder: of the games, by a value function.
    values: what that function is, in words.
  """

  recorder: solvers.metrics.HandRecorder
  values: str

  def estimates(
    self, played: Sequence[PlayedGame], known: Sequence[int], progress: Progress | None = None
  ) -> list[float]:
    """Returns the first player's payoff in each game, estimated by `solvers.metrics.aivat`.

    Args:
      played: games.
      known: which of the match's players are such agents: 0, 1 or both, each of whom gives an
        estimate; the mean counts.
      progress: called with games done, and in all.
    """
    found = []
    for number, game in enumerate(played):
      each = [(1 - 2 * first) * solvers.metrics.aivat(self._record(game, first)) for first in known]
      found.append(float(np.mean(each)))
      if progress is not None:
        progress(number + 1, len(played))
    return found

  def _record(self, played: PlayedGame, known: int) -> solvers.metrics.HandRecord:
    """Returns the record of a game in which that player of the match is the known one."""
    agent: Any = played.players[played.seat ^ known]
    told: list[int | None] = list(played.infostates)
    told[played.seat ^ known] = None
    return self.recorder.record(played.history, (told[0], told[1]), agent.rows)


def make_estimator(
  game: Game, progress: Callable[[float], None] = lambda share: None
) -> Estimator | None:
  """Returns an estimator, its value function fixed; None where the game is unfit.

  The value function is that of a short solution of the whole game where that is small, else in
  hold'em what shares of the pot say (`solvers.metrics.PotShares`), else zero. Games of hidden moves
  have no estimator, nor have those other than hold'em whose tree is too large. `progress` is called
  with the share of what all games have in common that is computed.
  """
  tree = None
  if not (isinstance(game, Holdem) and game.unlisted):
    with contextlib.suppress(ValueError):
      tree = games.build_public_tree(game, max_bytes=_MOST_BYTES)
  if tree is not None and tree.infostate_parent is not None:
    return None
  if tree is None or tree.num_nodes * tree.num_infostates**2 > _MOST_PAIRS:
    if isinstance(game, Holdem):
      shares = solvers.metrics.PotShares(game)
      shares.prepare(lambda done, total: progress(done / total))
      return Estimator(solvers.metrics.HandRecorder(game, shares), SHARES)
    if tree is None:
      return None
    return Estimator(solvers.metrics.HandRecorder(game, solvers.metrics.zero_values(tree)), ZERO)
  solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
  found = solvers.metrics.node_values(tree, solved.average_policy)
  values = solvers.metrics.half_the_difference(tree, found)
  return Estimator(solvers.metrics.HandRecorder(game, values), SOLVED)


class AgentStrategy(Strategy):
  """What `solvers.metrics.local_best_response` plays against: an agent, and a shadow of it.

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
    held = int(np.argmax(np.asarray(self._agent.searcher.game.prior())[0] > 0))
    for agent in (self._agent, self._shadow):
      agent.start(0, held)  # what it really holds, `act` says

  def observe(self, action: int) -> None:
    for agent in (self._agent, self._shadow):
      agent.observe(action)

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    search, node = self._shadow.node()
    for action in ahead:
      node = child_after(search.tree, node, action)
    found = np.zeros((self._num_actions, search.policy.shape[1]))
    for child in np.flatnonzero(search.tree.parent == node):
      found[int(search.tree.action[child])] = search.policy[child]
    return found

  def act(self, infostate: int, rng: np.random.Generator) -> int:
    search, node = self._agent.node()
    self._agent.player, self._agent.infostate = int(search.tree.kind[node]), int(infostate)
    del rng  # the agent has its own
    return self._agent.act().action
