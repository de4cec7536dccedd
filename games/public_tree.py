"""Public trees as fixed-shape arrays: the data that every solver works on.

Nodes are stored in breadth-first order. A level is split into inner nodes, leaves and
terminal nodes, in that order, and each of these holds its nodes by the action that led there
(*action-major*). The children of one action then form a few contiguous runs, each aligned
with a contiguous run of parents, so a sweep down is a concatenation of slices and a sweep up
a sum of slices: no gather and no scatter in the hot loop. `docs/tensors.md` shows the
layout and what it was measured against.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from games.arrays import checked, short, xp

__all__ = [
  "LEAF", "PADDING", "Array", "Level", "PublicTree", "TreeStructure", "check_is_tree",
  "group_of", "largest_payoff", "note_changes", "plan_sweeps",
]  # fmt: skip

# Kinds of public states and of nodes: the mover, or none.
PLAYER_0 = 0
PLAYER_1 = 1
CHANCE = 2
TERMINAL = 3
LEAF = 4  # a decision or chance state at the depth limit; its value comes from outside
PADDING = 5  # a node of the common shape of stacked trees that this tree does not have

Array = jax.Array | np.ndarray  # numpy in a built tree, JAX's own while traced


@dataclasses.dataclass(frozen=True)
class Level:
  """The static shape of one level of a public tree.

  Attributes:
    num_inner, num_leaves, num_terminals: how many nodes have children, are cut off by the
      depth limit, and end the game, in the order in which the level stores them.
    runs: `(start, stop)` for each contiguous run of parents, by their position in the level
      above, whose children follow each other here. Empty for the root's level.
    parent_actor: 0, 1 or `CHANCE` if every node here was reached by that actor's move,
      None if that differs between nodes or between stacked trees.
    movers: every actor by whose move a node here was reached; empty if that is not known.
    changed: for each player a range `(start, stop)` of nodes here that holds all where its
      infostates are not numbered as at the parent; None if that is not known.
    payoff_runs: `(table, start, stop)` for each run of this level's terminal nodes, counted
      from the first of them, that share a payoff table; None if there are many, or if they
      differ between stacked trees.
    sliced: whether sweeps take this level's runs one by one, or gather nodes by index, which is
      slower but small to compile. `plan_sweeps` decides.
  """

  num_inner: int
  num_leaves: int
  num_terminals: int
  runs: tuple[tuple[int, int], ...] = ()
  parent_actor: int | None = None
  payoff_runs: tuple[tuple[int, int, int], ...] | None = None
  sliced: bool = True
  movers: tuple[int, ...] = ()
  changed: tuple[tuple[int, int], tuple[int, int]] | None = None

  @property
  def size(self) -> int:
    return self.num_inner + self.num_leaves + self.num_terminals

  @functools.cached_property
  def parents(self) -> np.ndarray:
    """Position in the level above of each node's parent, `[size]`."""
    return np.concatenate([np.zeros(0), *(np.arange(*x) for x in self.runs)]).astype(np.int32)


def group_of(kind: np.ndarray) -> np.ndarray:
  """Returns the group of nodes of each `kind`, in their order: 0 inner, 1 leaf, 2 terminal."""
  return np.where(kind == LEAF, 1, np.where(kind == TERMINAL, 2, 0))


@dataclasses.dataclass(frozen=True)
class TreeStructure:
  """The static shape of a public tree; trees of equal structure can be stacked."""

  levels: tuple[Level, ...]

  @functools.cached_property
  def offsets(self) -> tuple[int, ...]:
    """First node of each level, and the number of nodes as the last entry."""
    return tuple(np.cumsum([0] + [level.size for level in self.levels]).tolist())

  @functools.cached_property
  def parents(self) -> np.ndarray:
    """`[N]` the node before each, -1 at the root."""
    below = zip(self.offsets, self.levels[1:])
    return np.concatenate([[-1], *(start + level.parents for start, level in below)])

  @functools.cached_property
  def leaf_offsets(self) -> tuple[int, ...]:
    return tuple(np.cumsum([0] + [level.num_leaves for level in self.levels]).tolist())

  @functools.cached_property
  def terminal_offsets(self) -> tuple[int, ...]:
    return tuple(np.cumsum([0] + [level.num_terminals for level in self.levels]).tolist())

  @functools.cached_property
  def leaf_nodes(self) -> np.ndarray:
    """`[L]` the leaves' places among the nodes."""
    starts = zip(self.offsets, self.levels)
    parts = [np.arange(level.num_leaves) + start + level.num_inner for start, level in starts]
    return np.concatenate(parts)

  @functools.cached_property
  def terminal_nodes(self) -> np.ndarray:
    """`[T]` the terminal nodes' places among the nodes."""
    ends = zip(self.offsets[1:], self.levels)
    parts = [np.arange(end - level.num_terminals, end) for end, level in ends]
    return np.concatenate(parts)

  @property
  def num_nodes(self) -> int:
    return self.offsets[-1]

  @property
  def num_leaves(self) -> int:
    return self.leaf_offsets[-1]

  @property
  def num_terminals(self) -> int:
    return self.terminal_offsets[-1]

  @property
  def depth(self) -> int:
    return len(self.levels) - 1


