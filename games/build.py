"""Builds public trees, of a game or of a depth-limited subgame, and stacks them into batches.

Trees are built level by level; their size is counted first. A stack has one common shape.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import as_array, checked, filled, integers, is_whole, short
from games.game import CHANCE, TERMINAL, Game
from games.pairs import Pairs, num_live_cards
from games.public_tree import (
  LEAF,
  PADDING,
  Level,
  PublicTree,
  TreeStructure,
  check_is_tree,
  group_of,
  note_changes,
  plan_sweeps,
  walk,
)
from games.tabulate import origin_of

MAX_BYTES = 2**32
Bytes = Annotated[float, (1, np.inf)]
_MAX_DEPTH = 10_000  # levels; programs of so many are never compiled
_MAX_EDGES = 2**18  # that are looked at to tell how much too large a tree is
_TABLE_BYTES = 2**31  # of a level's legal actions, whatever a tree may take
_COLUMNS = 6  # numbers of a node, such as its parent, beside its public state


def check_size(
  game: Game,
  state: np.ndarray,
  depth: int | None = None,
  stage: int | None = None,
  *,
  max_bytes: float = MAX_BYTES,
) -> None:
  """Counts a public tree's nodes by level; refuses one of over `max_bytes`, or without an end."""
  # Equal public states of a level have the same future, so each is followed once.

  def goes_on(states: np.ndarray) -> np.ndarray:
    here = np.ones(len(states), bool) if stage is None else game.stages(states) == stage
    table = here.sum() * game.num_actions * np.dtype(int).itemsize
    if table > max(max_bytes, _TABLE_BYTES):
      raise ValueError(
        f"game={game!r} has {game.num_actions} actions, too many to list at {here.sum()} nodes; "
        f"they take {table} bytes, and {max_bytes:.12g} are allowed (max_bytes, in code)"
      )
    return here

  times: Any = np.ones(1)
  nodes, width, edges, counted = 1.0, 0, 0, True
  levels = walk(game, state, merge="level", goes_on=goes_on)
  most = _MAX_DEPTH + 1 if depth is None else min(depth, _MAX_DEPTH + 1)
  for number, level in enumerate(itertools.islice(levels, most)):
    if not len(level.action):
      break
    if number == _MAX_DEPTH:
      raise ValueError(
        f"game={game!r} has not ended after {_MAX_DEPTH} public actions; a tree needs a depth"
      )
    width = width or _node_bytes(game, level.states[level.parent[:1]], level.action[:1])
    each = times[level.parent]
    nodes, edges, times = nodes + each.sum(), edges + len(each), np.bincount(level.child, each)
    if nodes * width > max_bytes and (edges > _MAX_EDGES or nodes > 1e300):
      counted = False
      break
  if not counted or nodes * width > max_bytes:
    raise ValueError(
      f"game={game!r} has a public tree of {'' if counted else 'more than '}{nodes:.12g} nodes, "
      f"or {nodes * width:.3g} bytes, and {max_bytes:.12g} are allowed: take a smaller game, cut "
      "its tree off at a depth, or raise max_bytes in code"
    )


def _node_bytes(game: Game, states: np.ndarray, actions: np.ndarray) -> int:
  """Returns the bytes of a node: its numbers, a row of `[N, H]`, what is possible there."""
  h, number = game.num_infostates, np.dtype(int).itemsize
  size = number * (states.shape[1] + _COLUMNS) + 2 * h
  size += h * jax.dtypes.canonicalize_dtype(float).itemsize
  changes = game.infostate_parents(states, actions) is not None
  return size + 2 * h * number * changes


_MAX_PAYOFF_RUNS = 64  # beyond this a level's tables are gathered node by node
LARGE_TABLE = 64  # infostates; a table of more for each node would not fit in memory


class _Nodes(NamedTuple):
  """The nodes of one level."""

  parent: np.ndarray  # [n] position in the level above
  action: np.ndarray  # [n]
  state: np.ndarray  # [n, S]
  kind: np.ndarray  # [n]
  probability: np.ndarray  # [n]
  possible: np.ndarray  # [n, P, H]
  infostate_parent: np.ndarray | None  # [n, P, H]
  dealt: np.ndarray  # [n, k]


