"""One simulation of GT-CFR: a walk through the tree, and the nodes that it adds (section 3.2.2)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.game import CHANCE
from games.public_tree import PADDING, PublicTree, TreeStructure
from solvers.growing.choose import Options, Rules, best_moves, choose_move, sample_index
from solvers.growing.rooted_problem import RootedProblem
from solvers.sweeps.masked import row_of_nodes


class Growth(NamedTuple):
  """What simulations leave behind.

  Attributes:
    present: `[N]` which nodes are in the tree.
    visits: `[N, H]` how often a move was simulated, by the infostate that it led the mover to.
    recent: `[N, H]` the part of `visits` since the last update.
  """

  present: jax.Array
  visits: jax.Array
  recent: jax.Array


class View(NamedTuple):
  """What a simulation sees of the last update.

  Attributes:
    policy: `[N, H]` that is followed half of the time.
    values: for each player `[N, H]`, counterfactual, in its infostates.
    mass: for each player `[L, H]`, the other's mass at inner nodes that its infostates may meet.
    prior: `[N, H]` how likely the network thinks each move; uniform without one.
  """

  policy: jax.Array
  values: tuple[jax.Array, jax.Array]
  mass: tuple[jax.Array, jax.Array]
  prior: jax.Array

  def expected(self, tree: PublicTree, node: jax.Array, kids: jax.Array, player: jax.Array) -> Any:
    """Returns what `player`, who moves at `node`, expects there `[H]` and at its children `[A, H]`.

    A move of one's own leaves the other's mass as it was, so that the parent's holds at ends.
    """
    first, second = ((x[node], x[kids]) for x in self.values)
    here, below = (jnp.where(player == 1, y, x) for x, y in zip(first, second))
    row = jnp.asarray(row_of_nodes(tree.structure))
    mass = [(x[row[node]], x[jnp.minimum(row[kids], len(x) - 1)]) for x in self.mass]
    above, own = (jnp.where(player == 1, y, x) for x, y in zip(*mass))
    lifted = above if tree.infostate_parent is None else above[tree.infostate_parent[kids, player]]
    own = jnp.where((row[kids] < len(self.mass[0]))[:, None], own, lifted)
    pairs = (here, above), (below, own)
    return tuple(jnp.where(m > 0, x, 0.0) / jnp.where(m > 0, m, 1.0) for x, m in pairs)


def child_slots(structure: TreeStructure) -> np.ndarray:
  """Returns the children of each node, filled up with -1: `[N, most children]`."""
  parents = np.concatenate(
    [
      above + level.parents
      for above, level in zip(structure.offsets, structure.levels[1:], strict=False)
    ]
    or [np.zeros(0, int)]
  )
  counts = np.bincount(parents, minlength=structure.num_nodes)
  order = np.argsort(parents, kind="stable")
  slot = np.arange(len(parents)) - np.repeat(np.cumsum(counts) - counts, counts)
  table = np.full((structure.num_nodes, max(int(counts.max(initial=0)), 1)), -1)
  table[parents[order], slot] = order + 1  # the root is nobody's child
  return table


def slots_by_action(tree: PublicTree) -> jax.Array:
  """Returns `child_slots` with each node's children in the order of the actions to them."""
  slots = jnp.asarray(child_slots(tree.structure), jnp.int32)
  action = jnp.where(slots >= 0, jnp.asarray(tree.action)[slots], jnp.iinfo(jnp.int32).max)
  return jnp.take_along_axis(slots, jnp.argsort(action, axis=1, stable=True), axis=1)


def sample_pair(problem: RootedProblem, reach: Any, node: jax.Array, numbers: Any) -> jax.Array:
  """Samples both players' infostates at a node by their joint belief there: `[2]`.

  Args:
    problem: the search's.
    reach: both players' own reach.
    node: an inner node.
    numbers: `[2]` random ones.
  """
  row = jnp.argmax(jnp.asarray(problem.rows, jnp.int32) == jnp.asarray(node, jnp.int32))
  own = [problem.leaf_reach(reach[p], p)[row] for p in (0, 1)]
  pairs = problem.pairs.at_leaf(row)
  first = sample_index(numbers[0], own[0] * pairs.compatible_mass(own[1][None], 0)[0])
  held = jax.nn.one_hot(first, problem.num_infostates, dtype=own[0].dtype)
  second = own[1] * pairs.compatible_mass(held[None], 1)[0]
  return jnp.stack([first, sample_index(numbers[1], second)])


