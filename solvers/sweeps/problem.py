"""A problem: a game with root beliefs, and the sweeps that algorithms are made of."""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import as_array
from games.public_tree import PADDING, Array, Level, PublicTree, payoff_bound
from solvers.sweeps.levels import (
  Levels,
  join_levels,
  lift,
  lower,
  reduce_children,
  split_levels,
  to_children,
)
from solvers.sweeps.pairs import TreePairs, make_pairs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Alternatives:
  """Alternative payoffs of the opponent, who takes them or enters the subgame (thesis, 5.1.2).

  Attributes:
    value: `[H]` expected payoff to the opponent for each of its root infostates, the other's
      infostate drawn from the root beliefs; not the counterfactual value.
    spread: `[H]` its standard deviation, for `contrib.Distributional`; None if it is exact.
    player: the opponent, 0 or 1, where that is known; static.
    beliefs: `[H]` of the opponent, for `ContinualResolve`; None for the root beliefs.
  """

  value: Array
  spread: Array | None = None
  player: int | None = dataclasses.field(default=None, metadata={"static": True})
  beliefs: Array | None = None

  def __post_init__(self):
    rows = {x: y for x, y in vars(self).items() if isinstance(y, list | tuple)}
    vars(self).update({name: as_array(row) for name, row in rows.items()})


class Lock(NamedTuple):
  """Bounds on policies: each is `least` plus `free` times a distribution over the `open` moves."""

  # In a problem each is by level.
  least: Any  # `[N, H]` the least probability of each move
  free: Any  # `[N, H]` what is left of the choice that the move belongs to; zero where it is locked
  open: Any = None  # `[N, H]` 1 for moves that the rest may go to, else 0; None for all


def make_lock(locked: Any, policy: Array | None, dtype: Any) -> Lock | None:
  """Returns a `Lock`, of one tree or of many, from one or from the parts of `policy` to keep to."""
  if locked is None:
    return None
  if isinstance(locked, Lock):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), locked)
  policy, kept = jnp.asarray(policy, dtype), jnp.asarray(locked, dtype)
  kept = jnp.broadcast_to(kept if kept.ndim == policy.ndim else kept[..., None], policy.shape)
  return Lock(policy * kept, 1.0 - kept)


Moves = bool | jax.Array  # whether a player moved to the nodes of a level: static, or `[n, 1]`
T = TypeVar("T")


class Sweep(NamedTuple):
  """A traverser's counterfactual values."""

  nodes: Levels  # for each level `[n, H]`, the value of reaching the node, in the node's infostates
  root: jax.Array  # `[H]`
  parents: tuple[jax.Array | None, ...]  # for each level `[n, H]`, of the parent
  mass: jax.Array | None = None  # `[L, H]` the opponent's mass at the leaves, for `LeafMeans`