@checked
def build_public_tree(
  game: Game,
  *,
  root: Sequence[int] = (),
  depth: float | str | None = None,
  max_bytes: Bytes = MAX_BYTES,
) -> PublicTree:
  """Builds the public tree of `game`, whole or cut off below some depth.

  Args:
    game: the rules.
    root: public actions, chance outcomes included, from the start of the game to the tree's root.
    depth: how many public actions, chance included, the tree extends below its root; `"stage"`
      to cut it where the root's stage ends (`Game.stages`: in poker a round of betting, or the
      deal between two); None for the whole game below the root.
    max_bytes: how much the nodes may take; they are counted before they are built.

  Returns:
    The tree, real-valued arrays in JAX's default float type. Its prior is the game's, restricted
    by the chance outcomes in `root`, hidden moves on the way taken to be equally likely.

  Raises:
    ValueError: `root` is not a sequence of legal actions or ends the game, `depth` is not a
      positive integer, `"stage"` or None, the tree would take too much, or the game forgets.
  """
  if not game.remembers:
    raise ValueError(f"infostates of {game!r} forget how they were reached, and trees ask for it")
  state = game.state_after(root)
  if game.actor(state[None])[0] == TERMINAL:
    raise ValueError(f"root={root} ends the game: there is nothing left to solve")
  return _build(game, state, depth, max_bytes, lambda pairs: _push_prior(game, pairs, root))


def build_from_state(
  game: Game,
  state: np.ndarray,
  *,
  possible: np.ndarray | None = None,
  depth: int | str | None = None,
) -> PublicTree:
  """Builds the tree below `state` `[S]`, where `possible` `[P, H]` (None: all) are allowed."""
  allowed = np.ones((2, game.num_infostates)) if possible is None else np.asarray(possible)
  prior = allowed / allowed.sum(axis=1, keepdims=True)
  return _build(game, np.asarray(state), depth, MAX_BYTES, lambda _: (prior, allowed.astype(bool)))


def _build(
  game: Game,
  state: np.ndarray,
  depth: Any,
  max_bytes: float,
  begin: Callable[[Pairs], tuple[np.ndarray, np.ndarray]],
) -> PublicTree:
  """Builds a tree; `begin` returns its prior and what is possible at its root, `[P, H]` both."""
  depth, stage = _limit(game, state, depth)
  check_size(game, state, depth, stage, max_bytes=max_bytes)
  pairs = game.pairs()
  prior, possible = begin(pairs)
  first, nothing, h = state[None], np.array([-1]), game.num_infostates
  root = _Nodes(
    parent=nothing,
    action=nothing,
    state=first,
    kind=game.actor(first),
    probability=np.ones(1),
    possible=possible[None],
    infostate_parent=np.broadcast_to(np.arange(h, dtype=np.int32), (1, 2, h)),
    dealt=game.dealt_cards(first, nothing),
  )
  levels = [root]
  while (depth is None or len(levels) <= depth) and (levels[-1].kind <= CHANCE).any():
    levels.append(_expand(game, levels[-1], at_limit=len(levels) == depth, stage=stage))
  return _assemble(game, pairs, levels, prior)


def _limit(game: Game, state: np.ndarray, depth: Any) -> tuple[int | None, int | None]:
  """Returns the checked cut of a tree below `state`: its depth, and its stage."""
  if isinstance(depth, str) and depth == "stage":
    return None, int(game.stages(state[None])[0])
  whole = int(depth) if isinstance(depth, float) and depth.is_integer() else depth
  if depth is not None and not is_whole(whole, 1):
    raise ValueError(
      f"depth={short(depth)} must be a positive integer, 'stage', or None for the whole game"
    )
  return whole, None