def simulate(
  problem: RootedProblem,
  view: View,
  growth: Growth,
  start: jax.Array,
  hands: jax.Array,
  numbers: jax.Array,
  rules: Rules,
) -> Growth:
  """Walks from `start` to the first state that is not in the tree, and adds that.

  Half of the moves are PUCT's, half follow the policy. At a leaf of the tree its children are
  added, `rules.children` of a player's by prior, all of chance's; where a move is missing, that.
  Each step takes a row of `numbers` `[depth, NUMBERS]`.
  """
  tree = problem.tree
  slots, depth = slots_by_action(tree), tree.structure.depth
  steps, players = jnp.arange(depth, dtype=jnp.int32), jnp.arange(2, dtype=jnp.int32)

  def children_of(node):
    there = slots[node] >= 0
    kids = jnp.maximum(slots[node], 0)
    return kids, there & (jnp.asarray(tree.kind)[kids] != PADDING)

  def is_interior(node):
    kids, there = children_of(node)
    return (there & growth.present[kids]).any()

  def step(walk: _Walk) -> _Walk:
    drawn, now = numbers[walk.length], steps == walk.length
    node, hands = walk.node, walk.hands
    kids, there = children_of(node)
    mover = jnp.asarray(tree.kind)[node]
    moves, player = mover < CHANCE, jnp.minimum(mover, 1)
    options = there[:, None] & comes_from(tree, kids, player, hands[player])
    seen = _look(tree, view, growth, node, kids, options, hands, player)
    chosen = choose_move(drawn[:2], seen, rules)
    dealt = sample_index(drawn[2], chance_weights(tree, kids, there, hands))
    child = kids[jnp.where(moves, chosen // tree.num_infostates, dealt)]
    after = jnp.stack([follow(tree, child, p, hands[p]).astype(hands.dtype) for p in (0, 1)])
    moved = moves & (players == player.astype(players.dtype))
    after = jnp.where(moved, chosen % tree.num_infostates, after)
    return _Walk(
      child,
      after,
      walk.length + 1,
      jnp.where(now, child, walk.nodes),
      jnp.where(now, after[player], walk.held),
      jnp.where(now, moves, walk.counted),
    )

  def goes_on(walk: _Walk) -> jax.Array:
    return growth.present[walk.node] & is_interior(walk.node)

  # What was visited is kept as a path: tables of all nodes in the loop would be copied each step.
  nothing = jnp.zeros(depth, jnp.int32)
  start, hands, length = (x.astype(jnp.int32) for x in (start, hands, jnp.zeros(())))
  first = _Walk(start, hands, length, nothing, nothing, jnp.zeros(depth, bool))
  end = lax.while_loop(goes_on, step, first)
  missing = ~growth.present[end.node]
  kids, there = children_of(end.node)
  mover = jnp.asarray(tree.kind)[end.node]
  player = jnp.minimum(mover, 1)
  options = there[:, None] & comes_from(tree, kids, player, end.hands[player])
  likely = jnp.where(options, view.prior[kids], -1.0).max(axis=1)
  joins = best_moves(likely, there, mover < CHANCE, rules) & ~missing
  # Comparisons instead of scatters, which XLA makes loops of on CPUs.
  ids = jnp.arange(tree.num_nodes, dtype=jnp.int32)
  present = growth.present | (ids == end.node)
  present |= ((ids[:, None] == kids[None].astype(ids.dtype)) & joins[None]).any(axis=1)
  counts = end.counted.astype(growth.visits.dtype)
  return Growth(
    present,
    growth.visits.at[end.nodes, end.held].add(counts),
    growth.recent.at[end.nodes, end.held].add(counts),
  )


class _Walk(NamedTuple):
  """A walk so far: where it is, and the moves on the way, of which chance's do not count."""

  node: jax.Array
  hands: jax.Array  # [2]
  length: jax.Array
  nodes: jax.Array  # [depth]
  held: jax.Array  # [depth] the mover's infostate there
  counted: jax.Array  # [depth]


def comes_from(tree: PublicTree, kids: jax.Array, player: jax.Array, held: jax.Array):
  """Says which infostates of children `player` may come to from infostate `held`: `[A, H]`."""
  if tree.infostate_parent is None:
    return jnp.broadcast_to(
      jnp.arange(tree.num_infostates, dtype=held.dtype) == held, (len(kids), tree.num_infostates)
    )
  same = jnp.asarray(tree.infostate_parent)[kids, player] == held
  return same if tree.possible is None else same & jnp.asarray(tree.possible)[kids, player]


def follow(tree: PublicTree, child: jax.Array, player: int, held: jax.Array) -> jax.Array:
  """Returns the infostate at `child` of a player who did not move."""
  return held if tree.infostate_parent is None else jnp.argmax(
    comes_from(tree, child[None], jnp.asarray(player), held)[0]
  )  # fmt: skip


def chance_weights(tree: PublicTree, kids, there, hands) -> jax.Array:
  """Returns how likely chance deals each child to these infostates: `[A]`, not normalised."""
  weights = there.astype(tree.dtype)
  if tree.chance_probability is not None:
    weights = jnp.where(there, jnp.asarray(tree.chance_probability)[kids], 0.0)
  for player in (0, 1):
    if tree.possible is not None:
      reached = comes_from(tree, kids, jnp.asarray(player), hands[player])
      reached &= jnp.asarray(tree.possible)[kids, player]
      weights = jnp.where(reached.any(axis=1), weights, 0.0)
  if tree.dealt is not None and tree.hands is not None:
    held = jnp.asarray(tree.hands)[hands].reshape(-1)
    blocked = (jnp.asarray(tree.dealt)[kids][:, :, None] == held[None, None]).any(axis=(1, 2))
    weights = jnp.where(blocked, 0.0, weights)
  return weights


def _look(tree, view: View, growth: Growth, node, kids, options, hands, player) -> Options:
  """Returns what `player` may do at `node`, in `[A * H]`."""
  known = growth.present[kids][:, None]
  here, below = view.expected(tree, node, kids, player)
  value = jnp.where(known, below, here[hands[player]])
  tables = view.policy[kids], view.prior[kids], value, growth.visits[kids], growth.recent[kids]
  return Options(options.reshape(-1), *(x.reshape(-1) for x in tables))
