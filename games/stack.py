"""Stacks public trees of different roots into one batch of a common shape."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.build import add_payoff_runs, level_shape
from games.pairs import num_live_cards
from games.public_tree import (
  PADDING,
  Level,
  PublicTree,
  TreeStructure,
  check_is_tree,
  group_of,
  note_changes,
  plan_sweeps,
)

# What an array holds where a stacked tree has no node, leaf or terminal node. A padded
# infostate counts as possible so that beliefs stay finite; its reach is zero all the same.
_FILL = {
  "parent": -1,
  "action": -1,
  "kind": PADDING,
  "leaf_actor": PADDING,
  "possible": True,
  "dealt": -1,
}
# Fields of a tree as a whole, and beginnings of the names of those of its leaves and ends.
_WHOLE = ("prior", "pair_weights", "root_pair_index", "root_features", "hands", "origin")
_ROWS = {"leaf": "leaf_", "terminal": "payoff_"}
# With more than these, a payoff table for each terminal node is more than there is room for.
_MANY_INFOSTATES = 32
# Fields that are joined for the batch as a whole rather than placed tree by tree.
_JOINED = (
  "structure", "depth_limited", "compatible", "padded", "payoffs", "strengths", "num_cards",
  "hands_per_card", "leaf_nodes", "terminal_nodes",
)  # fmt: skip


def stack_trees(trees: Sequence[PublicTree]) -> PublicTree:
  """Stacks trees for `jax.vmap`: every array gains a leading axis `[B]`.

  Nodes of different trees share a place if the same actions lead to them from their roots
  and they are of the same group (inner, leaf, terminal). Places that a tree does not have are
  padding: kind `PADDING`, policy zero. Trees of equal structure are stacked as they are.

  Args:
    trees: at least one tree, of one game.

  Returns:
    A tree whose arrays have a leading axis `[B]`.

  Raises:
    ValueError: no trees, or trees of different numbers of infostates, features or state
      integers.
  """
  trees = list(trees) if isinstance(trees, Iterable) else [trees]
  if not trees:
    raise ValueError("stack_trees needs at least one tree, got none")
  for tree in trees:
    check_is_tree(tree, "trees")
  for name, index in (("prior", -1), ("state", -1), ("root_features", -1)):
    sizes = {np.shape(getattr(tree, name))[index] for tree in trees}
    if len(sizes) > 1:
      raise ValueError(f"trees of different games cannot be stacked: {name} sizes {sizes}")
  structure, places = _common_structure(trees)
  columns: dict[str, Any] = {}
  for name in (field.name for field in dataclasses.fields(PublicTree)):
    if name in _JOINED:
      continue
    values = [getattr(tree, name) for tree in trees]
    columns[name] = None
    if any(value is not None for value in values):
      rows = [_place(name, *row, structure) for row in zip(values, trees, places)]
      columns[name] = np.stack(rows)
  for name in ("leaf_nodes", "terminal_nodes"):
    columns[name] = np.tile(getattr(structure, name), (len(trees), 1))
  one_table = all(len(tree.payoffs) == 1 and tree.hands is None for tree in trees)
  if one_table and trees[0].num_infostates > _MANY_INFOSTATES:
    structure = add_payoff_runs(structure, np.zeros(structure.num_terminals, int), gathered=False)
  if columns["infostate_parent"] is not None:
    structure = note_changes(structure, columns["infostate_parent"], columns["possible"])
  for name in ("payoffs", "strengths"):
    columns[name] = _stack_tables([getattr(tree, name) for tree in trees])
  hands_per_card = [tree.hands_per_card for tree in trees]
  if any(hands_per_card):  # all pairs of some cards beside a list are taken for one
    hands_per_card = [x.hands_per_card or num_live_cards(x.num_infostates) - 1 for x in trees]
  return PublicTree(
    **columns,
    structure=structure,
    depth_limited=any(tree.depth_limited for tree in trees),
    compatible=all(tree.compatible for tree in trees),
    padded=any(tree.padded or tree.num_nodes < structure.num_nodes for tree in trees),
    num_cards=max(tree.num_cards for tree in trees),
    hands_per_card=max(hands_per_card),
  )


def take(stack: PublicTree, which: Any) -> PublicTree:
  """Returns one tree of a stack, for an integer, or the stack of several.

  Args:
    stack: `B` trees, as `stack_trees` returns them.
    which: an integer below `B`, or integers or a mask as arrays are indexed with; may be traced.

  Raises:
    TypeError: `stack` is no tree.
    ValueError: it is one tree.
    IndexError: there is no such tree.
  """
  check_is_tree(stack, "stack")
  if np.ndim(stack.prior) != 3:
    raise ValueError("stack is one tree; take chooses from those of games.stack_trees")
  xp: Any = jnp if isinstance(which, jax.Array) else np
  return jax.tree.map(lambda x: (x if hasattr(x, "at") else xp.asarray(x))[which], stack)


def _common_structure(trees: Sequence[PublicTree]) -> tuple[TreeStructure, list[np.ndarray]]:
  """Returns the union of the trees' shapes and each tree's nodes' places in it."""
  if all(tree.structure == trees[0].structure for tree in trees):
    same_actions = all(np.array_equal(tree.action, trees[0].action) for tree in trees)
    if same_actions:
      return trees[0].structure, [np.arange(trees[0].num_nodes)] * len(trees)
  # Position within its level of each node of each tree, one level at a time.
  above = [np.zeros(1, int) for _ in trees]
  places = [[np.zeros(1, int)] for _ in trees]
  levels = [Level(num_inner=1, num_leaves=0, num_terminals=0)]
  offset = 1
  for depth in range(1, max(tree.structure.depth for tree in trees) + 1):
    keys, owners, parent_kinds = [], [], []
    for i, tree in enumerate(trees):
      if depth > tree.structure.depth:
        continue
      start, stop = tree.structure.offsets[depth : depth + 2]
      local = tree.structure.levels[depth].parents
      first_above = tree.structure.offsets[depth - 1]
      kind, action = np.asarray(tree.kind[start:stop]), np.asarray(tree.action[start:stop])
      keys.append(np.stack([group_of(kind), action, above[i][local]], axis=1))
      owners.append(i)
      parent_kinds.append(np.asarray(tree.kind)[first_above + local])
    # Sorted by group, then action, then parent: the order that trees are built in.
    union, inverse = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    place_of = np.split(inverse.reshape(-1), np.cumsum([len(k) for k in keys])[:-1])
    levels.append(level_shape(union[:, 0], union[:, 2], np.concatenate(parent_kinds)))
    for owner, place in zip(owners, place_of):
      above[owner] = place
      places[owner].append(place + offset)
    offset += len(union)
  return plan_sweeps(levels), [np.concatenate(place) for place in places]


