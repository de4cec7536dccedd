"""The problem of a growing search: a row for every place of its store, in one array."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from games.public_tree import Array
from solvers.sweeps.constraints import Alternatives
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Moves, Problem, Sweep


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacesProblem(Problem):
  """A problem of the nodes at the places of a store, which may grow between updates.

  Levels are two, the first place's row `[1, H]` and the others' `[C - 1, H]`, so that what is done
  to each choice is done to all of them at once; a subclass sweeps up and down by depth. A node
  that has no children, but where somebody moves, is *frontier*: a leaf, whose value comes from
  outside until a child joins it. Values are asked for all `L` places that may be frontier, the
  `rows`, and those count that `is_frontier` `[L]` marks. Places without a node are padding.

  Attributes:
    beliefs: `[P, H]` at the root.
  """

  tree: Any
  nature: tuple[Levels, Levels]
  root_mass: jax.Array
  exists: Any = None
  alternatives: Alternatives | None = None
  beliefs: jax.Array

  @property
  def shapes(self) -> list[tuple[int, int]]:
    width = self.num_infostates
    return [(1, width), (self.tree.num_nodes - 1, width)]

  def root_beliefs(self, player: int) -> jax.Array:
    return self.beliefs[player]

  def split(self, nodes: Array) -> Levels:
    nodes = jnp.asarray(nodes)
    return nodes[:1], nodes[1:]

  def moves_at(self, index: int, player: int) -> Moves:
    return False if index == 0 else self._moved(player)[1:]

  def until_update(self, current: jax.Array) -> "PlacesProblem":
    """Returns the problem for the last update of a round, from which walks start at `current`."""
    del current
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
