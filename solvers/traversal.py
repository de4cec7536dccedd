"""Sweeps over a public tree: reach probabilities down, counterfactual values up.

All functions here work on one tree; batches come from `jax.vmap`. Arrays over nodes are kept
as one array a level, because level sizes are static and nothing then needs to be cut out of a
larger array inside the solver's loop.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE
from games.public_tree import PADDING, Array, Level, PublicTree

# Below this many entries a level's payoff tables are multiplied node by node in one fused
# loop; above it, by one matrix product for each run of nodes that share a table.
_SMALL_LEVEL = 8192

Levels = tuple[jax.Array, ...]  # one [n, H] for each level of the tree


def split_levels(tree: PublicTree, nodes: Array) -> Levels:
  """Cuts an array over nodes `[N, ...]` into one array a level."""
  nodes = jnp.asarray(nodes)
  return tuple(nodes[a:b] for a, b in itertools.pairwise(tree.structure.offsets))


def join_levels(levels: Levels) -> jax.Array:
  """Joins one array a level into an array over nodes `[N, ...]`."""
  return jnp.concatenate(levels, axis=0)


def to_children(level: Level, parents: jax.Array) -> jax.Array:
  """Copies each parent's row to its children: `[n_above, ...]` to `[size, ...]`."""
  if not level.sliced:
    return parents[level.parents]
  slices = [parents[start:stop] for start, stop in level.runs]
  return slices[0] if len(slices) == 1 else jnp.concatenate(slices, axis=0)


def reduce_children(
  level: Level, children: jax.Array, num_parents: int, *, maximum: bool = False
) -> jax.Array:
  """Sums (or maximises) over each parent's children: `[size, H]` to `[num_parents, H]`."""
  combine = jnp.maximum if maximum else jnp.add
  if not level.sliced:
    fill = -jnp.inf if maximum else 0.0
    padded = jnp.concatenate([children, jnp.full_like(children[:1], fill)])
    gathered = padded[_child_table(level, num_parents)]
    return gathered.max(axis=1) if maximum else gathered.sum(axis=1)
  stops = np.cumsum([stop - start for start, stop in level.runs])
  pieces = [
    (start, stop, children[end - (stop - start) : end])
    for (start, stop), end in zip(level.runs, stops.tolist())
  ]
  if all(start == 0 for start, _, _ in pieces):
    return _reduce_prefixes([piece for _, _, piece in pieces], combine)
  cuts = sorted({0, num_parents} | {b for start, stop, _ in pieces for b in (start, stop)})
  segments = []
  for low, high in itertools.pairwise(cuts):
    covering = [p[low - a : high - a] for a, b, p in pieces if a <= low and high <= b]
    total = covering[0]
    for piece in covering[1:]:
      total = combine(total, piece)
    segments.append(total)
  return segments[0] if len(segments) == 1 else jnp.concatenate(segments, axis=0)


def _reduce_prefixes(pieces: Sequence[jax.Array], combine: Callable) -> jax.Array:
  """Combines pieces that all start at the first parent, shortest first."""
  pieces = sorted(pieces, key=len)
  total = pieces[0]
  for piece in pieces[1:]:
    rest = piece[len(total) :]
    total = combine(total, piece[: len(total)])
    if len(rest):
      total = jnp.concatenate([total, rest], axis=0)
  return total


def _child_table(level: Level, num_parents: int) -> np.ndarray:
  """Returns each parent's children, filled up with `size`: `[num_parents, A]`."""
  counts = np.bincount(level.parents, minlength=num_parents)
  order = np.argsort(level.parents, kind="stable")
  slot = np.arange(level.size) - np.repeat(np.cumsum(counts) - counts, counts)
  table = np.full((num_parents, counts.max()), level.size)
  table[level.parents[order], slot] = order
  return table


