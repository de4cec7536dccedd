"""Arrays over the nodes of a tree, kept as one array a level, and moved between levels.

Level sizes are static, so nothing has to be cut out of a larger array inside a solver's loop.
"""

import functools
import itertools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games.public_tree import Array, Level, PublicTree
from solvers import tuning

Levels = tuple[jax.Array, ...]  # one [n, H] for each level of the tree


def split_levels(tree: PublicTree, nodes: Array) -> Levels:
  """Cuts an array over nodes `[N, ...]` into one array a level."""
  nodes = jnp.asarray(nodes)
  return tuple(nodes[a:b] for a, b in itertools.pairwise(tree.structure.offsets))


def join_levels(levels: Levels) -> jax.Array:
  """Joins one array a level into an array over nodes `[N, ...]`."""
  return jnp.concatenate(levels, axis=0)


def take_rows(rows: jax.Array, places: np.ndarray) -> jax.Array:
  """Takes rows by static places; -1 takes a row of zeros."""
  if len(places) and (np.diff(places) == 1).all() and places[0] >= 0:
    return rows[places[0] : places[0] + len(places)]
  taken = rows.at[np.maximum(places, 0)].get(mode="promise_in_bounds")
  return taken if (places >= 0).all() else jnp.where((places >= 0)[:, None], taken, 0)


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
    return reduce_gathered(level.parents, children, num_parents, maximum=maximum)
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


_MANY_CHILDREN = 8  # a node of chance has dozens, one of a player hardly more than these


def reduce_gathered(
  parents: np.ndarray, children: jax.Array, num_parents: int, *, maximum: bool = False
) -> jax.Array:
  """Sums (or maximises) over each parent's children by index: `[n, H]` to `[num_parents, H]`."""
  # `parents` `[n]` are static. Those of many children are apart, so as not to pad to them.
  combine, fill = (jnp.maximum, -jnp.inf) if maximum else (jnp.add, 0.0)
  counts = np.bincount(parents, minlength=num_parents)
  table = _child_table(parents, counts)
  padded = jnp.concatenate([children, jnp.full_like(children[:1], fill)])
  few, many = np.flatnonzero(counts <= _MANY_CHILDREN), np.flatnonzero(counts > _MANY_CHILDREN)
  parts = []
  if len(few):
    slots = table[few, : max(counts[few].max(), 1)].T
    parts.append(functools.reduce(combine, (padded[slot] for slot in slots)))
  if len(many):
    gathered = padded[table[many]]
    parts.append(gathered.max(axis=1) if combine is jnp.maximum else gathered.sum(axis=1))
  if len(parts) == 1:
    return parts[0]
  return jnp.concatenate(parts)[np.argsort(np.concatenate([few, many]))]


def _child_table(parents: np.ndarray, counts: np.ndarray) -> np.ndarray:
  """Returns each parent's children, filled up with `n`: `[num_parents, most children]`."""
  order = np.argsort(parents, kind="stable")
  slot = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
  table = np.full((len(counts), counts.max()), len(parents))
  table[parents[order], slot] = order
  return table


# With more infostates than this a CPU adds numbers one by one to where they belong; with fewer, and
# elsewhere, all pairs of infostates are looked at, which has a fixed order.
_MANY_INFOSTATES = 32


def lift(tree: PublicTree, index: int, player: int, rows: jax.Array) -> jax.Array:
  """Reindexes rows of level `index` from the parents' infostates to the nodes' own."""
  if tree.infostate_parent is None:
    return rows
  start, stop = tree.structure.offsets[index : index + 2]
  first, last = _changed(tree, index, player)
  parents = tree.infostate_parent[start:stop, player][first:last]
  if first == last:
    return rows
  return _with_rows(rows, first, last, jnp.take_along_axis(rows[first:last], parents, axis=1))


def lower(
  tree: PublicTree, index: int, player: int, rows: jax.Array, *, maximum: bool = False
) -> jax.Array:
  """Sums (or maximises) rows of level `index` over infostates of the same parent infostate."""
  if tree.infostate_parent is None:
    return rows
  start, stop = tree.structure.offsets[index : index + 2]
  if tree.possible is not None:
    possible = tree.possible[start:stop, player]
    rows = jnp.where(possible, rows, -jnp.inf if maximum else 0.0)
  first, last = _changed(tree, index, player)
  if first == last:
    return rows
  parents = jnp.asarray(tree.infostate_parent)[start:stop, player][first:last]  # [n, H]
  there = rows[first:last]
  one_by_one = tree.num_infostates > _MANY_INFOSTATES and tuning.on_cpu()
  lowered = (_lower_one_by_one if one_by_one else _lower_by_pairs)(parents, there, maximum=maximum)
  return _with_rows(rows, first, last, lowered)


def _changed(tree: PublicTree, index: int, player: int) -> tuple[int, int]:
  """Returns the nodes of level `index` among which `player`'s infostates change."""
  level = tree.structure.levels[index]
  return (0, level.size) if level.changed is None else level.changed[player]


def _with_rows(rows: jax.Array, first: int, last: int, new: jax.Array) -> jax.Array:
  if last - first == len(rows):
    return new
  return jnp.concatenate([rows[:first], new, rows[last:]])


def _lower_by_pairs(parents: jax.Array, rows: jax.Array, *, maximum: bool) -> jax.Array:
  above = jnp.arange(rows.shape[1], dtype=parents.dtype)
  from_parent = parents[:, :, None] == above[None, None]  # [n, H, H above]
  reduce, fill = (jnp.max, -jnp.inf) if maximum else (jnp.sum, 0.0)
  return reduce(jnp.where(from_parent, rows[:, :, None], fill), axis=1)


def _lower_one_by_one(parents: jax.Array, rows: jax.Array, *, maximum: bool) -> jax.Array:
  node = jnp.arange(len(rows))[:, None]
  empty = jnp.full_like(rows, -jnp.inf if maximum else 0.0).at[node, parents]
  return empty.max(rows) if maximum else empty.add(rows)


def chance_reach(tree: PublicTree, dtype) -> Levels:
  """Returns the product of chance's probabilities up to each node: `[n, 1]` a level."""
  chance = [jnp.ones((1, 1), dtype)]
  for i, level in enumerate(tree.structure.levels[1:], start=1):
    below = to_children(level, chance[-1])
    if tree.chance_probability is not None:
      start, stop = tree.structure.offsets[i : i + 2]
      below = below * tree.chance_probability[start:stop, None]
    chance.append(below)
  return tuple(chance)
