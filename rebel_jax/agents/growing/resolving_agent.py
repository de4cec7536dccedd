"""An agent that searches each of its decisions anew, in a tree that grows (Player of Games, B.1).

Each search starts from what the agent's own last one of the game left: at the deepest state on the
way that its tree held, with the values that it found there for the opponent as promises. It plays
the average policy of the search. What the opponent holds it need not believe, and the opponent's
searches it never makes.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games import Game
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.growing.own_chain import OwnChain, OwnSearch, OwnSearcher
from rebel_jax.agents.moves import child_after, moves_at
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import Config, ConfigError
from rebel_jax.training.growing_setup import make_growing_grounds
from solvers.growing.continual.next_start import Left
from solvers.growing.continual.search_each import How, search_next
from solvers.growing.simulate import child_slots


class ResolvingSearcher(OwnSearcher):
  """An `OwnSearcher` in a tree that is made beforehand; `game` is the rules.

  Attributes:
    tree: the game's whole public tree.
    slots: `[N, A]` children, filled up with -1.
    nothing: what there is before the first search of a game.
  """

  game: Game

  def __init__(self, policy: Policy, **settings: Any):
    """Prepares the searches; `settings` as for `OwnSearcher`.

    Raises:
      ConfigError: also where the game's tree is too large to be written out.
    """
    if not policy.config.grows:
      raise ConfigError(
        f"the searches of preset={policy.config.preset!r} do not grow trees; take Searcher"
      )
    super().__init__(policy, **settings)
    self.game = self._rules
    whole = make_growing_grounds(self.game)
    if self._room == 1:  # small trees for small parts compile anew, and spare one game little
      whole = whole._replace(parts=None)
    self.tree = whole.tree
    self.slots = child_slots(self.tree.structure)
    self.nothing = Left.nothing(self.tree)
    self._grounds = jax.tree.map(jnp.asarray, whole)
    self._how = How(self.settings.of_any_length(), network=self._network)

  def _make_rules(self, config: Config) -> Game:
    return config.make_game()

  def agent(self, *, seed: int = 0) -> "ResolvingAgent":
    """See `OwnSearcher`."""
    return ResolvingAgent(self, seed=seed)

  def _search(self, agents: Sequence["ResolvingAgent"]) -> list[OwnSearch]:
    size = len(agents)
    filled = [*agents, *[agents[0]] * (self._room - size)]
    nodes = np.array([x._node for x in filled])
    found = search_next(
      self._grounds,
      jax.tree.map(lambda *x: np.stack(x), *[x._left for x in filled]),
      nodes,
      np.asarray(self.tree.kind)[nodes].astype(np.int32),
      jnp.stack([jax.random.fold_in(x._key, x._node) for x in filled]),
      np.arange(self._room) < size,
      how=self._how,
      rounds=self.settings.rounds,
      params=self._params,
    )
    policy, after = jax.tree.map(np.asarray, (found.policy, found.left))
    return [
      OwnSearch(
        policy[i].copy(),
        after.values[i][:, node].copy(),
        jax.tree.map(lambda x, i=i: x[i].copy(), after),
      )
      for i, node in enumerate(nodes[:size])
    ]


class ResolvingAgent(OwnChain):
  """An `OwnChain` in a game whose whole tree is there; `policy` is in the order of children."""

  searcher: ResolvingSearcher

  def _begin(self) -> None:
    self._left, self._node = self.searcher.nothing, 0

  @property
  def _mover(self) -> int:
    return int(self.searcher.tree.kind[self._node])

  def _choices(self, policy: np.ndarray) -> dict[Move, float]:
    rows = dict(zip(self.searcher.slots[self._node].tolist(), policy))
    moves = moves_at(self.searcher.tree, self._node, self.player, self.infostate)
    return {move: float(rows[child][move.infostate]) for move, child in moves}

  def _check(self, action: int) -> None:
    child_after(self.searcher.tree, self._node, action)

  def _keep(self, search: OwnSearch) -> None:
    self._left = search.left

  def _follow(self, action: int) -> None:
    self._node = child_after(self.searcher.tree, self._node, action)
