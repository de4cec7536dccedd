"""An agent that searches each of its decisions anew, in a tree that grows (Player of Games, B.1).

Each search starts from what the agent's own last one of the game left: at the deepest state on the
way that its tree held, with the values that it found there for the opponent as promises. It plays
the average policy of the search. What the opponent holds it need not believe, and the opponent's
searches it never makes.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rebel_jax.agents.dealer import Move
from rebel_jax.agents.growing.own_chain import OwnChain, OwnSearch
from rebel_jax.agents.moves import child_after, moves_at
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.config import ConfigError
from rebel_jax.networks.value_policy import NetworkStates
from rebel_jax.training.growing_setup import make_growing_grounds, make_search, make_state_network
from solvers import GTCFR, validation
from solvers.growing.continual.next_start import Left
from solvers.growing.continual.search_each import How, search_next
from solvers.growing.simulate import child_slots


class ResolvingSearcher:
  """Searches decisions with a trained network, several at a time; agents share one.

  Attributes:
    game, tree: the rules, and their whole public tree.
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
      policy: from `rebel_jax.load`, of a run whose searches grow trees.
      simulations: of each search; None for the run's `eval_simulations`.
      per_update: simulations for each update of both players; None for `eval_per_update`.
      num_games: how many decisions one compiled call has room for.

    Raises:
      ConfigError: the network's searches do not grow trees, settings do not go together, or the
        game's tree is too large to be written out.
      ValueError: a number is not allowed.
    """
    if not policy.config.grows:
      raise ConfigError(
        f"the searches of preset={policy.config.preset!r} do not grow trees; take Searcher"
      )
    self._room = validation.check_integer("num_games", num_games)
    given = {"eval_simulations": simulations, "eval_per_update": per_update}
    config = policy.config.replace(**{k: v for k, v in given.items() if v is not None})
    self.settings: GTCFR = make_search(config, evaluation=True)
    self.game = config.make_game()
    whole = make_growing_grounds(self.game)
    if num_games == 1:  # small trees for small parts compile anew, and spare one game little
      whole = whole._replace(parts=None)
    self.tree = whole.tree
    self.slots = child_slots(self.tree.structure)  # [N, A] children, filled up with -1
    self.nothing = Left.nothing(self.tree)  # what there is before the first search
    self._params = policy.params
    self._grounds = jax.tree.map(jnp.asarray, whole)
    network = NetworkStates(make_state_network(config, self.game))
    self._how = How(self.settings.of_any_length(), network=network)

  def agent(self, *, seed: int = 0) -> "ResolvingAgent":
    """Returns an agent that searches so."""
    return ResolvingAgent(self, seed=seed)

  def search(
    self, nodes: Sequence[int], left: Sequence[Left], keys: Sequence[jax.Array]
  ) -> list[OwnSearch]:
    """Searches decisions, each from what the last search of the same player and game left.

    Args:
      nodes: `M` decisions, numbered as in the whole tree.
      left: `M` times what was left; `Left.nothing` for the first search of a game.
      keys: `M` random keys.
    """
    found: list[OwnSearch] = []
    for first in range(0, len(nodes), self._room):
      part = slice(first, first + self._room)
      found += self._search(list(nodes[part]), list(left[part]), list(keys[part]))
    return found

  def _search(self, nodes: list[int], left: list[Left], keys: list[jax.Array]) -> list[OwnSearch]:
    size, room = len(nodes), self._room
    index = [*range(size), *[0] * (room - size)]
    rows = np.array(nodes)[index]
    found = search_next(
      self._grounds,
      jax.tree.map(lambda *x: np.stack(x), *[left[i] for i in index]),
      rows,
      np.asarray(self.tree.kind)[rows].astype(np.int32),
      jnp.stack([keys[i] for i in index]),
      np.arange(room) < size,
      how=self._how,
      rounds=self.settings.rounds,
      params=self._params,
      prior=None,
    )
    policy, after = jax.tree.map(np.asarray, (found.policy, found.left))
    return [
      OwnSearch(
        policy[i].copy(),
        after.values[i][:, node].copy(),
        jax.tree.map(lambda x, i=i: x[i].copy(), after),
      )
      for i, node in enumerate(nodes)
    ]

  def search_for(self, agents: Sequence["ResolvingAgent"]) -> None:
    """Lets agents that must search do so, side by side."""
    found = self.search(
      [agent._node for agent in agents],
      [agent._left for agent in agents],
      [jax.random.fold_in(agent._key, agent._node) for agent in agents],
    )
    for agent, search in zip(agents, found):
      agent._search = search


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
