"""An agent that keeps its policy of every decision, and AIVAT estimates of the games it played."""

import contextlib
from collections.abc import Callable, Sequence

import numpy as np

import games
import solvers
from games import Game
from games.poker import Holdem
from rebel_jax.agents.dealer import Move, child_after
from rebel_jax.agents.match import Played
from rebel_jax.agents.playing import Agent
from solvers import Strategy

_MOST_PAIRS = 2**24  # entries of a table of pairs at every node
_MOST_BYTES = 2**29
ITERATIONS = 64
ZERO = "zero"
SOLVED = f"half the difference of both players' values after {ITERATIONS} iterations of linear CFR"
SHARES = "shares of the pot if nobody bet any more"
Progress = Callable[[int, int], None]  # (done, in all)


class RecordingAgent(Agent):
  """Plays as `Agent` does, and keeps what it would have done with every infostate.

  Attributes:
    rows: `[H]` probability of each move that it had, by the public history that it leads to.
  """

  rows: dict[tuple[int, ...], np.ndarray]
  _history: tuple[int, ...]

  def start(self, player: int, infostate: int) -> None:
    """See `Agent`."""
    super().start(player, infostate)
    self.rows, self._history = {}, ()

  def act(self) -> Move:
    """See `Agent`."""
    search, node = self.node()
    for child in np.flatnonzero(search.tree.parent == node).tolist():
      self.rows[*self._history, int(search.tree.action[child])] = search.policy[child]
    return super().act()

  def observe(self, action: int, infostate: int | None = None) -> None:
    """See `Agent`."""
    super().observe(action, infostate)
    self._history = (*self._history, int(action))


class Estimator:
  """AIVAT estimates of games that `RecordingAgent`s played.

  Attributes:
    game: the rules.
    function: the value function.
    values: what it is, in words.
  """

  def __init__(self, game: Game, function: solvers.ValueFunction, values: str):
    self.function, self.values = function, values
    self._recorder = solvers.HandRecorder(game, function)

  def prepare(self, progress: Progress | None = None) -> None:
    """Computes what all games share; `progress` is called with how much is done, and in all."""
    if isinstance(self.function, solvers.PotShares):
      self.function.prepare(progress)

  def estimates(
    self, played: Sequence[Played], known: Sequence[int], progress: Progress | None = None
  ) -> list[float]:
    """Returns what the match's first player won in each game, by `solvers.aivat`.

    Args:
      played: games.
      known: which of the match's players recorded their policies: 0, 1 or both, each of whom gives
        an estimate; the mean counts.
      progress: called with games done, and in all.
    """
    found = []
    for number, game in enumerate(played):
      each = [(1 - 2 * first) * solvers.aivat(self._record(game, first)) for first in known]
      found.append(float(np.mean(each)))
      if progress is not None:
        progress(number + 1, len(played))
    return found

  def _record(self, played: Played, known: int) -> solvers.HandRecord:
    """Returns the record of a game in which that player of the match is the known one."""
    agent = played.players[known]
    assert isinstance(agent, RecordingAgent)
    told: list[int | None] = list(played.infostates)
    told[played.seat if known == 0 else 1 - played.seat] = None
    return self._recorder.record(played.history, (told[0], told[1]), agent.rows)


def make_estimator(game: Game) -> Estimator | None:
  """Returns an estimator, its value function fixed; None where the game is unfit.

  The value function is that of a short solution of the whole game where that is small, else in
  hold'em what shares of the pot say (`solvers.PotShares`), else zero. Games of hidden moves
  have no estimator, nor have those other than hold'em whose tree is too large.
  """
  tree = None
  if not (isinstance(game, Holdem) and game.unlisted):
    with contextlib.suppress(ValueError):
      tree = games.build_public_tree(game, max_bytes=_MOST_BYTES)
  if tree is not None and tree.infostate_parent is not None:
    return None
  if tree is None or tree.num_nodes * tree.num_infostates**2 > _MOST_PAIRS:
    if isinstance(game, Holdem):
      return Estimator(game, solvers.PotShares(game), SHARES)
    return None if tree is None else Estimator(game, solvers.zero_values(tree), ZERO)
  solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
  found = solvers.node_values(tree, solved.average_policy)
  return Estimator(game, solvers.half_the_difference(tree, found), SOLVED)


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
