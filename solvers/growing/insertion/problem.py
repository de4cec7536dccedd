"""The problem of an inserted tree: sweeps by depth over nodes of any order."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE, TERMINAL
from solvers.growing.store import PlacesProblem
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Moves, Sweep

_FEW_ACTIONS = 8  # whose children are gathered; more are scattered


@dataclasses.dataclass(frozen=True, kw_only=True)
class InsertedProblem(PlacesProblem):
  """The problem of a tree's nodes in the order of their places, all `C` of them its leaves."""

  interior: jax.Array  # `[C]` which nodes have children
  deepest: jax.Array  # the depth of the tree

  @property
  def rows(self) -> jax.Array:
    return jnp.arange(self.tree.num_nodes)

  def leaf_rows(self, levels: Levels) -> jax.Array:
    return join_levels(levels)

  def leaf_features(self, player: int) -> jax.Array:
    return self.tree.features

  def leaf_possible(self) -> jax.Array | None:
    return self.tree.possible

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    if index > 1:
      return None  # hidden moves say themselves where they are
    rows = self.tree.possible[:, player]
    return (rows[1:] if index else rows[:1]).astype(self.dtype)

  def compatible_mass(self, reach: jax.Array, player: int, row: Any = slice(None)) -> jax.Array:
    states = jnp.atleast_2d(self.tree.state[row])
    return self.tree.game.compatible_mass(states, reach, player)

  def _ended_values(self, opponent_reach: Levels, player: int) -> jax.Array:
    """Returns `player`'s counterfactual values where the game is over, elsewhere anything."""
    tree, full = self.tree, join_levels(self.full_reach(opponent_reach, 1 - player))
    if tree.num_infostates == 1:
      return tree.values[:, player, None] * full
    return tree.game.terminal_values(tree.state, full, player)

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    tree = self.tree
    start = jnp.ones(self.num_infostates, policy[0].dtype) if root is None else root
    taken = self._taken(policy, player)

    def lower(depth, reach):
      return jnp.where((tree.depth == depth)[:, None], reach[tree.parent] * taken, reach)

    reach = jnp.zeros_like(taken).at[0].set(start)
    return self.split(lax.fori_loop(1, self.deepest + 1, lower, reach))

  def values_up(
    self,
    policy: Any,
    opponent_reach: Levels,
    leaf_values: Any,
    player: int,
  ) -> Sweep:
    tree = self.tree
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
    return above[self.tree.parent[1:]]

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    if maximum:
      rows = jnp.where(self.exists[1] > 0, rows, -jnp.inf)
      most = jnp.full((self.tree.num_nodes, rows.shape[1]), -jnp.inf, rows.dtype)
      return most.at[self.tree.parent[1:]].max(rows)
    rows = jnp.where(self.exists[1] > 0, rows, 0.0)
    return self._sum_children(jnp.concatenate([jnp.zeros_like(rows[:1]), rows]))

  def _sum_children(self, rows: jax.Array) -> jax.Array:
    """Sums `rows` `[C, H]`, zero where no node is, over each node's children."""
    tree = self.tree
    if tree.child.shape[1] > _FEW_ACTIONS:
      return jnp.zeros_like(rows).at[tree.parent].add(rows)
    # A gather is the same on every device, digit by digit.
    padded = jnp.concatenate([rows, jnp.zeros_like(rows[:1])])
    slots = jnp.where(tree.child >= 0, tree.child, len(rows))
    total = padded[slots[:, 0]]
    for action in range(1, slots.shape[1]):
      total = total + padded[slots[:, action]]
    return total


# Nodes of one depth that a sweep takes together, and those of trees of little room: most of a block
# that is wider than a depth is empty.
_BLOCK, _FEW = 32, 8
_LITTLE = 512
# Added to every infostate's belief at the root: an average policy must be defined at infostates of
# belief zero, and where these merge with others their share is below float64's precision.
_LEAST = 1e-20


class _Block(NamedTuple):
  """Nodes of one depth, `[W]` of each, as the player sees them whose sweep it is."""

  nodes: jax.Array  # their places; the capacity where there is none
  above: jax.Array  # their parents
  seen: jax.Array  # whether somebody else moved to them, so that infostates stayed as they were
  moves: jax.Array  # whether the player moves there