def _expand(game: Game, above: _Nodes, *, at_limit: bool, stage: int | None) -> _Nodes:
  """Returns the level below, sorted; nodes at the limit or of another stage are leaves."""
  inner = np.flatnonzero(above.kind <= CHANCE)
  # Transposing makes the order action-major.
  action, parent = np.nonzero(game.legal_actions(above.state[inner]).T)
  parent = inner[parent]
  parent_state = above.state[parent]
  state = game.next_states(parent_state, action)
  actor = game.actor(state)

  possible = above.possible[parent]
  infostate_parent = game.infostate_parents(parent_state, action)
  if infostate_parent is not None:
    possible = np.take_along_axis(possible, np.maximum(infostate_parent, 0), axis=2)
    possible &= infostate_parent >= 0
    infostate_parent = np.maximum(infostate_parent, 0).astype(np.int32)
  probability = np.ones(len(action))
  by_chance = above.kind[parent] == CHANCE
  if by_chance.any():
    probability[by_chance], mask = game.chance(parent_state[by_chance], action[by_chance])
    possible[by_chance] &= mask.astype(bool)

  cut = np.full(len(action), at_limit) if stage is None else game.stages(state) != stage
  kind = np.where(actor == TERMINAL, TERMINAL, np.where(cut, LEAF, actor))
  dealt = game.dealt_cards(parent_state, action)
  nodes = _Nodes(parent, action, state, kind, probability, possible, infostate_parent, dealt)
  order = np.argsort(group_of(kind), kind="stable")  # so each group stays action-major
  return jax.tree.map(lambda x: x[order], nodes)


def find_runs(parents: np.ndarray) -> tuple[tuple[int, int], ...]:
  """Splits `parents` `[n]` into maximal runs of consecutive integers, as (start, stop)."""
  breaks = np.flatnonzero(np.diff(parents) != 1) + 1
  cuts = itertools.pairwise([0, *breaks.tolist(), len(parents)])
  return tuple((int(parents[a]), int(parents[b - 1]) + 1) for a, b in cuts)


def level_shape(group: np.ndarray, parents: np.ndarray, actors: np.ndarray) -> Level:
  """Returns a level's shape from its nodes' `group_of`, parents `[n]` and parents' kinds."""
  movers = np.unique(actors).tolist()
  inner, leaves, ends = np.bincount(group, minlength=3).tolist()
  actor = movers[0] if len(movers) == 1 else None
  runs = find_runs(parents) if movers else ()
  return Level(inner, leaves, ends, runs, actor, movers=tuple(movers))


