"""Depth-limited trees made whole: at each leaf players choose how play goes on, and it ends."""

import dataclasses
import itertools
import zlib

import numpy as np

from games.arrays import checked
from games.build import LARGE_TABLE, add_payoff_runs, level_shape
from games.pairs import DensePairs
from games.public_tree import (
  LEAF,
  PLAYER_0,
  PLAYER_1,
  TERMINAL,
  Array,
  PublicTree,
  TreeStructure,
  group_of,
)


@dataclasses.dataclass(frozen=True)
class Extended:
  """A depth-limited tree whose leaves have become choices of continuations.

  Attributes:
    tree: whole, so that all that solves or measures whole trees does so with this one. It has
      `H * k0` infostates if both players choose, else `H`; those from `H` on are for leaves alone.
    places: `[n]` where the nodes of the depth-limited tree are in it.
    num_infostates: `H` of the depth-limited tree.
  """

  tree: PublicTree
  places: np.ndarray
  num_infostates: int

  def of_top(self, policy: Array) -> np.ndarray:
    """Returns the part of a policy `[N, H']` of `tree` on the depth-limited tree: `[n, H]`."""
    return np.asarray(policy)[self.places][:, : self.num_infostates]

  def to_whole(self, rows: Array, fill: float = 1.0) -> np.ndarray:
    """Puts `rows` `[n, H]` of the depth-limited tree's nodes among those of `tree`: `[N, H']`."""
    rows = np.asarray(rows)
    whole = np.full((self.tree.num_nodes, self.tree.num_infostates), fill, rows.dtype)
    whole[self.places, : self.num_infostates] = rows
    return whole

  def pad(self, beliefs: Array) -> np.ndarray:
    """Returns beliefs `[..., H]` with zeros for the infostates of the leaves: `[..., H']`."""
    more = self.tree.num_infostates - self.num_infostates
    return np.pad(np.asarray(beliefs), [(0, 0)] * (np.ndim(beliefs) - 1) + [(0, more)])


@checked
def with_continuations(top: PublicTree, tables: Array) -> Extended:
  """Lets players choose, at every leaf of a depth-limited tree, how they play from there on.

  Each infostate chooses for itself, at each leaf anew (thesis, section 5.2). If both players have
  several continuations then neither sees the other's choice: player 0's is a hidden move.

  Args:
    top: one depth-limited tree, its infostates in tables.
    tables: `[L, k0, k1, H, H]` values of pairs of infostates to player 0 at each leaf, for both
      players' choices: expected payoff times the pair's weight, as of
      `solvers.contrib.pair_values`.

  Returns:
    The whole tree, of the same dtype. Choice a of a player who chooses openly is its action a; the
    hidden one is action 0 and leads from infostate h to `h * k0 + a`. Its mark (`origin`) is that
    of no game.

  Raises:
    ValueError: `top` is stacked, padded or not depth-limited, its infostates are hands of cards, or
      `tables` have the wrong shape or are not finite.
  """
  _check_top(top)
  tables = np.asarray(tables, float)
  h, num_leaves = top.num_infostates, top.num_leaves
  if tables.ndim != 5 or 0 in tables.shape or tables[:, 0, 0].shape != (num_leaves, h, h):
    raise ValueError(
      f"tables of shape {tables.shape} must have shape ({num_leaves}, k0, k1, {h}, {h}), that is "
      "(L, k0, k1, H, H)"
    )
  if not np.isfinite(tables).all():
    raise ValueError("tables hold infinite values or NaN; payoffs must be finite")
  first, second = tables.shape[1:3]
  hidden = first > 1 and second > 1
  grown = _Columns.of(top, h * first if hidden else h)
  leaves = np.asarray(top.leaf_nodes)
  if hidden:
    grown.kind[leaves] = PLAYER_0
    origins = np.full((2, h * first), -1)
    origins[0], origins[1, :h] = np.repeat(np.arange(h), first), np.arange(h)
    choosing = grown.add(leaves, np.zeros(num_leaves, int), PLAYER_1, origins)
    tables = _of_hidden_choices(tables)
  else:
    choosing = leaves
    grown.kind[leaves] = PLAYER_0 if first > 1 else PLAYER_1
    tables = tables.reshape(num_leaves, first * second, h, h)
  choices = tables.shape[1]
  stay = np.tile(np.arange(grown.num_infostates), (2, 1))
  grown.add(np.tile(choosing, choices), np.repeat(np.arange(choices), num_leaves), TERMINAL, stay)
  added = np.swapaxes(tables, 0, 1).reshape(-1, *tables.shape[2:])  # in the order of the nodes
  return _assemble(top, grown, added)


def _check_top(top: PublicTree) -> None:
  if np.ndim(top.kind) != 1 or top.padded:
    raise ValueError("top is stacked or padded; continuations are added to one tree at a time")
  if top.hands is not None:
    raise ValueError(
      f"top has {top.num_infostates} hands of cards as infostates, too many for tables of pairs"
    )
  if not top.depth_limited:
    raise ValueError("top has no leaves; build it with a depth")


def _of_hidden_choices(tables: np.ndarray) -> np.ndarray:
  """Makes player 0's choice a part of its infostate: to `[L, k1, H * k0, H * k0]`."""
  num_leaves, first, second, h, _ = tables.shape
  rows = np.transpose(tables, (0, 2, 3, 1, 4)).reshape(num_leaves, second, h * first, h)
  return np.pad(rows, ((0, 0), (0, 0), (0, 0), (0, h * first - h)))