@dataclasses.dataclass(frozen=True, kw_only=True)
class HiddenProblem(InsertedProblem):
  """As `InsertedProblem`, for games with hidden moves: infostates change, and may merge."""

  # Levels are three: the root's row `[1, H]`, the other nodes' `[C - 1, H]`, and the moves',
  # `[C * M, H]`, in the infostates from which they are made. So all moves of an infostate are
  # siblings, whatever is seen of them. Nobody moves to the second level.
  # An own reach includes the root's beliefs: where infostates meet, policies are averaged by how
  # likely each of them was. Infostates of an inner node of whose moves none is in the tree are
  # worth what the network says, and lead nowhere.
  # A player who never holds more than the first K infostates has no more of them in its sweeps.
  after: jax.Array  # `[C, M, H]` row times `H` plus infostate after a move, `C * H` for none
  going: tuple[jax.Array, jax.Array]  # for each player `[C, M, K]` the same with `K` for `H`
  order: jax.Array  # `[C]` places by depth, free ones last
  until: jax.Array | None = None  # None, or the depth `[]` below which reach is of the root alone

  @property
  def shapes(self) -> list[tuple[int, int]]:
    width = self.num_infostates
    return [*super().shapes, (self.after.size // width, width)]

  def moves_at(self, index: int, player: int) -> Moves:
    if index < 2:
      return False
    return jnp.repeat(self.tree.kind == player, self.after.shape[1])[:, None]

  def until_update(self, current: jax.Array) -> "HiddenProblem":
    return dataclasses.replace(self, until=self.tree.depth[current])

  def leaf_rows(self, levels: Levels) -> jax.Array:
    return join_levels(levels[:2])

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    tree, after = self.tree, self.going[player]
    taken = policy[2].reshape(self.after.shape)
    size = after.shape[2]
    width = tree.capacity * size
    possible = tree.possible[0, player].astype(taken.dtype)
    start = self.beliefs[player] + _LEAST * possible
    start = (start if root is None else start * root)[:size]
    few = taken[:, :, :size]

    def lower(block: _Block, reach):
      rows = reach.reshape(-1, size)
      own = jnp.where(block.seen[:, None], rows[block.above], rows[block.nodes])
      reach = rows.at[block.nodes].set(own, mode="drop").reshape(-1)
      going = own[:, None] * few[block.nodes]
      to = jnp.where(block.moves[:, None, None], after[block.nodes], width)
      return reach.at[to].add(going, mode="drop")

    reach = jnp.zeros(width, taken.dtype).at[:size].set(start)
    until = None if root is None else self.until
    reach = self._over_blocks(player, lower, reach, until=until).reshape(-1, size)
    reach = self._widened(reach)
    return *self.split(reach), (reach[:, None] * taken).reshape(policy[2].shape)

  def values_up(
    self,
    policy: Any,
    opponent_reach: Levels,
    leaf_values: Any,
    player: int,
  ) -> Sweep:
    tree, after = self.tree, self.going[player]
    size = after.shape[2]
    ends = self._ended_values(opponent_reach, player)
    possible = tree.possible[:, player, :size].astype(leaf_values.dtype)
    nowhere = tree.capacity * size
    taken = None if policy is None else policy[2].reshape(self.after.shape)[:, :, :size]

    def below(nodes, values):
      to = after[nodes]
      there = to < nowhere
      return jnp.where(there, values.reshape(-1)[jnp.minimum(to, nowhere - 1)], 0.0), there

    def rise(block: _Block, values):
      moves, there = below(block.nodes, values)
      if taken is None:
        best = jnp.where(there, moves, -jnp.inf).max(axis=1)
      else:
        best = (taken[block.nodes] * moves).sum(axis=1)
      inner = block.moves[:, None] & there.any(axis=1)
      found = jnp.where(inner, best, values[block.nodes]) * possible[block.nodes]
      values = values.at[block.nodes].set(found, mode="drop")
      above = jnp.where(block.seen, block.above, tree.capacity)
      return values.at[above].add(found, mode="drop")

    asked = (tree.kind <= CHANCE) & (~self.interior | (tree.kind == player))
    values = jnp.where(asked[:, None], leaf_values[:, :size], 0.0)
    values = jnp.where((tree.kind == TERMINAL)[:, None], ends[:, :size], values)
    values = self._over_blocks(player, rise, values, up=True)
    moves, _ = below(jnp.arange(tree.capacity), values)
    moves = self._widened(moves.reshape(-1, size))
    values = self._widened(values)
    parents = jnp.repeat(values, self.after.shape[1], axis=0)
    nodes = (*self.split(values), moves)
    return Sweep(nodes, values[0], (None, None, parents))

  def from_parents(self, index: int, player: int, above: jax.Array) -> jax.Array:
    return jnp.repeat(above, self.after.shape[1], axis=0)

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    if maximum:
      rows = jnp.where(self.exists[index] > 0, rows, -jnp.inf)
    rows = rows.reshape(self.after.shape)
    return rows.max(axis=1) if maximum else rows.sum(axis=1)

  def _widened(self, rows: jax.Array) -> jax.Array:
    """Returns rows `[n, K]` over all infostates, zero in those that are not present: `[n, H]`."""
    return jnp.pad(rows, ((0, 0), (0, self.num_infostates - rows.shape[1])))

  def _over_blocks(
    self,
    player: int,
    take: Callable[[_Block, jax.Array], jax.Array],
    rows: jax.Array,
    *,
    up: bool = False,
    until: jax.Array | None = None,
  ) -> jax.Array:
    """Takes nodes of one depth together, from the top down, at most `until`, or `up`."""
    tree = self.tree
    number = (
      tree.count
      if until is None
      else (tree.present & (tree.depth <= until)).sum(dtype=tree.count.dtype)
    )
    width = _FEW if tree.capacity <= _LITTLE else _BLOCK

    def step(carry):
      first, rows = carry
      at = first + jnp.arange(width, dtype=first.dtype) - (width - 1 if up else 0)
      nodes = self.order[jnp.clip(at, 0, tree.capacity - 1)]
      same = tree.depth[nodes] == tree.depth[self.order[first]]
      there = (at >= 0) & (at < tree.count) & same
      above, kind = tree.parent[nodes], tree.kind[nodes]
      seen = there & (tree.kind[above] != player) & (tree.depth[nodes] > 0)
      moves = there & (kind == player)
      block = _Block(jnp.where(there, nodes, tree.capacity), above, seen, moves)
      number = there.sum(dtype=first.dtype)
      return first - number if up else first + number, take(block, rows)

    def goes_on(carry):
      return (carry[0] >= 0) & (carry[0] < number)

    return lax.while_loop(
      goes_on, step, (tree.count - 1 if up else jnp.zeros_like(tree.count), rows)
    )[1]


def inserted_problem(tree: Any, beliefs: jax.Array) -> InsertedProblem:
  """Returns the problem of an `InsertedTree` from root `beliefs` `[P, H]`."""
  game, size = tree.game, tree.num_infostates
  exists = tree.present[:, None].astype(beliefs.dtype)
  # With hidden moves the root's beliefs are in the players' own reach.
  weight = jnp.ones_like(beliefs) if tree.hides else beliefs
  nature = [
    jnp.where(tree.possible[:, p], weight[p][None] * tree.chance[:, None], 0.0) for p in (0, 1)
  ]
  mass = [game.compatible_mass(tree.state[:1], beliefs[1 - p][None], p)[0] for p in (0, 1)]
  given: Any = dict(
    tree=tree,
    nature=tuple((x[:1], x[1:]) for x in nature),
    root_mass=jnp.stack(mass),
    exists=(exists[:1], exists[1:]),
    beliefs=beliefs,
    frontier=tree.frontier,
    interior=tree.interior,
    deepest=tree.depth.max(),
  )
  if not tree.hides:
    return InsertedProblem(**given)
  action = jnp.maximum(tree.by_action, 0).reshape(tree.capacity, -1)
  node = jnp.take_along_axis(tree.child, action, axis=1).reshape(tree.by_action.shape)
  node = jnp.where(tree.by_action >= 0, node, -1)  # after each move
  there = node >= 0
  left = (tree.open.any(axis=1) & ~there.any(axis=1)).any(axis=1)
  given["frontier"] |= tree.interior & left
  given["exists"] += (there.reshape(-1, size).astype(tree.dtype),)
  after = jnp.where(there, node * size + tree.leads_to, tree.capacity * size)
  deepest = jnp.iinfo(tree.depth.dtype).max
  order = jnp.argsort(jnp.where(tree.present, tree.depth, deepest), stable=True)
  going = []
  for held in game.num_held:
    few = node[:, :, :held]
    to = few * held + tree.leads_to[:, :, :held]
    going.append(jnp.where(few >= 0, to, tree.capacity * held))
  return HiddenProblem(**given, after=after, going=(going[0], going[1]), order=order)