_MAX_RUNS = 16
_FEW_OUTCOMES = 8  # of chance
_MAX_RUNS_DEALT = 8
_SMALL_SHARE = 1 / 64  # of a tree's nodes: a level too small for its speed to matter
_LARGE_TREE = 2**14
_MANY_INFOSTATES = 32  # of hidden moves
_MAX_RUNS_HIDDEN = 2


def plan_sweeps(levels: Iterable[Level]) -> TreeStructure:
  """Returns the structure of these levels, each with `sliced` decided."""
  # Every run is code to compile. Levels of very many runs are gathered, and so are the small levels
  # of large trees: in Liar's Dice 2x4f they have more than half of the runs and hardly any nodes.
  # Below a deal of many cards the runs are short, and slicing them is slow to compile for nothing.
  levels = tuple(levels)
  nodes = sum(level.size for level in levels)
  planned = []
  dealt = False
  for level in levels:
    dealt |= CHANCE in level.movers and int(np.bincount(level.parents).max()) > _FEW_OUTCOMES
    small = nodes >= _LARGE_TREE and level.size < nodes * _SMALL_SHARE
    most = 2 if small else (_MAX_RUNS_DEALT if dealt else _MAX_RUNS)
    planned.append(dataclasses.replace(level, sliced=len(level.runs) <= most))
  return TreeStructure(tuple(planned))


def gathered(structure: TreeStructure) -> TreeStructure:
  """Returns `structure` with no level sliced, for one tree on an accelerator."""
  # An index costs less than a kernel there, and a gathered row is computed where it is needed.
  levels = (dataclasses.replace(level, sliced=False) for level in structure.levels)
  return TreeStructure(tuple(levels))


def note_changes(
  structure: TreeStructure, infostate_parent: np.ndarray, possible: np.ndarray | None
) -> TreeStructure:
  """Notes which nodes of a level change infostates: `[..., N, P, H]` both, `possible` or None."""
  # Where infostates are many, rows are long: gathering them costs nothing beside the rest, and
  # slicing levels of more than a few runs would take minutes to compile.
  moved = infostate_parent != np.arange(infostate_parent.shape[-1])
  if possible is not None:
    moved &= possible
  moved = moved.any(axis=-1).reshape(-1, *moved.shape[-3:-1]).any(axis=0)  # [N, P]
  levels = []
  for level, start in zip(structure.levels, structure.offsets):
    rows = moved[start : start + level.size]
    first, last = rows.argmax(axis=0), len(rows) - rows[::-1].argmax(axis=0)
    bounds = np.where(rows.any(axis=0), [first, last], 0)
    changed = ((int(bounds[0, 0]), int(bounds[1, 0])), (int(bounds[0, 1]), int(bounds[1, 1])))
    most = _MAX_RUNS_HIDDEN if infostate_parent.shape[-1] > _MANY_INFOSTATES else _MAX_RUNS
    sliced = level.sliced and len(level.runs) <= most
    levels.append(dataclasses.replace(level, changed=changed, sliced=sliced))
  return TreeStructure(tuple(levels))