def _push_prior(game: Game, pairs: Pairs, root: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
  """Returns the prior and the possible infostates, both `[P, H]`, after the actions in root."""
  prior = np.array(game.prior(), float)
  states = game.initial_state()[None]
  possible = prior > 0
  possible &= pairs.matched(possible, int(game.pair_index(states)[0]))
  for action in root:
    actions = np.array([action])
    parents = game.infostate_parents(states, actions)
    if parents is not None:
      prior = np.take_along_axis(prior, np.maximum(parents[0], 0), 1)
    possible = game.possible_after(states, actions, possible[None])[0]
    states = game.next_states(states, actions)
  prior = np.where(possible, prior, 0.0)
  return prior / prior.sum(axis=1, keepdims=True), possible


def _assemble(game: Game, pairs: Pairs, levels: list[_Nodes], prior: np.ndarray) -> PublicTree:
  actors = [[], *(above.kind[nodes.parent] for above, nodes in itertools.pairwise(levels))]
  shapes = [level_shape(group_of(n.kind), n.parent, np.array(x)) for n, x in zip(levels, actors)]
  structure = TreeStructure(tuple(shapes))
  if any(nodes.infostate_parent is None for nodes in levels):
    levels = [nodes._replace(infostate_parent=None) for nodes in levels]
  nodes = jax.tree.map(lambda *rows: np.concatenate(rows), *levels)
  state, kind = nodes.state, nodes.kind
  if (state != state.astype(np.int32)).any():
    raise ValueError(
      f"{game.name}'s public states hold numbers up to {np.abs(state).max()}; they must fit into "
      "32 bits"
    )
  leaves, terminals = np.flatnonzero(kind == LEAF), np.flatnonzero(kind == TERMINAL)
  ends = state[terminals]
  kept, payoff_index = pairs.used(
    np.asarray(game.payoff_index(ends), int), np.asarray(game.pair_index(ends), int)
  )
  small = game.hands() is None and game.num_infostates <= LARGE_TABLE
  structure = add_payoff_runs(structure, payoff_index, gathered=small)
  if nodes.infostate_parent is not None:
    structure = note_changes(structure, nodes.infostate_parent, nodes.possible)
  players = (0, 1)
  tree = PublicTree(
    parent=structure.parents.astype(np.int32),
    action=nodes.action.astype(np.int32),
    kind=kind.astype(np.int8),
    state=state.astype(np.int32),
    leaf_nodes=leaves.astype(np.int32),
    terminal_nodes=terminals.astype(np.int32),
    prior=prior,
    possible=None if nodes.possible.all() else nodes.possible,
    chance_probability=None if (nodes.probability == 1).all() else nodes.probability,
    infostate_parent=nodes.infostate_parent,
    root_pair_index=game.pair_index(state[:1])[0].astype(np.int32),
    leaf_pair_index=game.pair_index(state[leaves]).astype(np.int32),
    payoff_index=payoff_index.astype(np.int32),
    payoff_scale=np.asarray(game.payoff_scale(ends), float),
    root_features=np.stack([game.features(state[:1], p)[0] for p in players]).astype(float),
    leaf_features=np.stack([game.features(state[leaves], p) for p in players]).astype(float),
    leaf_actor=game.actor(state[leaves]).astype(np.int8),
    structure=structure,
    depth_limited=leaves.size > 0,
    origin=origin_of(game, pairs),
    **kept.columns(nodes.dealt),
  )
  return tree.astype(jax.dtypes.canonicalize_dtype(float))


def add_payoff_runs(
  structure: TreeStructure, payoff_index: np.ndarray, *, gathered: bool
) -> TreeStructure:
  """Notes which neighbouring terminal nodes share a table, unless too many and `gathered`."""
  levels = []
  for level, start in zip(structure.levels, structure.terminal_offsets):
    index = payoff_index[start : start + level.num_terminals]
    cuts = np.flatnonzero(np.diff(index)) + 1
    runs = None
    if len(index) and (not gathered or len(cuts) < _MAX_PAYOFF_RUNS):
      bounds = [0, *cuts.tolist(), len(index)]
      runs = tuple((int(index[a]), a, b) for a, b in itertools.pairwise(bounds))
    levels.append(dataclasses.replace(level, payoff_runs=runs))
  return plan_sweeps(levels)


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

  Nodes of different trees share a place if the same actions lead to them from their roots and they
  are of the same group (inner, leaf, terminal). Places that a tree does not have are padding: kind
  `PADDING`, policy zero.

  Args:
    trees: at least one tree, of one game.

  Raises:
    ValueError: no trees, or trees of different numbers of infostates, features or state integers.
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
  names = [field.name for field in dataclasses.fields(PublicTree)]
  for name in (x for x in names if x not in _JOINED):
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
  for name in ("payoffs", "strengths"):  # each tree's own, so that indices into them stay
    tables = [getattr(tree, name) for tree in trees if getattr(tree, name) is not None]
    most = max(map(len, tables), default=0)
    columns[name] = np.stack([filled(np.asarray(x), (most,)) for x in tables]) if tables else None
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
    ValueError: it is one tree, or has no such tree.
  """
  check_is_tree(stack, "stack")
  if np.ndim(stack.prior) != 3:
    raise ValueError("stack is one tree; take chooses from those of games.stack_trees")
  places = as_array(which)
  if places.dtype != bool:
    places = integers("which", which, -len(stack.prior), len(stack.prior) - 1)
  xp: Any = jnp if isinstance(which, jax.Array) else np
  return jax.tree.map(lambda x: (x if hasattr(x, "at") else xp.asarray(x))[places], stack)


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
      first, start, stop = tree.structure.offsets[depth - 1 : depth + 2]
      parent = tree.structure.parents[start:stop]
      kind = np.asarray(tree.kind)
      columns = group_of(kind[start:stop]), tree.action[start:stop], above[i][parent - first]
      keys.append(np.stack(columns, axis=1))
      owners.append(i)
      parent_kinds.append(kind[parent])
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