class Setting(NamedTuple):
  """What stays fixed while a tree is solved from given beliefs; computed once, before the loop.

  Attributes:
    nature: for each player, for each level `[n or 1, H]`: the root belief that led to the
      infostate times the probabilities of public chance and whether the infostate is possible.
      Times the player's own reach this is its counterfactual reach for the opponent.
    own_possible: for each player and level, 1 where the infostate is possible, or None.
    exists: for each level `[n, 1]`, 0 for padding, or None.
    mover: for each level `[n, 1]`, who moved to get there, or None if that is static.
    terminal_tables: for each level `[T, H, H]`, or None where `payoff_runs` are used.
    terminal_scale: for each level `[T, 1]`.
    leaf_weights: `[L or 1, H, H]` pair weights at the leaves, or None if all are one.
    root_mass: `[P, H]` the opponent's mass at the root that is compatible with an infostate.
  """

  nature: tuple[Levels, Levels]
  own_possible: tuple[Levels, Levels] | None
  exists: Levels | None
  mover: tuple[jax.Array | None, ...]
  terminal_tables: tuple[jax.Array | None, ...]
  terminal_scale: Levels
  leaf_weights: jax.Array | None
  root_mass: jax.Array


def prepare(tree: PublicTree, beliefs: Array) -> Setting:
  """Computes what stays fixed while `tree` is solved from root `beliefs` `[P, H]`."""
  beliefs = jnp.asarray(beliefs)
  structure, dtype = tree.structure, beliefs.dtype
  own_possible = None
  if tree.possible is not None:
    possible = split_levels(tree, tree.possible.astype(dtype))
    own_possible = (tuple(x[:, 0] for x in possible), tuple(x[:, 1] for x in possible))
  kinds = split_levels(tree, tree.kind)
  exists = None
  if tree.padded:
    exists = tuple((kind != PADDING).astype(dtype)[:, None] for kind in kinds)
  mover: list[jax.Array | None] = [None]
  for above, level in zip(kinds, structure.levels[1:]):
    fixed = level.parent_actor is not None
    mover.append(None if fixed else to_children(level, above[:, None]))

  tables: list[jax.Array | None] = []
  scales: list[jax.Array] = []
  payoffs, payoff_scale = jnp.asarray(tree.payoffs), jnp.asarray(tree.payoff_scale)
  h = tree.num_infostates
  for level, start in zip(structure.levels, structure.terminal_offsets):
    rows = slice(start, start + level.num_terminals)
    gathered = level.payoff_runs is None or level.num_terminals * h * h <= _SMALL_LEVEL
    tables.append(payoffs[tree.payoff_index[rows]] if gathered else None)
    scales.append(payoff_scale[rows, None])

  leaf_weights = None
  if not tree.compatible:
    leaf_weights = jnp.asarray(tree.pair_weights)
    if len(leaf_weights) > 1:
      leaf_weights = leaf_weights[tree.leaf_pair_index]
  return Setting(
    nature=(
      _nature(tree, beliefs, 0, own_possible),
      _nature(tree, beliefs, 1, own_possible),
    ),
    own_possible=own_possible,
    exists=exists,
    mover=tuple(mover),
    terminal_tables=tuple(tables),
    terminal_scale=tuple(scales),
    leaf_weights=leaf_weights,
    root_mass=root_mass(tree, beliefs),
  )


def root_mass(tree: PublicTree, beliefs: jax.Array) -> jax.Array:
  """Returns the opponent's mass compatible with each root infostate: `[P, H]`."""
  weights = tree.pair_weights[tree.root_pair_index]
  return jnp.stack([weights @ beliefs[1], beliefs[0] @ weights])


def _nature(tree: PublicTree, beliefs: jax.Array, player: int, own_possible) -> Levels:
  levels = tree.structure.levels
  unchanging = own_possible is None and tree.infostate_parent is None
  if unchanging and tree.chance_probability is None:
    return (beliefs[None, player],) * len(levels)
  reach = [beliefs[None, player]]
  probabilities = None
  if tree.chance_probability is not None:
    probabilities = split_levels(tree, tree.chance_probability)
  for i, level in enumerate(levels[1:], start=1):
    below = lift(tree, i, player, to_children(level, reach[-1]))
    if probabilities is not None:
      below = below * probabilities[i][:, None]
    if own_possible is not None:
      below = below * own_possible[player][i]
    reach.append(below)
  return tuple(reach)