_STATIC = {"static": True}  # for JAX: known while tracing


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class PublicTree:
  """A public tree, whole or depth-limited, as arrays.

  Shapes are those of one tree; `games.stack_trees` adds a leading axis to every array.
  Arrays that a game does not need are None, which is known while tracing.

  Attributes:
    parent: `[N]` node before the last public action, -1 at the root and for padding.
    action: `[N]` public action that led here, -1 at the root and for padding.
    kind: `[N]` 0 or 1 (that player moves), `CHANCE`, `TERMINAL`, `LEAF` or `PADDING`.
    state: `[N, S]` the game's public state.
    leaf_nodes, terminal_nodes: `[L]` and `[T]` their places among the nodes.
    prior: `[P, H]` beliefs at the root unless a caller gives others, rows sum to one.
    possible: `[N, P, H]` whether the rules allow the infostate there; None: all, always.
    chance_probability: `[N]` of the chance outcome that led here, else 1; None: all are 1.
    infostate_parent: `[N, P, H]` infostate at the parent that an infostate here comes from
      (any index where impossible); None: infostates never change.
    pair_weights: `[C, H, H]` weights of pairs of infostates (player 0's, player 1's); `[1, 1, 1]`
      of one if the tree has `hands`, and so `payoffs`.
    root_pair_index, leaf_pair_index: `[]` and `[L]` which weights hold there.
    payoffs: `[K, H, H]` payoff to player 0 times the weight of the pair.
    payoff_index, payoff_scale: `[T]` the table and the factor of each terminal node.
    root_features, leaf_features: `[P, F]` and `[P, L, F]` as each player sees them.
    leaf_actor: `[L]` who moves at each leaf: 0, 1 or `CHANCE`; `PADDING` for padding.
    hands: `[H, 2]` the cards of each infostate, or None: pairs that share a card exclude each
      other, payoff table 0 is a fold's and 1 + k the showdown's of `strengths[k]`.
    strengths: `[K, H]` of hands on the boards of the tree's showdowns, higher wins, -1 where
      impossible; None without hands.
    dealt: `[N, k]` cards that chance dealt to get there, -1 for none; None without hands.
    origin: `[3]` mark of the game that it is of (`games.tabulate`); None if that is not known.
    structure: the static shape.
    depth_limited: whether the tree has leaves.
    compatible: whether every pair of infostates is possible with the same weight, so that an
      opponent's reach mass is one number.
    padded: whether some nodes may be padding.
    num_cards: cards are numbered below this; 0 without hands.
    hands_per_card: how many hands hold one card at most, where the hands are a list; 0 where they
      are all pairs of some cards.
  """

  parent: Array  # [N]
  action: Array  # [N]
  kind: Array  # [N]
  state: Array  # [N, S]
  leaf_nodes: Array  # [L]
  terminal_nodes: Array  # [T]
  prior: Array  # [P, H]
  possible: Array | None  # [N, P, H]
  chance_probability: Array | None  # [N]
  infostate_parent: Array | None  # [N, P, H]
  pair_weights: Array  # [C, H, H]
  root_pair_index: Array  # []
  leaf_pair_index: Array  # [L]
  payoffs: Array  # [K, H, H]
  payoff_index: Array  # [T]
  payoff_scale: Array  # [T]
  root_features: Array  # [P, F]
  leaf_features: Array  # [P, L, F]
  leaf_actor: Array  # [L]
  structure: TreeStructure = dataclasses.field(metadata=_STATIC)
  depth_limited: bool = dataclasses.field(metadata=_STATIC)
  compatible: bool = dataclasses.field(metadata=_STATIC)
  padded: bool = dataclasses.field(default=False, metadata=_STATIC)
  num_cards: int = dataclasses.field(default=0, metadata=_STATIC)
  hands_per_card: int = dataclasses.field(default=0, metadata=_STATIC)
  hands: Array | None = None  # [H, 2]
  strengths: Array | None = None  # [K, H]
  dealt: Array | None = None  # [N, k]
  origin: Array | None = None  # [3]

  @property
  def num_nodes(self) -> int:
    return self.structure.num_nodes

  @property
  def num_leaves(self) -> int:
    return self.structure.num_leaves

  @property
  def num_infostates(self) -> int:
    return self.prior.shape[-1]

  @property
  def dtype(self):
    return self.prior.dtype

  @checked
  def history(self, node: int) -> tuple[int, ...]:
    """Returns the public actions from this tree's root to `node` (unstacked trees only)."""
    if not 0 <= node < self.num_nodes:
      raise ValueError(f"node={node} must be from 0 to {self.num_nodes - 1}")
    parent, action = np.asarray(self.parent), np.asarray(self.action)
    actions = []
    while parent[node] >= 0:
      actions.append(int(action[node]))
      node = parent[node]
    return tuple(reversed(actions))

  @checked
  def astype(self, dtype: type | np.dtype | str) -> "PublicTree":
    """Returns the tree with its real-valued arrays in `dtype`.

    Raises:
      ValueError: numpy knows no such type.
    """
    try:
      np.dtype(dtype)
    except TypeError as error:
      raise ValueError(f"dtype={short(dtype)} must be a type of numbers: {error}") from None

    def convert(x):
      return x.astype(dtype) if np.issubdtype(x.dtype, np.floating) else x

    return jax.tree.map(convert, self)


