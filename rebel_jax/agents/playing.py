"""An agent that plays: it holds a public belief state, searches, and acts (ReBeL, section 6).

Where its subgame ends, the agent searches the next one from the beliefs that the last search's
policy led to, and keeps to the policy of one random iteration for both players (Theorem 3): what
makes search safe is that nobody knows which. An opponent's action that this policy never takes
leaves no belief; all infostates that the rules allow are then equally likely.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from games import PADDING, Game, PublicTree
from rebel_jax.agents.dealer import Move, check_seat, check_turn, child_after, draw_move, moves_at
from solvers.search.batch import node_beliefs, search_batch
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem
from solvers.xla.compiler_options import Programs


@dataclasses.dataclass(frozen=True)
class Search:
  """One search of a subgame.

  Attributes:
    tree: the subgame in its common shape, arrays of numpy.
    successor: `[L, ...]` the root that each leaf is.
    policy: `[n, H]` of a random iteration, both players'.
    beliefs: `[n, P, H]` at every node under that policy.
    leaf_beliefs: `[L, P, H]` from which searches go on: under that policy, or under the average
      until its iteration if the algorithm says so (CFR-AVG; ReBeL, appendix I).
    root_values: `[P, H]`.
  """

  tree: PublicTree
  successor: np.ndarray
  policy: np.ndarray
  beliefs: np.ndarray
  leaf_beliefs: np.ndarray
  root_values: np.ndarray


def search_and_describe(
  trees, features, beliefs, stop, active, num_iterations, params, algorithm, leaf_values, network,
  num_rows, average=False,
):  # fmt: skip
  """Searches `[B]` trees; returns policies, beliefs at nodes and at leaves, and root values.

  With `average` these are of the average policy instead of the sampled iteration's.
  """
  initial = None if network is None else network.start(trees, features, beliefs, params)
  result = search_batch(
    trees, beliefs, stop, num_iterations, algorithm=algorithm, leaf_values=leaf_values,
    params=params, num_rows=num_rows, active=active, initial_policy=initial,
  )  # fmt: skip

  policy = result.average_policy if average else result.policy
  found, at_nodes = jax.vmap(describe)(trees, beliefs, policy)
  below = result.leaf_beliefs
  if average:
    below = jax.vmap(lambda nodes, leaves: nodes[leaves])(at_nodes, trees.leaf_nodes)
  return found, at_nodes, below, result.root_values


def describe(tree: PublicTree, beliefs: Any, policy: Any) -> tuple[jax.Array, jax.Array]:
  """Returns a policy `[n, H]` and the beliefs that it leads to at every node, `[n, P, H]`."""
  return join_levels(policy), node_beliefs(make_problem(tree, beliefs), policy)


searches = Programs(
  search_and_describe,
  static_argnames=("algorithm", "leaf_values", "network", "num_rows", "average"),
)


class Searches(Protocol):
  """What agents search with.

  Attributes:
    game: the rules.
    first_root: at which games start.
  """

  game: Game
  first_root: Any

  def search(self, roots: Sequence[Any], beliefs: np.ndarray) -> list[Search]:
    """Searches the subgames at `roots` `[M]` from `beliefs` `[M, P, H]`."""
    ...

  def only_deals(self, root: Any) -> bool:
    """Says whether chance alone moves at `root`, and `deal` follows it without a search."""
    ...

  def deal(self, root: Any, beliefs: np.ndarray, action: int) -> tuple[Any, np.ndarray]:
    """Returns the root after chance's `action`, and the beliefs `[P, H]` there."""
    ...


