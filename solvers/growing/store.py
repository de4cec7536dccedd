"""The protocol of a growing search's store: what it needs of the places that hold its nodes."""
# Two follow it: `Marked`, whose places are the nodes of a written-out tree, swept by levels, and
# `InsertedTree`, whose places are made by a game's rules as nodes join, swept by parents.
# Letters: `C` places, `L` of them leaves of its problem, `A` public actions, `M` moves in the
# numbering of the store, `H` infostates, `R` rows of policies and values, `P = 2`.

import dataclasses
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from games.public_tree import Array
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Alternatives, Problem, Sweep


class Moves(NamedTuple):
  """Moves at one node of a mover who holds one infostate: `[M]` of each."""

  open: jax.Array  # whether the rules allow it
  known: jax.Array  # whether it leads to a node of the tree
  action: jax.Array  # the public action
  leads_to: jax.Array  # the infostate that the mover holds afterwards
  row: jax.Array  # in arrays `[R, H]` of policies and values; meaningless unless known
  column: jax.Array  # likewise
  here: jax.Array  # `[]` the node's row in arrays `[L, H]` of the other's mass that a mover meets
  prior: jax.Array  # how likely the network thinks it; uniform without one


class Store(Protocol):
  """Places of one search, in its present state."""

  kind: Any  # `[C]` who moves, `CHANCE`, `TERMINAL` or something larger
  present: Any  # `[C]` which places hold a node of the tree
  legal: Any  # `[C, A]` which public actions the rules allow, in the tree or not
  prior: Any  # `[L, M, H]` how likely the network thinks each move
  movers: Any  # `[L]` as `kind`
  open: Any  # `[L, M, H]` or `[L, M, 1]`, which moves the rules allow
  scale: Any  # the largest payoff
  steps: int  # of a simulation at most
  deals: bool  # whether chance may move
  asks_once: bool  # whether the network is asked when a node joins and never again
  grows: bool  # whether places are made as nodes join; else all are known beforehand

  def problem(self, beliefs: jax.Array, like: Any = None) -> Any:
    """Returns the problem of the present nodes from root beliefs `[P, H]`."""
    # `like` is None or an earlier problem of the search, from the same beliefs.

  def seen(self) -> jax.Array:
    """Returns the public states of the problem's leaves as their movers see them: `[L, F]`."""

  def join(self, node: jax.Array, joins: jax.Array) -> tuple["Store", jax.Array]:
    """Adds children of a node after the actions `joins` `[A]`; returns also their places."""

  def children(self, node: jax.Array) -> jax.Array:
    """Returns the places after each action, -1 where no node of the tree is: `[A]`."""

  def moves(self, node: jax.Array, held: jax.Array) -> Moves:
    """Returns the moves at a node of its mover, who holds infostate `held`."""

  def dealt(self, node: jax.Array, hands: jax.Array) -> jax.Array:
    """Returns how likely chance takes each action to infostates `[P]`: `[A]`, not normalised."""

  def turned(self, node: jax.Array, action: jax.Array, hands: jax.Array) -> jax.Array:
    """Returns the infostates `[P]` after a public action, of those who did not move."""

  def by_move(self, rows: jax.Array) -> jax.Array:
    """Returns the part of an array `[R, H]` that is about moves."""

  def at_places(self, rows: jax.Array) -> jax.Array:
    """Returns rows of the problem's leaves `[P, L, ...]` by place, `[P, C, ...]`, zero at ends."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacesProblem(Problem):
  """A problem of the nodes at the places of a store, which may grow between updates."""

  # Levels are two, the first place's row `[1, H]` and the others' `[C - 1, H]`, so that what is
  # done to each choice is done to all of them at once; a subclass sweeps up and down by depth. A
  # node that has no children, but where somebody moves, is *frontier*: a leaf, whose value comes
  # from outside until a child joins it. Values are asked for all `L` places that may be frontier,
  # the `rows`, and those count that `frontier` marks. Places without a node are padding.
  tree: Any
  nature: tuple[Levels, Levels]
  root_mass: jax.Array
  exists: Any = None
  alternatives: Alternatives | None = None
  beliefs: jax.Array  # `[P, H]` at the root
  frontier: jax.Array  # `[L]` bool

  @property
  def shapes(self) -> list[tuple[int, int]]:
    width = self.num_infostates
    return [(1, width), (self.tree.num_nodes - 1, width)]

  def root_beliefs(self, player: int) -> jax.Array:
    return self.beliefs[player]

  def split(self, nodes: Array) -> Levels:
    nodes = jnp.asarray(nodes)
    return nodes[:1], nodes[1:]

  def moves_at(self, index: int, player: int) -> bool | jax.Array:
    return False if index == 0 else self._moved(player)[1:]

  def until_update(self, current: jax.Array) -> "PlacesProblem":
    """Returns the problem for the last update of a round, from which walks start at `current`."""
    return self

  def advantages(self, sweep: Sweep, index: int, player: int) -> jax.Array | None:
    """Returns the advantage of each move over its parent, zero for moves that do not exist."""
    advantages = super().advantages(sweep, index, player)
    return None if advantages is None else jnp.where(self.exists[index] > 0, advantages, 0.0)

  def _taken(self, policy: Levels, player: int) -> jax.Array:
    """Returns how likely `player` takes the move to each node, 1 if it is another's: `[C, H]`."""
    rows = jnp.where(self._moved(player), join_levels(policy), 1.0)
    return rows * join_levels(self.exists)

  def _moved(self, player: int) -> jax.Array:
    """Says which nodes `player` moved to: `[C, 1]`."""
    kind, parent = jnp.asarray(self.tree.kind), jnp.maximum(self.tree.parent, 0)
    there = jnp.concatenate([jnp.zeros_like(self.exists[0]), self.exists[1]])[:, 0] > 0
    return (there & (kind[parent] == player))[:, None]
