"""What local best response plays against: an agent that can be asked for its average policy."""

import abc

import numpy as np

from games.public_tree import Array, PublicTree
from solvers.metrics.expected_values import check_whole


class Strategy(abc.ABC):
  """What LBR plays against: an agent, and its average policy at every public state.

  A subclass says what `rows` are, and where the agent plays otherwise than by drawing from them (by
  one random iteration, say), how it moves: `act`.
  """

  @abc.abstractmethod
  def start(self) -> None:
    """Begins a new hand."""

  @abc.abstractmethod
  def observe(self, action: int) -> None:
    """Takes note of a public action, of whoever's move it was, chance's too."""

  @abc.abstractmethod
  def rows(self, ahead: tuple[int, ...] = ()) -> Array:
    """Returns the average policy of whoever acts after further public actions `ahead`.

    Args:
      ahead: none for the present public state; LBR asks one bet ahead how often it is folded to.

    Returns:
      `[A, H]` probability of each action given each hand, zero for those that are not legal.
    """

  def act(self, infostate: int, rng: np.random.Generator) -> int:
    """Returns the agent's move here, drawn from `rows` unless a subclass does otherwise."""
    row = np.asarray(self.rows(), float)[:, infostate]
    return int(rng.choice(len(row), p=row / row.sum()))


class TreeStrategy(Strategy):
  """A policy of the whole game as what LBR plays against.

  Args:
    tree: the whole public tree of the game.
    policy: `[N, H]` on it, as `solvers.solve` returns it.

  Raises:
    ValueError: the tree is depth-limited or stacked, or `policy` has the wrong shape or is no
      policy.
  """

  def __init__(self, tree: PublicTree, policy: Array):
    check_whole(tree, policy, None)
    self.tree = tree
    self._policy = np.asarray(policy, float)
    self._children = children_of(tree)
    self._num_actions = int(np.asarray(tree.action).max()) + 1
    self._node = 0

  def start(self) -> None:
    """See `Strategy`."""
    self._node = 0

  def observe(self, action: int) -> None:
    """See `Strategy`."""
    self._node = self._children[self._node][int(action)]

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    """See `Strategy`."""
    node = self._node
    for action in ahead:
      node = self._children[node][int(action)]
    found = np.zeros((self._num_actions, self._policy.shape[1]))
    for action, child in self._children[node].items():
      found[action] = self._policy[child]
    return found


def children_of(tree: PublicTree) -> list[dict[int, int]]:
  """Returns the child that each action leads to, for every node."""
  found: list[dict[int, int]] = [{} for _ in range(tree.num_nodes)]
  parents, actions = np.asarray(tree.parent).tolist(), np.asarray(tree.action).tolist()
  for node, (parent, action) in enumerate(zip(parents, actions)):
    if parent >= 0:
      found[parent][action] = node
  return found