class Agent:
  """Plays one game at a time from one seat.

  `start`, then for every public action, its own and chance's among them, `observe`; `act` when
  it is its turn. Games side by side share a `Searcher`; `prepare` then searches for all at once.

  Attributes:
    player: the seat, 0 or 1.
    infostate: what the agent holds.
  """

  def __init__(self, searcher: Searches, *, seed: int = 0):
    self.searcher = searcher
    self.player = self.infostate = 0
    self._rng = np.random.default_rng(seed)
    self._prior = np.asarray(searcher.game.prior())
    self._root: Any = searcher.first_root
    self._root_beliefs: np.ndarray = self._prior
    self._search: Search | None = None
    self._node = 0
    self._kept: tuple[np.ndarray, int] | None = None  # of moves before the last search, until where

  def start(self, player: int, infostate: int) -> None:
    """Begins a new game in seat `player`, holding `infostate`.

    Raises:
      ValueError: there is no such seat or infostate.
    """
    check_seat(self._prior, player, infostate)
    self.player, self.infostate = player, infostate
    self._root, self._root_beliefs = self.searcher.first_root, self._prior
    self._search, self._node, self._kept = None, 0, None

  @property
  def pending(self) -> bool:
    """Whether the agent must search before it can act or observe."""
    return self._search is None and not self.searcher.only_deals(self._root)

  @property
  def beliefs(self) -> np.ndarray:
    """The PBS's beliefs, `[P, H]`: what an observer who knows both policies thinks."""
    if self.searcher.only_deals(self._root):
      return self._root_beliefs
    return self._as_played(self._found().beliefs[self._node])

  def node(self) -> tuple[Search, int]:
    """Returns the search that the agent is in, made now if need be, and the node of its tree."""
    return self._found(), self._node

  def choices(self) -> dict[Move, float]:
    """Returns the agent's moves here and their probabilities."""
    search = self._found()
    moves = moves_at(search.tree, self._node, self.player, self.infostate)
    return {move: float(search.policy[child, move.infostate]) for move, child in moves}

  def act(self) -> Move:
    """Returns the agent's move, sampled; tell it to `observe`, as any other.

    Raises:
      ValueError: it is not the agent's turn.
    """
    check_turn(self.player, int(self._found().tree.kind[self._node]))
    return draw_move(self.choices(), self._rng)

  def observe(self, action: int, infostate: int | None = None) -> None:
    """Takes note of a public action, of whoever's move it was.

    Args:
      action: the public action.
      infostate: what the agent holds afterwards; None where that has not changed.

    Raises:
      ValueError: the action is not legal.
    """
    if self.searcher.only_deals(self._root):
      self._root, self._root_beliefs = self.searcher.deal(self._root, self._root_beliefs, action)
      return
    search = self._found()
    self._node = child_after(search.tree, self._node, action)
    if infostate is not None:
      self.infostate = int(infostate)
    nodes = search.tree.leaf_nodes
    leaf = np.flatnonzero((nodes == self._node) & (search.tree.leaf_actor != PADDING))
    if leaf.size:
      self._root = search.successor[leaf[0]]
      self._root_beliefs = self._as_played(np.asarray(search.leaf_beliefs[leaf[0]]))
      self._search, self._node, self._kept = None, 0, None

  def search_again(self, change: Callable[[Any], Any]) -> None:
    """Searches the subgame anew after a change to the state of its root.

    The same moves lead to where play is. Those that the agent made keep the probabilities that they
    were made with.

    Args:
      change: returns the new root, in which the moves made so far are legal too.
    """
    self._root = change(self._root)
    if self._search is None:
      return
    path, played = self._search.tree.history(self._node), self._played()
    self._search, self._node = None, 0
    for action in path:
      self._node = child_after(self._found().tree, self._node, action)
    self._kept = played, self._node

  def _played(self) -> np.ndarray:
    """Returns how likely the agent's moves since the root were, by infostate: `[H]`."""
    search, node = self._found(), self._node
    played, first = self._kept or (np.ones(search.policy.shape[1]), 0)
    while node != first:
      parent = int(search.tree.parent[node])
      if search.tree.kind[parent] == self.player:
        played = played * search.policy[node]
      node = parent
    return played

  def _as_played(self, beliefs: np.ndarray) -> np.ndarray:
    """Returns beliefs `[P, H]` where play is, its own by what it played, not by a later search."""
    if self._kept is None:
      return beliefs
    own = self._root_beliefs[self.player] * self._played()
    if own.sum() <= 0:
      return beliefs
    changed = np.array(beliefs)
    changed[self.player] = own / own.sum()
    return changed

  def _found(self) -> Search:
    if self._search is None:
      search_for([self])
    assert self._search is not None
    return self._search


def search_for(agents: Sequence[Agent]) -> None:
  """Lets agents of one searcher that must search do so, side by side."""
  beliefs = np.stack([agent._root_beliefs for agent in agents])
  found = agents[0].searcher.search([agent._root for agent in agents], beliefs)
  for agent, search in zip(agents, found):
    agent._search = search
