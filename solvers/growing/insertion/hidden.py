"""The problem of an inserted tree with hidden moves: rows for moves beside those for nodes."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE, TERMINAL
from solvers.growing.insertion.problem import InsertedProblem
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Moves, Sweep

# Nodes of one depth that a sweep takes together, and those of trees of little room: most of a block
# that is wider than a depth is empty.
_BLOCK, _FEW = 32, 8
_LITTLE = 512
# What any infostate weighs at the root beside its belief: an average policy must say something of
# those that nobody believes in, and where they meet others their share is beyond float64.
_LEAST = 1e-20


class _Block(NamedTuple):
  """Nodes of one depth, `[W]` of each, as the player sees them whose sweep it is.

  Attributes:
    nodes: their places; the capacity where there is none.
    above: their parents.
    seen: whether somebody else moved to them, so that infostates stayed as they were.
    moves: whether the player moves there.
  """

  nodes: jax.Array
  above: jax.Array
  seen: jax.Array
  moves: jax.Array


@dataclasses.dataclass(frozen=True)
class HiddenProblem(InsertedProblem):
  """As `InsertedProblem`, for games with hidden moves: infostates change, and may merge.

  Levels are three: the root's row `[1, H]`, the other nodes' `[C - 1, H]`, and the moves'
  `[C * M, H]`, `M` for each node, in the infostates from which they are made. So all moves of an
  infostate are siblings, whatever is seen of them. Nobody moves to the second level.

  An own reach includes the root's beliefs: where infostates meet, policies are averaged by how
  likely each of them was. Infostates of an inner node of whose moves none is in the tree are worth
  what the network says, and lead nowhere.

  Attributes:
    after: `[C, M, H]` row times `H` plus infostate to which a move leads, `C * H` for none.
    order: `[C]` places by depth, free ones last.
  """

  after: jax.Array
  order: jax.Array

  @property
  def num_levels(self) -> int:
    return 3

  def moves_at(self, index: int, player: int) -> Moves:
    if index < 2:
      return False
    return jnp.repeat(self._inserted.kind == player, self.after.shape[1])[:, None]

  def is_frontier(self) -> jax.Array:
    tree = self._inserted
    left = (tree.open.any(axis=1) & ~self._there.any(axis=1)).any(axis=1)
    return tree.frontier | (self.interior & left)

  def leaf_rows(self, levels: Levels) -> jax.Array:
    return join_levels(levels[:2])

  def node_reach(self, own: tuple[Levels, Levels]) -> jax.Array:
    return super().node_reach((own[0][:2], own[1][:2]))

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    tree = self._inserted
    taken = policy[2].reshape(self.after.shape)
    size, width = self.num_infostates, tree.capacity * self.num_infostates
    possible = tree.possible[0, player].astype(taken.dtype)
    start = self.beliefs[player] + _LEAST * possible
    start = start if root is None else start * root

    def lower(block: _Block, reach):
      rows = reach.reshape(-1, size)
      own = jnp.where(block.seen[:, None], rows[block.above], rows[block.nodes])
      reach = rows.at[block.nodes].set(own, mode="drop").reshape(-1)
      going = own[:, None] * taken[block.nodes]
      to = jnp.where(block.moves[:, None, None], self.after[block.nodes], width)
      return reach.at[to].add(going, mode="drop")

    reach = jnp.zeros(width, taken.dtype).at[:size].set(start)
    reach = self._over_blocks(player, lower, reach).reshape(-1, size)
    return *self.split(reach), (reach[:, None] * taken).reshape(policy[2].shape)

  def values_up(
    self,
    policy: Levels | None,
    opponent_reach: Levels,
    leaf_values: jax.Array | None,
    player: int,
  ) -> Sweep:
    assert leaf_values is not None
    tree, size = self._inserted, self.num_infostates
    (ends,) = self.pairs.terminal_values(self.tree, opponent_reach[:2], player)
    assert ends is not None
    possible = tree.possible[:, player].astype(leaf_values.dtype)
    there = self._there
    chosen = there.any(axis=1)
    taken = None if policy is None else policy[2].reshape(self.after.shape)

    def below(nodes, values):
      found = values.reshape(-1)[jnp.minimum(self.after[nodes], tree.capacity * size - 1)]
      return jnp.where(there[nodes], found, 0.0)

    def rise(block: _Block, values):
      moves = below(block.nodes, values)
      if taken is None:
        best = jnp.where(there[block.nodes], moves, -jnp.inf).max(axis=1)
      else:
        best = (taken[block.nodes] * moves).sum(axis=1)
      inner = block.moves[:, None] & chosen[block.nodes]
      found = jnp.where(inner, best, values[block.nodes]) * possible[block.nodes]
      values = values.at[block.nodes].set(found, mode="drop")
      above = jnp.where(block.seen, block.above, tree.capacity)
      return values.at[above].add(found, mode="drop")

    asked = (tree.kind <= CHANCE) & (~self.interior | (tree.kind == player))
    values = jnp.where(asked[:, None], leaf_values, 0.0)
    values = jnp.where((tree.kind == TERMINAL)[:, None], ends, values)
    values = self._over_blocks(player, rise, values, up=True)
    moves = below(jnp.arange(tree.capacity), values)
    parents = jnp.broadcast_to(values[:, None], moves.shape).reshape(-1, size)
    nodes = (*self.split(values), moves.reshape(-1, size))
    return Sweep(nodes, values[0], (None, None, parents))

  def uniform_policy(self) -> Levels:
    rows = jnp.zeros((self.tree.num_nodes, self.num_infostates), self.tree.dtype)
    moves = jnp.zeros((self.after.size // self.num_infostates, self.num_infostates), rows.dtype)
    return self.normalise((*self.split(rows), moves))

  def normalise(self, weights: Levels, *, free: bool = False) -> Levels:
    weights = tuple(x.astype(self.tree.dtype) for x in weights)
    root, nodes, _ = self.chance_policy(weights)
    return root, nodes, self.normalise_rows(2, 0, weights[2], free=free)

  def from_parents(self, index: int, player: int, above: jax.Array) -> jax.Array:
    """Returns the movers' rows `[C, H]` for all moves: `[C * M, H]`."""
    del index, player
    return jnp.repeat(above, self.after.shape[1], axis=0)

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    del player
    assert self.exists is not None
    if maximum:
      rows = jnp.where(self.exists[index] > 0, rows, -jnp.inf)
    rows = rows.reshape(self.after.shape)
    return rows.max(axis=1) if maximum else rows.sum(axis=1)

  @property
  def _there(self) -> jax.Array:
    """Which moves are in the tree: `[C, M, H]`."""
    return self.after < self.tree.num_nodes * self.num_infostates

  def _over_blocks(
    self,
    player: int,
    take: Callable[[_Block, jax.Array], jax.Array],
    rows: jax.Array,
    *,
    up: bool = False,
  ) -> jax.Array:
    """Takes nodes of one depth together, from the top down or from the bottom `up`."""
    tree = self._inserted
    width = _FEW if tree.capacity <= _LITTLE else _BLOCK

    def step(carry):
      first, rows = carry
      at = first + jnp.arange(width) - (width - 1 if up else 0)
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
      return (carry[0] >= 0) & (carry[0] < tree.count)

    return lax.while_loop(
      goes_on, step, (tree.count - 1 if up else jnp.zeros_like(tree.count), rows)
    )[1]


def with_hidden_moves(problem: InsertedProblem) -> HiddenProblem:
  """Returns the problem with rows for moves."""
  tree: Any = problem.tree
  size = tree.num_infostates
  node = tree.after
  after = jnp.where(node >= 0, node * size + tree.leads_to, tree.capacity * size)
  assert problem.exists is not None
  moves = (node >= 0).reshape(-1, size).astype(tree.dtype)
  deepest = jnp.iinfo(tree.depth.dtype).max
  order = jnp.argsort(jnp.where(tree.present, tree.depth, deepest), stable=True)
  given = {x.name: getattr(problem, x.name) for x in dataclasses.fields(problem)}
  # The root's beliefs are in the players' own reach.
  nature = [tree.chance[:, None] * tree.possible[:, p] for p in (0, 1)]
  pairs: Any = problem.pairs
  pairs = dataclasses.replace(pairs, nature=tuple((x[:1], x[1:]) for x in nature))
  given |= {"exists": (*problem.exists, moves), "pairs": pairs, "mover": (None,) * 3}
  return HiddenProblem(**given, after=after, order=order)
