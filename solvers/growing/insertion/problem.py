"""The problem of an inserted tree: sweeps by depth over nodes of any order (store B)."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from games import TERMINAL
from solvers.growing.places import PlacesProblem
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Sweep

_FEW_ACTIONS = 8  # whose children are gathered; more are scattered


@dataclasses.dataclass(frozen=True, kw_only=True)
class InsertedProblem(PlacesProblem):
  """The problem of a tree's nodes in the order of their places, whose leaves are all `C` of them.

  Attributes:
    tree: an `InsertedTree`.
    interior: `[C]` which nodes have children.
    deepest: the depth of the tree.
  """

  interior: jax.Array
  deepest: jax.Array

  @property
  def rows(self) -> jax.Array:
    return jnp.arange(self.tree.num_nodes)

  def is_frontier(self) -> jax.Array:
    return self._inserted.frontier

  def leaf_rows(self, levels: Levels) -> jax.Array:
    return join_levels(levels)

  def leaf_features(self, player: int) -> jax.Array:
    """Returns the public states as their movers see them: `[L, F]`."""
    del player
    return self._inserted.features

  def leaf_possible(self) -> jax.Array | None:
    return self._inserted.possible

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    if index > 1:
      return None  # hidden moves say themselves where they are
    rows = self._inserted.possible[:, player]
    return (rows[1:] if index else rows[:1]).astype(self.dtype)

  def compatible_mass(self, reach: jax.Array, player: int, row: Any = slice(None)) -> jax.Array:
    states = jnp.atleast_2d(self._inserted.state[row])
    return self._inserted.game.compatible_mass(states, reach, player)

  def _ended_values(self, opponent_reach: Levels, player: int) -> jax.Array:
    """Returns `player`'s counterfactual values where the game is over, elsewhere anything."""
    tree, full = self._inserted, join_levels(self.full_reach(opponent_reach, 1 - player))
    if tree.num_infostates == 1:
      return tree.values[:, player, None] * full
    return tree.game.terminal_values(tree.state, full, player)

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    tree = self._inserted
    start = jnp.ones(self.num_infostates, policy[0].dtype) if root is None else root
    taken = self._taken(policy, player)

    def lower(depth, reach):
      return jnp.where((tree.depth == depth)[:, None], reach[tree.parent] * taken, reach)

    reach = jnp.zeros_like(taken).at[0].set(start)
    return self.split(lax.fori_loop(1, self.deepest + 1, lower, reach))

  def values_up(
    self,
    policy: Levels | None,
    opponent_reach: Levels,
    leaf_values: jax.Array | None,
    player: int,
  ) -> Sweep:
    assert policy is not None
    assert leaf_values is not None
    tree = self._inserted
    ends = self._ended_values(opponent_reach, player)
    possible = tree.possible[:, player].astype(leaf_values.dtype)
    taken = self._taken(policy, player) * possible
    values = jnp.where(tree.frontier[:, None], leaf_values, 0.0)
    values = jnp.where((tree.kind == TERMINAL)[:, None], ends, values)

    def rise(i, values):
      depth = self.deepest - i
      below = jnp.where((tree.depth == depth)[:, None], taken * values, 0.0)
      above = (tree.depth == depth - 1) & self.interior
      return jnp.where(above[:, None], self._sum_children(below), values)

    values = lax.fori_loop(0, self.deepest, rise, values) * possible
    return Sweep(self.split(values), values[0], (None, values[tree.parent[1:]]))

  def from_parents(self, index: int, player: int, above: jax.Array) -> jax.Array:
    """Returns the parents' rows `[C, H]` for all nodes but the root: `[C - 1, H]`."""
    del index, player
    return above[self._inserted.parent[1:]]

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    del index, player
    assert self.exists is not None
    if maximum:
      rows = jnp.where(self.exists[1] > 0, rows, -jnp.inf)
      most = jnp.full((self.tree.num_nodes, rows.shape[1]), -jnp.inf, rows.dtype)
      return most.at[self._inserted.parent[1:]].max(rows)
    rows = jnp.where(self.exists[1] > 0, rows, 0.0)
    return self._sum_children(jnp.concatenate([jnp.zeros_like(rows[:1]), rows]))

  @property
  def _inserted(self) -> Any:
    return self.tree

  def _sum_children(self, rows: jax.Array) -> jax.Array:
    """Sums `rows` `[C, H]`, zero where no node is, over each node's children."""
    tree = self._inserted
    if tree.child.shape[1] > _FEW_ACTIONS:
      return jnp.zeros_like(rows).at[tree.parent].add(rows)
    # A gather is the same on every device, digit by digit.
    padded = jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
    slots = jnp.where(tree.child >= 0, tree.child, len(rows))
    total = padded[slots[:, 0]]
    for action in range(1, slots.shape[1]):
      total = total + padded[slots[:, action]]
    return total


def inserted_problem(tree: Any, beliefs: jax.Array) -> InsertedProblem:
  """Returns the problem of an `InsertedTree` from root `beliefs` `[P, H]`."""
  game = tree.game
  exists = tree.present[:, None].astype(beliefs.dtype)
  nature = [
    jnp.where(tree.possible[:, p], beliefs[p][None] * tree.chance[:, None], 0.0) for p in (0, 1)
  ]
  mass = [game.compatible_mass(tree.state[:1], beliefs[1 - p][None], p)[0] for p in (0, 1)]
  rows = tuple((x[:1], x[1:]) for x in nature)
  return InsertedProblem(
    tree=tree,
    nature=(rows[0], rows[1]),
    root_mass=jnp.stack(mass),
    exists=(exists[:1], exists[1:]),
    beliefs=beliefs,
    interior=tree.interior,
    deepest=tree.depth.max(),
  )