def lift(tree: PublicTree, index: int, player: int, rows: jax.Array) -> jax.Array:
  """Reindexes rows of level `index` from the parents' infostates to the nodes' own."""
  if tree.infostate_parent is None:
    return rows
  start, stop = tree.structure.offsets[index : index + 2]
  return jnp.take_along_axis(rows, tree.infostate_parent[start:stop, player], axis=1)


def lower(
  tree: PublicTree, index: int, player: int, rows: jax.Array, *, maximum: bool = False
) -> jax.Array:
  """Sums (or maximises) rows of level `index` over infostates of the same parent infostate."""
  if tree.infostate_parent is None:
    return rows
  start, stop = tree.structure.offsets[index : index + 2]
  parents = tree.infostate_parent[start:stop, player]  # [n, H]
  from_parent = parents[:, :, None] == jnp.arange(tree.num_infostates)  # [n, H, H above]
  if tree.possible is not None:
    from_parent &= tree.possible[start:stop, player][:, :, None]
  if maximum:
    return jnp.where(from_parent, rows[:, :, None], -jnp.inf).max(axis=1)
  return jnp.where(from_parent, rows[:, :, None], 0.0).sum(axis=1)


def moves_at(tree: PublicTree, setting: Setting, index: int, player: int):
  """Says which nodes of level `index` `player` moved to: True, False or `[n, 1]` of bool."""
  actor = tree.structure.levels[index].parent_actor
  return setting.mover[index] == player if actor is None else actor == player


def choose(condition, x: jax.Array, y: jax.Array) -> jax.Array:
  """`jnp.where` that costs nothing where the condition is static."""
  if isinstance(condition, bool):
    return x if condition else y
  return jnp.where(condition, x, y)


def own_reach(
  tree: PublicTree,
  setting: Setting,
  policy: Levels,
  player: int,
  root: jax.Array | None = None,
) -> Levels:
  """Returns `player`'s reach by its own moves alone.

  `policy` holds a probability for every edge, `[n, H]` a level (the root's is ignored). `root`
  is the reach at the root's infostates `[H]`, one by default.
  """
  if root is None:
    root = jnp.ones(tree.num_infostates, policy[0].dtype)
  reach = [root[None]]
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    below = lift(tree, i, player, to_children(level, reach[-1]))
    moved = moves_at(tree, setting, i, player)
    if moved is not False:
      below = below * choose(moved, policy[i], jnp.ones_like(policy[i]))
    reach.append(below)
  return tuple(reach)


def both_reach(tree: PublicTree, setting: Setting, policy: Levels) -> tuple[Levels, Levels]:
  """Returns both players' `own_reach`."""
  return own_reach(tree, setting, policy, 0), own_reach(tree, setting, policy, 1)


def leaf_rows(tree: PublicTree, levels: Levels) -> jax.Array:
  """Returns the rows of the leaves `[L, H]` of an array kept by level."""
  rows = [
    x[level.num_inner : level.num_inner + level.num_leaves]
    for x, level in zip(levels, tree.structure.levels)
    if level.num_leaves
  ]
  if not rows:
    return jnp.zeros((0, tree.num_infostates), levels[0].dtype)
  return rows[0] if len(rows) == 1 else jnp.concatenate(rows, axis=0)


def counterfactual_leaf_reach(
  tree: PublicTree, setting: Setting, reach: Levels, player: int
) -> jax.Array:
  """Returns `player`'s reach at the leaves with root beliefs and chance: `[L, H]`."""
  nature = setting.nature[player]
  full = tuple(jnp.broadcast_to(x, y.shape) for x, y in zip(nature, reach))
  return leaf_rows(tree, reach) * leaf_rows(tree, full)


def compatible_mass(setting: Setting, reach: jax.Array, player: int) -> jax.Array:
  """Returns the mass of opponent's `reach` `[L, H]` compatible with `player`'s infostates."""
  if setting.leaf_weights is None:
    return jnp.broadcast_to(reach.sum(axis=-1, keepdims=True), reach.shape)
  weights = setting.leaf_weights if player == 0 else setting.leaf_weights.swapaxes(-1, -2)
  if len(weights) == 1:
    return reach @ weights[0].T
  return jnp.einsum("lij,lj->li", weights, reach)


