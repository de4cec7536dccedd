"""An agent that keeps its policy of every decision, and AIVAT estimates of the games it played."""

import abc
import contextlib
from collections.abc import Callable, Sequence

import numpy as np

import games
import solvers
from games import Game, PublicTree
from games.poker import Holdem
from rebel_jax.agents.agent import Agent
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.match import Played
from rebel_jax.agents.moves import child_after

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


class Estimator(abc.ABC):
  """What turns games that `RecordingAgent`s played into AIVAT estimates.

  Attributes:
    values: what the value function is, in words.
  """

  values: str

  @abc.abstractmethod
  def prepare(self, progress: Progress | None = None) -> None:
    """Computes what all games share; `progress` is called with how much is done, and in all."""

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

  @abc.abstractmethod
  def _record(self, played: Played, known: int) -> solvers.HandRecord:
    """Returns the record of a game in which that player of the match is the known one."""


class TreeEstimator(Estimator):
  """Estimates on the whole tree of a game."""

  def __init__(self, game: Game, tree: PublicTree, values: solvers.ValueFunction, name: str):
    self._tree, self.values = tree, name
    self._recorder = solvers.HandRecorder(game, tree, values)

  def prepare(self, progress: Progress | None = None) -> None:
    """See `Estimator`; nothing is left to compute."""

  def _record(self, played: Played, known: int) -> solvers.HandRecord:
    kept, node, rows = _rows_of(played, known), 0, {}
    for place, action in enumerate(played.history):
      before = played.history[:place]
      for child in np.flatnonzero(np.asarray(self._tree.parent) == node).tolist():
        row = kept.get((*before, int(self._tree.action[child])))
        if row is not None:
          rows[child] = row
      node = child_after(self._tree, node, action)
    return self._recorder.record(node, _told(played, known), rows)


class HoldemEstimator(Estimator):
  """Estimates of hold'em, whatever its size."""

  values = SHARES

  def __init__(self, game: Holdem):
    self._recorder = solvers.HoldemRecorder(game)

  def prepare(self, progress: Progress | None = None) -> None:
    """See `Estimator`."""
    self._recorder.prepare(progress)

  def _record(self, played: Played, known: int) -> solvers.HandRecord:
    return self._recorder.record(played.history, _told(played, known), _rows_of(played, known))


def _rows_of(played: Played, known: int) -> dict[tuple[int, ...], np.ndarray]:
  agent = played.players[known]
  assert isinstance(agent, RecordingAgent)
  return agent.rows


def _told(played: Played, known: int) -> tuple[int | None, int | None]:
  """Returns what the other held, by seat."""
  seat = played.seat if known == 0 else 1 - played.seat
  first, second = played.infostates
  return (None, second) if seat == 0 else (first, None)


def make_estimator(game: Game) -> Estimator | None:
  """Returns an estimator, its value function fixed; None where the game is unfit.

  The value function is that of a short solution of the whole game where that is small, else in
  hold'em what shares of the pot say (`solvers.HoldemRecorder`), else zero. Games of hidden moves
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
      return HoldemEstimator(game)
    return None if tree is None else TreeEstimator(game, tree, solvers.zero_values(tree), ZERO)
  solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
  found = solvers.node_values(game, tree, solved.average_policy)
  return TreeEstimator(game, tree, solvers.half_the_difference(found), SOLVED)
