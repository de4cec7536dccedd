"""An agent that keeps its policy of every decision, and AIVAT estimates of the games it played."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import games
import solvers
from games import Game, PublicTree
from rebel_jax.agents.agent import Agent
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.match import Played
from rebel_jax.agents.moves import child_after

_MOST_PAIRS = 2**24  # entries of a table of pairs at every node
_MOST_BYTES = 2**29
ITERATIONS = 64
ZERO = "zero"
SOLVED = f"half the difference of both players' values after {ITERATIONS} iterations of linear CFR"


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


class Estimator(NamedTuple):
  """What turns games that a `RecordingAgent` played into AIVAT estimates.

  Attributes:
    tree: the whole tree.
    recorder: of hands.
    values: what the value function is, in words.
  """

  tree: PublicTree
  recorder: solvers.HandRecorder
  values: str

  def estimates(self, played: Sequence[Played]) -> list[float]:
    """Returns what the first player won in each game, by `solvers.aivat`."""
    return [self._estimate(game) for game in played]

  def _estimate(self, played: Played) -> float:
    agent, node, rows = played.player, 0, {}
    assert isinstance(agent, RecordingAgent)
    for place, action in enumerate(played.history):
      before = played.history[:place]
      for child in np.flatnonzero(np.asarray(self.tree.parent) == node).tolist():
        row = agent.rows.get((*before, int(self.tree.action[child])))
        if row is not None:
          rows[child] = row
      node = child_after(self.tree, node, action)
    told: list[int | None] = list(played.infostates)
    told[played.seat] = None
    return solvers.aivat(self.recorder.record(node, (told[0], told[1]), rows))


def make_estimator(game: Game) -> Estimator | None:
  """Returns an estimator, its value function fixed; None where the game is too large or unfit.

  The value function is that of a short solution of the whole game, or zero if its tables would be
  too large. Games of hidden moves have no estimator.
  """
  try:
    tree = games.build_public_tree(game, max_bytes=_MOST_BYTES)
  except ValueError:
    return None
  if tree.infostate_parent is not None:
    return None
  small = tree.num_nodes * tree.num_infostates**2 <= _MOST_PAIRS
  if not small:
    return Estimator(tree, solvers.HandRecorder(game, tree, solvers.zero_values(tree)), ZERO)
  solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
  found = solvers.node_values(game, tree, solved.average_policy)
  values = solvers.half_the_difference(found)
  return Estimator(tree, solvers.HandRecorder(game, tree, values), SOLVED)