def terminal_values(
  tree: PublicTree, setting: Setting, opponent_reach: Levels, player: int
) -> tuple[jax.Array | None, ...]:
  """Returns `player`'s counterfactual values at the terminal nodes of each level, `[T, H]`.

  `opponent_reach` is the opponent's own; levels without terminal nodes hold None.
  """
  levels = tree.structure.levels
  reach: list[jax.Array] = []
  for i, level in enumerate(levels):
    rows = slice(level.size - level.num_terminals, level.size)
    nature = setting.nature[1 - player][i]
    own = opponent_reach[i][rows] * (nature[rows] if len(nature) > 1 else nature)
    reach.append(own * setting.terminal_scale[i])
  values: list[jax.Array | None] = [None] * len(levels)
  by_table: dict[int, list[tuple[int, int, int]]] = {}
  for i, level in enumerate(levels):
    tables = setting.terminal_tables[i]
    if not level.num_terminals:
      continue
    if tables is not None:
      values[i] = _small_product(tables, reach[i], player)
      continue
    assert level.payoff_runs is not None
    for table, start, stop in level.payoff_runs:
      by_table.setdefault(table, []).append((i, start, stop))
  # One product a table for the whole tree: a product for each run is slower, and compiling
  # hundreds of them took a gigabyte.
  pieces: dict[tuple[int, int], jax.Array] = {}
  for table, runs in by_table.items():
    matrix = tree.payoffs[table].T if player == 0 else -tree.payoffs[table]
    stacked = [reach[i][start:stop] for i, start, stop in runs]
    product = (stacked[0] if len(runs) == 1 else jnp.concatenate(stacked)) @ matrix
    end = 0
    for i, start, stop in runs:
      pieces[i, start] = product[end : end + stop - start]
      end += stop - start
  for i in sorted({i for i, _ in pieces}):
    parts = [pieces[i, start] for _, start, _ in levels[i].payoff_runs or ()]
    values[i] = parts[0] if len(parts) == 1 else jnp.concatenate(parts)
  return tuple(values)


def _small_product(tables: jax.Array, reach: jax.Array, player: int) -> jax.Array:
  """Multiplies each node's reach `[T, H]` by its own table `[T, H, H]`."""
  # Spelled as multiply and sum so that XLA fuses it: batched products of matrices this small
  # are slower than the loop.
  if player == 0:
    return (tables * reach[:, None, :]).sum(axis=2)
  return -(tables * reach[:, :, None]).sum(axis=1)


class Sweep(NamedTuple):
  """A traverser's counterfactual values.

  Attributes:
    nodes: for each level `[n, H]`, the value of reaching the node, in the node's infostates.
    root: `[H]`.
    parents: for each level `[n, H]`, the value of the parent, in the node's infostates; None
      at levels that the traverser did not move to.
  """

  nodes: Levels
  root: jax.Array
  parents: tuple[jax.Array | None, ...]


def values_up(
  tree: PublicTree,
  setting: Setting,
  policy: Levels | None,
  opponent_reach: Levels,
  leaf_values: jax.Array | None,
  player: int,
) -> Sweep:
  """Computes `player`'s counterfactual values from the bottom up.

  Args:
    tree: the tree.
    setting: `prepare(tree, beliefs)`.
    policy: for each level `[n, H]`; the rows that `player` moved to are used. None to respond
      best instead: the maximum over the player's moves.
    opponent_reach: the opponent's own reach, for each level `[n, H]`.
    leaf_values: `[L, H]` expected values at the leaves times the opponent's compatible reach
      (`weigh_leaf_values`); None if there are no leaves.
    player: whose values, 0 or 1.

  Returns:
    The values; see `Sweep`.
  """
  structure = tree.structure
  terminals = terminal_values(tree, setting, opponent_reach, player)
  nodes: list[jax.Array] = [jnp.zeros(())] * len(structure.levels)
  parents: list[jax.Array | None] = [None] * len(structure.levels)
  inner = None
  for i in reversed(range(len(structure.levels))):
    level = structure.levels[i]
    parts = [] if inner is None else [inner]
    if level.num_leaves:
      assert leaf_values is not None
      start = structure.leaf_offsets[i]
      parts.append(leaf_values[start : start + level.num_leaves])
    ends = terminals[i]
    if ends is not None:
      parts.append(ends)
    values = parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis=0)
    if setting.own_possible is not None:
      values = values * setting.own_possible[player][i]
    nodes[i] = values
    if i == 0:
      break
    moved = moves_at(tree, setting, i, player)
    above = structure.levels[i - 1].num_inner
    if policy is None:
      inner = _best_over_children(tree, setting, i, values, above, player, moved)
    else:
      weighted = values if moved is False else choose(moved, policy[i] * values, values)
      inner = reduce_children(level, lower(tree, i, player, weighted), above)
    if moved is not False:
      parents[i] = lift(tree, i, player, to_children(level, inner))
  return Sweep(tuple(nodes), nodes[0][0], tuple(parents))