class Problem:
  """A (sub)game to be solved from given beliefs; what stays fixed is computed once.

  Operations are of one game; batches come from `jax.vmap`. Policies, reach and values are kept by
  level, `[n, H]`. A storage defines the abstract methods, and others where its nodes are no tree's.

  Attributes:
    tree: the nodes.
    pairs: which infostates go together, where no rules say that themselves.
    nature: for each player, for each level of nodes `[n or 1, H]`: root belief times public chance.
    root_mass: `[P, H]` the opponent's mass at the root that is compatible with an infostate.
    exists: for each level `[n, 1]`, 0 for nodes that are not there, or None if all are.
    floor: bounds on players' policies, or None.
    alternatives: alternative payoffs that gadgets compare with the root's values, or None.
  """

  tree: Any
  pairs: Any
  nature: Any
  root_mass: Any
  exists: Levels | None = None
  floor: Lock | None = None
  alternatives: Any = None  # `Alternatives`

  @property
  def zero_sum(self) -> bool:
    """Whether both players together win nothing."""
    return True

  @property
  @abc.abstractmethod
  def shapes(self) -> list[tuple[int, int]]:
    """The shape of an array kept by level."""

  @property
  def num_infostates(self) -> int:
    return self.tree.num_infostates

  @property
  def dtype(self) -> Any:
    return self.tree.dtype

  @property
  def hides(self) -> bool:
    """Whether infostates change along the tree."""
    return self.tree.infostate_parent is not None

  def split(self, nodes: Array) -> Levels:
    """Cuts an array over nodes `[N, ...]` into one array a level."""
    return split_levels(self.tree, nodes)

  def join(self, levels: Levels) -> Any:
    """Joins one array a level, as solutions have it: `[N, ...]`."""
    return join_levels(levels)

  @abc.abstractmethod
  def moves_at(self, index: int, player: int) -> Moves:
    """Says which nodes of level `index` `player` moved to: True, False or `[n, 1]` of bool."""

  def where_moved(
    self, rows: Sequence[Any], new: Callable[[int, int], Any], players: Sequence[int] = (0, 1)
  ) -> tuple[Any, ...]:
    """Returns `rows` by level, with `new(index, player)` where one of the players moved."""
    found = list(rows)
    for i in range(len(found)):
      for player in players:
        if (moved := self.moves_at(i, player)) is not False:
          own = new(i, player)
          found[i] = own if found[i] is None else choose(moved, own, found[i])
    return tuple(found)

  # The root.

  def root_beliefs(self, player: int) -> jax.Array:
    """Returns the beliefs that the problem is solved from: `[H]`."""
    return self.nature[player][0][0]

  def root_hands(self, player: int) -> jax.Array:
    """Returns the beliefs times the hands that each infostate stands for: `[H]`."""
    return self.root_beliefs(player)

  def pair_mass(self) -> jax.Array:
    """Returns the sum over compatible pairs of infostates of both beliefs."""
    return (self.root_hands(0) * self.root_mass[0]).sum()

  def worth(self, root: jax.Array, player: int) -> jax.Array:
    """Returns the mean over the root beliefs of `player`'s counterfactual root values `[H]`."""
    return (self.root_hands(player) * root).sum() / self.pair_mass()

  # Down: reach.

  @abc.abstractmethod
  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    """Returns `player`'s reach by its own moves alone.

    `policy` holds a probability for every edge; the root's row is ignored. `root` `[H]` is the
    reach at the root's infostates, one by default.
    """

  def both_reach(self, policy: Levels) -> tuple[Levels, Levels]:
    """Returns both players' `own_reach`."""
    return self.own_reach(policy, 0), self.own_reach(policy, 1)

  def payoff_bound(self, index: int) -> jax.Array:
    """Returns the largest payoff below a level, in the unit of its rows over all reach there."""
    return jnp.asarray(payoff_bound(self.tree))

  def with_nature(self, index: int, own: jax.Array, player: int) -> jax.Array:
    """Multiplies `player`'s own reach `[n, H]` of a level by root beliefs and public chance."""
    return own * jnp.broadcast_to(self.nature[player][index], own.shape)

  def full_reach(self, own: Levels, player: int) -> Levels:
    """Returns `with_nature` of all levels of nodes."""
    numbers = range(len(self.nature[player]))
    return tuple(self.with_nature(i, x, player) for i, x in zip(numbers, own))

  def node_reach(self, own: tuple[Levels, Levels]) -> jax.Array:
    """Returns players' reach of every node with root beliefs and chance, `[N, P, H]`."""
    return jnp.stack([join_levels(self.full_reach(own[p], p)) for p in (0, 1)], axis=1)

  # Leaves.

  def leaf_rows(self, levels: Levels) -> jax.Array:
    """Returns the rows of the leaves `[L, H]` of an array kept by level."""
    rows = [
      x[level.num_inner : level.num_inner + level.num_leaves]
      for x, level in zip(levels, self.tree.structure.levels)
      if level.num_leaves
    ]
    if not rows:
      return jnp.zeros((0, self.num_infostates), levels[0].dtype)
    return rows[0] if len(rows) == 1 else jnp.concatenate(rows, axis=0)

  def leaf_features(self, player: int) -> jax.Array:
    """Returns the leaves' public states as `player` sees them: `[L, F]`."""
    return jnp.asarray(self.tree.leaf_features)[player]

  def leaf_possible(self) -> jax.Array | None:
    """Returns which infostates the rules allow at the leaves, `[L, P, H]`, or None for all."""
    if self.tree.possible is None:
      return None
    return jnp.asarray(self.tree.possible)[self.tree.structure.leaf_nodes]

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    """Returns 1 where an infostate of level `index` is possible, `[n, H]`; None for everywhere."""
    return None

  def leaf_reach(self, own: Levels, player: int) -> jax.Array:
    """Returns `player`'s reach at the leaves with root beliefs and chance: `[L, H]`."""
    return self.leaf_rows(self.full_reach(own, player))

  def compatible_mass(self, reach: jax.Array, player: int, row: Any = slice(None)) -> jax.Array:
    """Returns the mass of the opponent's `reach` compatible with `player`'s infostates.

    Both are `[L, H]` at all leaves, or `[1, H]` at the leaf `row`; lines have none.
    """
    return self.pairs.compatible_mass(reach, player, row)

  def weigh_leaf_values(self, values: jax.Array, opponent_reach: Levels, player: int) -> jax.Array:
    """Turns expected values at the leaves `[L, H]` into counterfactual values `[L, H]`."""
    return values * self.compatible_mass(self.leaf_reach(opponent_reach, 1 - player), player)

  # Up: values.

  def values_up(
    self,
    policy: Levels | None,
    opponent_reach: Levels,
    leaf_values: jax.Array | None,
    player: int,
  ) -> Sweep:
    """Computes `player`'s counterfactual values from the bottom up; see `Sweep`.

    Args:
      policy: the rows that `player` moved to are used. None to respond best instead.
      opponent_reach: the opponent's own reach.
      leaf_values: `[L, H]` counterfactual (`weigh_leaf_values`); None if there are no leaves.
      player: whose values, 0 or 1.
    """
    outer = self._outer_values(opponent_reach, leaf_values, player)
    nodes: list[jax.Array] = [jnp.zeros(())] * len(outer)
    parents: list[jax.Array | None] = [None] * len(nodes)
    inner = None
    for i in reversed(range(len(nodes))):
      there = [x for x in (inner, *outer[i]) if x is not None]
      values = there[0] if len(there) == 1 else jnp.concatenate(there, axis=0)
      possible = self.possible_rows(i, player)
      nodes[i] = values = values if possible is None else values * possible
      if i == 0:
        break
      inner = self._rise(i, values, policy, player, outer)
      if self.moves_at(i, player) is not False:
        parents[i] = self.from_parents(i, player, inner)
    return Sweep(tuple(nodes), nodes[0][0], tuple(parents))

  def _outer_values(
    self, opponent_reach: Levels, leaf_values: jax.Array | None, player: int
  ) -> Any:
    """Returns counterfactual values of leaves and ends, each level's in parts; None for no part."""
    # A storage with a `values_up` of its own needs none.

  def _rise(self, index: int, values: jax.Array, policy: Any, player: int, outer: Any) -> Any:
    """Returns the values of the nodes above level `index` that have moves, from its `values`."""
    moved = self.moves_at(index, player)
    if moved is False or policy is not None:
      weighted = values if moved is False else choose(moved, policy[index] * values, values)
      return self._over_children(index, player, weighted)
    best = self._held_best(index, player, values)
    if moved is True:
      return best
    start = self.tree.structure.offsets[index - 1]
    kind = jnp.asarray(self.tree.kind)[start : start + len(best), None]
    return jnp.where(kind == player, best, self._over_children(index, player, values))

  def advantages(self, sweep: Sweep, index: int, player: int) -> jax.Array | None:
    """Returns the advantage of each move to level `index` over its parent: `[n, H]`.

    None at levels that `player`, the traverser, did not move to. These are CFR's instantaneous
    regrets, of the free part of the policy under a floor.
    """
    parents, nodes = sweep.parents[index], sweep.nodes[index]
    if parents is None or self.floor is None:
      return None if parents is None else nodes - parents
    held = self._over_children(index, player, self.floor.least[index] * nodes)
    return self.floor.free[index] * nodes - (parents - self.from_parents(index, player, held))

  def mix_values(self, sweep: Sweep, policy: Levels, player: int) -> Sweep:
    """Returns `sweep` with the policy's mix of the moves' values as the parents' values."""

    def mix(i: int, _: int) -> jax.Array:
      below = self._over_children(i, player, policy[i] * sweep.nodes[i])
      return self.from_parents(i, player, below)

    return sweep._replace(parents=self.where_moved(sweep.parents, mix, [player]))

  # Policies.

  def uniform_policy(self) -> Levels:
    """Returns the policy that takes every legal action equally often."""
    return self.normalise(tuple(jnp.zeros(shape, self.dtype) for shape in self.shapes))

  def chance_policy(self, like: Levels) -> Levels:
    """Returns one at all nodes that exist, the policy where no player moved: `[n, H]` a level."""
    return (jnp.ones_like(like[0]), *(self._existing(i, x) for i, x in enumerate(like) if i))

  def normalise(self, weights: Levels, *, free: bool = False) -> Levels:
    """Divides non-negative weights of edges by their sum over the mover's choices.

    Where all are zero the choices are equally likely. Rows that no player moved to are one, and
    rows of nodes that are not there zero. Where players are held to something, `free` says that
    the weights are those of the free part alone.
    """

    def normalise(i: int, player: int) -> jax.Array:
      return self.normalise_rows(i, player, weights[i], free=free)

    return self.where_moved(self.chance_policy(weights), normalise)

  def normalise_rows(
    self, index: int, player: int, weights: jax.Array, *, free: bool = True
  ) -> jax.Array:
    """Divides weights `[n, H]` of level `index` by their sum over `player`'s choices.

    As `normalise`. Rows that `player` did not move to are meaningless.
    """
    # A column is enough where a node is there for all infostates or for none.
    real = exists = self._existing(index, weights if self.hides else weights[:, :1])
    if self.hides and (possible := self.possible_rows(index, player)) is not None:
      real = exists * possible
    is_open = real
    if self.floor is not None and self.floor.open is not None:
      is_open = real * self.floor.open[index]
    share, known = self._share(index, player, weights * (is_open if free else real))
    if self.hides or self.exists is not None or is_open is not real:
      fallback, _ = self._share(index, player, is_open)
    else:  # known before the program runs: nothing to compile
      parents = self._level(index).parents
      fallback = jnp.asarray(1.0 / np.bincount(parents)[parents, None], share.dtype)
    if self.floor is not None:
      fallback = self.floor.least[index] + self.floor.free[index] * fallback
      if free:
        share = self.floor.least[index] + self.floor.free[index] * share
    rows = jnp.where(known, share, fallback)
    # Impossible infostates come from nowhere: any number will do, and one is harmless.
    return jnp.where(real > 0, rows, exists) if self.hides else rows

  def largest_of_siblings(self, index: int, player: int, rows: jax.Array) -> jax.Array:
    """Returns the largest of `rows` `[n, H]` of level `index` over `player`'s choices, `[n, H]`."""
    return self.from_parents(index, player, self._over_children(index, player, rows, maximum=True))

  def _existing(self, index: int, like: jax.Array) -> jax.Array:
    exists = jnp.ones_like(like)
    return exists if self.exists is None else exists * self.exists[index]

  def _share(self, index: int, player: int, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns each row's share of its siblings' sum, and whether there is any, both `[n, H]`."""
    total = self.from_parents(index, player, self._over_children(index, player, rows))
    return rows / jnp.where(total > 0, total, 1.0), total > 0

  # Between levels.

  def _level(self, index: int) -> Level:
    """Returns which children the parents of a level have."""
    return self.tree.structure.levels[index]

  def from_parents(self, index: int, player: int, above: jax.Array) -> jax.Array:
    """Returns the parents' rows of level `index`, in the nodes' own infostates: `[n, H]`."""
    rows = to_children(self._level(index), above)
    return lift(self.tree, index, player, rows) if self.hides else rows

  def _over_children(
    self, index: int, player: int, rows: jax.Array, *, maximum: bool = False
  ) -> jax.Array:
    """Sums (or maximises) rows `[n, H]` of level `index` over each parent's children."""
    if maximum and self.exists is not None:
      rows = jnp.where(self.exists[index] > 0, rows, -jnp.inf)
    rows = lower(self.tree, index, player, rows, maximum=maximum) if self.hides else rows
    number = self._level(index - 1).num_inner
    return reduce_children(self._level(index), rows, number, maximum=maximum)

  def _held_best(self, index: int, player: int, values: jax.Array) -> jax.Array:
    """Returns the value of each of `player`'s choices, at best under the floor if there is one."""
    free = values
    if self.floor is not None:
      free = values * self.floor.free[index]
      if self.floor.open is not None:
        free = jnp.where(self.floor.open[index] > 0, free, -jnp.inf)
    best = self._answer(index, player, free)
    best = jnp.where(jnp.isfinite(best), best, 0.0)  # infostates that do not exist
    if self.floor is not None:
      best = best + self._over_children(index, player, values * self.floor.least[index])
    return best

  def _answer(self, index: int, player: int, values: jax.Array) -> jax.Array:
    """Returns the value of each of `player`'s choices from its moves' `values` `[n, H]`."""
    return self._over_children(index, player, values, maximum=True)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class TreeProblem(Problem):
  """The problem of a tree, whose levels are slices.

  Attributes:
    tree: the public tree.
    pairs: which infostates go together, and what they are worth at terminal nodes.
    mover: for each level `[n, 1]`, who moved to get there, or None if that is static.
  """

  tree: PublicTree
  pairs: TreePairs
  exists: Levels | None = None
  mover: tuple[jax.Array | None, ...]
  floor: Lock | None = None
  alternatives: Any = None

  @property
  def nature(self) -> tuple[Levels, Levels]:
    return self.pairs.nature

  @property
  def root_mass(self) -> jax.Array:
    return self.pairs.root_mass

  @property
  def shapes(self) -> list[tuple[int, int]]:
    return [(level.size, self.num_infostates) for level in self.tree.structure.levels]

  def possible_rows(self, index: int, player: int) -> jax.Array | None:
    return self.pairs.possible[player][index]

  def moves_at(self, index: int, player: int) -> Moves:
    level = self.tree.structure.levels[index]
    if level.movers and player not in level.movers:
      return False
    actor, mover = level.parent_actor, self.mover[index]
    if actor is not None or mover is None:
      return actor == player
    return mover == player

  def own_reach(self, policy: Levels, player: int, root: jax.Array | None = None) -> Levels:
    if root is None:
      root = jnp.ones(self.num_infostates, policy[0].dtype)
    reach = [self.pairs.mask_reach(0, player, root[None])]
    for i in range(1, len(policy)):
      reach.append(self.reach_below(i, policy[i], reach[-1], player))
    return tuple(reach)

  def reach_below(self, index: int, policy: jax.Array, above: jax.Array, player: int) -> jax.Array:
    """Returns `player`'s own reach of level `index` from that of the level above, `[n, H]`."""
    below = self.from_parents(index, player, above)
    moved = self.moves_at(index, player)
    if moved is not False:
      below = below * choose(moved, policy, jnp.ones_like(policy))
    return self.pairs.mask_reach(index, player, below)

  def _outer_values(self, opponent_reach, leaf_values, player):
    terminals = self.pairs.terminal_values(self.tree, opponent_reach, player)
    leaves: list[Any] = [None] * len(terminals)
    if leaf_values is not None:
      stops = self.tree.structure.leaf_offsets[1:-1]
      leaves = [x if len(x) else None for x in jnp.split(leaf_values, stops)]
    return [list(x) for x in zip(leaves, terminals)]


def make_problem(
  tree: PublicTree,
  beliefs: Array,
  *,
  lock: Lock | None = None,
  alternatives: Alternatives | None = None,
  lanes: int = 1,
) -> TreeProblem:
  """Returns the problem of `tree` from root `beliefs` `[P, H]`.

  Args:
    tree: whole or depth-limited.
    beliefs: each row a distribution.
    lock, alternatives: what players are held to, and what gadgets weigh, or None.
    lanes: how many trees of this shape are solved side by side, each with its own arrays.
  """
  tree = jax.tree.map(jnp.asarray, tree)
  beliefs = jnp.asarray(beliefs)
  kinds = split_levels(tree, tree.kind)
  exists = None
  if tree.padded:
    exists = tuple((kind != PADDING).astype(beliefs.dtype)[:, None] for kind in kinds)
  mover: list[jax.Array | None] = [None]
  for above, level in zip(kinds, tree.structure.levels[1:]):
    fixed = level.parent_actor is not None
    mover.append(None if fixed else to_children(level, above[:, None]))
  floor = None if lock is None else Lock(*(x if x is None else split_levels(tree, x) for x in lock))
  return TreeProblem(
    tree=tree,
    pairs=make_pairs(tree, beliefs, lanes=lanes),
    exists=exists,
    mover=tuple(mover),
    floor=floor,
    alternatives=alternatives,
  )


def per_unit_of_mass(values: jax.Array, mass: jax.Array) -> jax.Array:
  """Divides counterfactual values by the compatible mass; zero where there is none."""
  return jnp.where(mass > 0, values / jnp.where(mass > 0, mass, 1.0), 0.0)


def choose(condition: Moves, x: T, y: T) -> T:
  """Returns `x` where the condition holds and `y` elsewhere, leaf by leaf.

  `jnp.where` that costs nothing where the condition is static.
  """
  if isinstance(condition, bool):
    return x if condition else y
  return jax.tree.map(lambda a, b: jnp.where(condition, a, b), x, y)