def _place(
  name: str, value: Any, tree: PublicTree, place: np.ndarray, structure: TreeStructure
) -> np.ndarray:
  """Returns one tree's array in the common shape."""
  if name in _WHOLE:
    return np.asarray(value)
  fill: Any = _FILL.get(name, 0)
  size, h = structure.num_nodes, tree.num_infostates
  for group in ("leaf", "terminal"):
    if name.startswith(_ROWS[group]):
      common = getattr(structure, f"{group}_nodes")
      size, place = len(common), np.searchsorted(common, place[getattr(tree, f"{group}_nodes")])
  if name == "infostate_parent":
    fill = np.arange(h, dtype=np.int32)
  if value is None:  # other trees of the batch do need it
    ones: Any = {"possible": np.ones((2, h), bool), "chance_probability": tree.prior.dtype.type(1)}
    one = ones.get(name, fill)
    value = np.broadcast_to(one, (tree.num_nodes, *((2, h) if np.ndim(one) else ())))
  value = np.asarray(value)
  if name == "parent":
    value = np.where(value >= 0, place[value], -1).astype(value.dtype)
  rows = np.moveaxis(value, 1, 0) if name == "leaf_features" else value
  out = np.full((size, *rows.shape[1:]), fill, rows.dtype)
  out[place] = rows
  return np.moveaxis(out, 0, 1) if name == "leaf_features" else out


def _stack_tables(tables: Sequence[Any]) -> np.ndarray | None:
  """Stacks each tree's own tables, so that indices into them stay: `[B, K, ...]`."""
  if tables[0] is None:
    return None
  arrays = [np.asarray(table) for table in tables]
  most = max(len(t) for t in arrays)
  return np.stack([np.pad(t, ((0, most - len(t)), *((0, 0),) * (t.ndim - 1))) for t in arrays])