def _best_over_children(tree, setting, index, values, num_parents, player, moved):
  level = tree.structure.levels[index]
  total = best = None
  if moved is not True:
    total = reduce_children(level, lower(tree, index, player, values), num_parents)
  if moved is not False:
    candidates = values
    if setting.exists is not None:
      candidates = jnp.where(setting.exists[index] > 0, values, -jnp.inf)
    candidates = lower(tree, index, player, candidates, maximum=True)
    best = reduce_children(level, candidates, num_parents, maximum=True)
    best = jnp.where(jnp.isfinite(best), best, 0.0)  # infostates that do not exist
  if total is None or best is None:
    return best if total is None else total
  start = tree.structure.offsets[index - 1]
  kind = tree.kind[start : start + num_parents, None]
  return jnp.where(kind == player, best, total)


def weigh_leaf_values(
  tree: PublicTree,
  setting: Setting,
  values: jax.Array,
  opponent_reach: Levels,
  player: int,
) -> jax.Array:
  """Turns expected values at the leaves `[L, H]` into counterfactual values `[L, H]`."""
  reach = counterfactual_leaf_reach(tree, setting, opponent_reach, 1 - player)
  return values * compatible_mass(setting, reach, player)


def normalise_policy(tree: PublicTree, setting: Setting, weights: Levels) -> Levels:
  """Divides non-negative weights of edges by their sum over the mover's choices.

  Where all are zero the choices are equally likely. Rows that no player moved to are one, and
  rows of padding zero.
  """
  policy = [jnp.ones_like(weights[0])]
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    actor = level.parent_actor
    exists = jnp.ones_like(weights[i])
    if setting.exists is not None:
      exists = exists * setting.exists[i]
    if actor == CHANCE:
      policy.append(exists)
      continue
    normalised = exists
    for player in (0, 1):
      moved = moves_at(tree, setting, i, player)
      if moved is not False:
        rows = normalise_rows(tree, setting, i, player, weights[i])
        normalised = choose(moved, rows, normalised)
    policy.append(normalised)
  return tuple(policy)


def normalise_rows(
  tree: PublicTree, setting: Setting, index: int, player: int, weights: jax.Array
) -> jax.Array:
  """Divides weights `[n, H]` of level `index` by their sum over `player`'s choices.

  Where all are zero the choices are equally likely. Rows that `player` did not move to are
  meaningless.
  """
  exists = jnp.ones_like(weights)
  if setting.exists is not None:
    exists = exists * setting.exists[index]
  real = exists
  if setting.own_possible is not None and tree.infostate_parent is not None:
    real = exists * setting.own_possible[player][index]
  share, total = _share(tree, index, player, weights * real)
  fallback, _ = _share(tree, index, player, real)
  rows = jnp.where(total > 0, share, fallback)
  if tree.infostate_parent is not None:
    # Impossible infostates come from nowhere: any number will do, and one is harmless.
    rows = jnp.where(real > 0, rows, exists)
  return rows


def _share(tree: PublicTree, index: int, player: int, rows: jax.Array):
  """Returns each row's share of its siblings' sum, and that sum, both `[n, H]`."""
  level = tree.structure.levels[index]
  above = tree.structure.levels[index - 1].num_inner
  total = reduce_children(level, lower(tree, index, player, rows), above)
  total = lift(tree, index, player, to_children(level, total))
  return rows / jnp.where(total > 0, total, 1.0), total