@dataclasses.dataclass
class _Columns:
  """Arrays over the nodes of a tree that grows at its end, out of order."""

  num_infostates: int
  parent: np.ndarray  # [N]
  action: np.ndarray  # [N]
  kind: np.ndarray  # [N]
  level: np.ndarray  # [N]
  state: np.ndarray  # [N, S]
  probability: np.ndarray  # [N]
  possible: np.ndarray  # [N, P, H']
  infostate_parent: np.ndarray  # [N, P, H']

  @classmethod
  def of(cls, top: PublicTree, num_infostates: int) -> "_Columns":
    """Returns the columns of a tree, with room for `num_infostates`."""
    n, h = top.num_nodes, top.num_infostates
    possible = np.zeros((n, 2, num_infostates), bool)
    possible[..., :h] = True if top.possible is None else top.possible
    infostate_parent = np.tile(np.arange(num_infostates), (n, 2, 1))
    if top.infostate_parent is not None:
      infostate_parent[..., :h] = top.infostate_parent
    return cls(
      num_infostates=num_infostates,
      parent=np.array(top.parent),
      action=np.array(top.action),
      kind=np.array(top.kind),
      level=np.repeat(np.arange(top.structure.depth + 1), np.diff(top.structure.offsets)),
      state=np.array(top.state),
      probability=np.ones(n)
      if top.chance_probability is None
      else np.array(top.chance_probability),
      possible=possible,
      infostate_parent=infostate_parent,
    )

  def add(self, parents: np.ndarray, actions: np.ndarray, kind: int, origins: np.ndarray):
    """Adds a child of each of `parents` whose infostates come from `origins` `[P, H']`."""
    n, new = len(self.parent), len(parents)
    source = np.tile(np.maximum(origins, 0), (new, 1, 1))
    possible = np.take_along_axis(self.possible[parents], source, axis=2) & (origins >= 0)
    for name, rows in (
      ("parent", parents),
      ("action", actions),
      ("kind", np.full(new, kind)),
      ("level", self.level[parents] + 1),
      ("state", self.state[parents]),
      ("probability", np.ones(new)),
      ("possible", possible),
      ("infostate_parent", source),
    ):
      column = getattr(self, name)
      setattr(self, name, np.concatenate([column, rows.astype(column.dtype)]))
    return np.arange(n, n + new)


def _assemble(top: PublicTree, grown: _Columns, added: np.ndarray) -> Extended:
  """Sorts the nodes by level, within it inner nodes first, and makes the tree of them."""
  assert not (grown.kind == LEAF).any()
  ends = grown.kind == TERMINAL
  # Stable: the nodes of `top` keep their order, and what is added stays action-major.
  order = np.lexsort((ends, grown.level))
  rank = np.argsort(order)
  kind, level = grown.kind[order], grown.level[order]
  parent = np.where(grown.parent >= 0, rank[grown.parent], -1)[order]
  offsets = np.searchsorted(level, np.arange(level[-1] + 2))
  shapes, first_above = [], 0
  for start, stop in itertools.pairwise(offsets):
    above = parent[start:stop]
    actors = kind[above] if start else kind[:0]
    shapes.append(level_shape(group_of(kind[start:stop]), above - first_above, actors))
    first_above = start

  h, more = top.num_infostates, grown.num_infostates - top.num_infostates
  table = np.full(len(order), -1)
  table[np.asarray(top.terminal_nodes)] = top.payoff_index
  table[top.num_nodes :][ends[top.num_nodes :]] = np.arange(len(added)) + len(top.payoffs)
  scale = np.ones(len(order))
  scale[np.asarray(top.terminal_nodes)] = top.payoff_scale
  index = table[order][ends[order]]
  grow = ((0, 0), (0, more), (0, more))
  pairs = DensePairs(
    np.pad(top.pair_weights, grow), np.concatenate([np.pad(top.payoffs, grow), added])
  )
  hidden = top.infostate_parent is not None or more > 0
  uncertain = top.chance_probability is not None
  possible = grown.possible[order]
  tree = dataclasses.replace(
    top,
    parent=parent.astype(np.int32),
    action=grown.action[order],
    kind=kind,
    state=grown.state[order],
    leaf_nodes=np.zeros(0, np.int32),
    terminal_nodes=np.flatnonzero(ends[order]).astype(np.int32),
    prior=np.pad(top.prior, ((0, 0), (0, more))),
    possible=None if possible.all() else possible,
    chance_probability=grown.probability[order] if uncertain else None,
    infostate_parent=grown.infostate_parent[order].astype(np.int32) if hidden else None,
    pair_weights=pairs.weights,
    payoffs=pairs.payoffs,
    payoff_index=index.astype(np.int32),
    payoff_scale=scale[order][ends[order]],
    leaf_features=np.asarray(top.leaf_features)[:, :0],
    leaf_pair_index=np.zeros(0, np.int32),
    leaf_actor=np.zeros(0, np.int8),
    structure=add_payoff_runs(
      TreeStructure(tuple(shapes)), index, gathered=grown.num_infostates <= LARGE_TABLE
    ),
    depth_limited=False,
    compatible=top.compatible and more == 0,
    origin=_mark(top, added),
  )
  return Extended(tree.astype(top.dtype), rank[: top.num_nodes], h)


def _mark(top: PublicTree, added: np.ndarray) -> np.ndarray | None:
  """Returns the mark of the tree: that of `top`, with the tables among its payoffs."""
  if top.origin is None:
    return None
  mark = np.array(top.origin)
  mark[-1] = zlib.crc32(np.ascontiguousarray(added).tobytes(), int(mark[-1]))
  return mark