def check_is_tree(tree, name: str = "tree", *, one: bool = False) -> None:
  """Raises a `TypeError` unless `tree` is a public tree, a `ValueError` unless just `one`."""
  if not isinstance(tree, PublicTree):
    raise TypeError(
      f"{name}={type(tree).__name__} must be a PublicTree, as games.build_public_tree returns it"
    )
  if one and np.ndim(tree.prior) != 2:
    raise ValueError(
      f"{name} is stacked (prior of shape {np.shape(tree.prior)}); use jax.vmap, "
      "solvers.solve_batch or games.take"
    )


def largest_payoff(tree: PublicTree) -> Array:
  """Returns the most that a player can win: a scalar, of the kind that the tree's arrays are."""
  largest = xp.abs(tree.payoff_scale).max()
  if tree.hands is not None:
    return largest
  weights = tree.pair_weights
  # Payoffs are there times the weights of pairs, known where one table of weights is for all.
  least = xp.where(weights > 0, weights, weights.max()).min() if len(weights) == 1 else 1.0
  return xp.maximum(largest * xp.abs(tree.payoffs).max() / least, xp.finfo(tree.dtype).tiny)


def payoff_bound(tree: PublicTree) -> Array:
  """Returns a bound of what a player can win, once payoffs are multiplied by weights: a scalar."""
  scale = xp.abs(tree.payoff_scale).max() if tree.payoff_scale.shape[-1] else 1.0
  return xp.abs(tree.payoffs).max() * xp.maximum(scale, 1.0)


class Depth(NamedTuple):
  """Public states after as many actions, and the moves from them."""

  first: int  # the number of the first state; those of earlier levels come before
  states: np.ndarray  # [n, S]
  kind: np.ndarray  # [n] who moves, or TERMINAL
  parent: np.ndarray  # [m] the place in `states` that each move is made from
  action: np.ndarray  # [m]
  child: np.ndarray  # [m] the number of the state that it leads to


def walk(
  game: Any,
  state: np.ndarray,
  *,
  merge: str = "",
  goes_on: Callable[[np.ndarray], np.ndarray] | None = None,
  most: float = np.inf,
) -> Iterator[Depth]:
  """Yields the levels below `state` `[S]`, itself the first; at most `most` states."""
  # `merge` makes equal states one, in each `"level"`, whose numbers then begin at zero, or in the
  # whole `"game"`. `goes_on` says below which of `[n, S]` states there are more.
  newest, first = np.asarray(state)[None], 0
  seen = {newest[0].tobytes(): 0}
  while len(newest):
    kind = np.asarray(game.actor(newest))
    places = np.flatnonzero(kind != TERMINAL)
    if goes_on is not None:
      places = places[goes_on(newest[places])]
    parent, action = np.nonzero(game.legal_actions(newest[places]))
    parent = places[parent]
    after = np.asarray(game.next_states(newest[parent], action), newest.dtype)
    last = first + len(newest)
    if merge == "level":
      seen, last = {}, 0
    child, following = last + np.arange(len(after)), after
    if merge:
      keys = [row.tobytes() for row in after]
      child = np.array([seen.setdefault(key, len(seen)) for key in keys], int)
      numbers, rows = np.unique(child, return_index=True)
      following = after[rows[numbers >= last]]
    if child.max(initial=0) >= most:
      raise ValueError(f"{game!r} has more than {most} public states; allow more")
    yield Depth(first, newest, kind, parent, action, child)
    newest, first = following, last
