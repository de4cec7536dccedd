"""One simulation of GT-CFR: a walk through the tree, and the nodes that it adds (section 3.2.2)."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.game import CHANCE
from games.public_tree import PADDING, PublicTree, TreeStructure
from solvers.growing.rooted_problem import RootedProblem


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
    values: `[P, N, H]` expected payoffs, each player's infostates in its row.
    prior: `[N, H]` how likely the network thinks each move; uniform without one.
  """

  policy: jax.Array
  values: jax.Array
  prior: jax.Array


class Rules(NamedTuple):
  """How simulations choose; see `GTCFR`."""

  puct: float
  puct_share: float
  children: int | None
  scale: jax.Array  # the largest payoff


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
  table = np.full((structure.num_nodes, max(counts.max(initial=0), 1)), -1)
  table[parents[order], slot] = order + 1  # the root is nobody's child
  return table


def sample_pair(problem: RootedProblem, reach: Any, node: jax.Array, key: jax.Array) -> jax.Array:
  """Samples both players' infostates at a node by their joint belief there: `[2]`.

  Args:
    problem: the search's.
    reach: both players' own reach.
    node: an inner node.
    key: a random key.
  """
  here = (problem.rows == node)[:, None]
  own = [jnp.where(here, problem.leaf_reach(reach[p], p), 0.0) for p in (0, 1)]
  first_key, second_key = jax.random.split(key)
  first = (own[0] * problem.compatible_mass(own[1], 0)).sum(axis=0)
  first = categorical(first_key, first)
  held = jnp.where(here, jax.nn.one_hot(first, problem.num_infostates, dtype=own[0].dtype), 0.0)
  second = (own[1] * problem.compatible_mass(held, 1)).sum(axis=0)
  return jnp.stack([first, categorical(second_key, second)])


def simulate(
  problem: RootedProblem,
  view: View,
  growth: Growth,
  start: jax.Array,
  hands: jax.Array,
  key: jax.Array,
  rules: Rules,
) -> Growth:
  """Walks from `start` to the first state that is not in the tree, and adds that.

  Half of the moves are PUCT's, half follow the policy. At a leaf of the tree its children are
  added, `rules.children` of a player's by prior, all of chance's; where a move is missing, that.
  """
  tree = problem.tree
  slots, depth = jnp.asarray(child_slots(tree.structure)), tree.structure.depth

  def children_of(node):
    there = slots[node] >= 0
    kids = jnp.maximum(slots[node], 0)
    return kids, there & (jnp.asarray(tree.kind)[kids] != PADDING)

  def is_interior(node):
    kids, there = children_of(node)
    return (there & growth.present[kids]).any()

  def step(walk: _Walk) -> _Walk:
    key, *keys = jax.random.split(walk.key, 4)
    node, hands = walk.node, walk.hands
    kids, there = children_of(node)
    mover = jnp.asarray(tree.kind)[node]
    moves, player = mover < CHANCE, jnp.minimum(mover, 1)
    options = there[:, None] & comes_from(tree, kids, player, hands[player])
    by_policy = categorical(keys[0], jnp.where(options, view.policy[kids], 0.0).reshape(-1))
    by_puct = _puct(view, growth, node, kids, options, hands, player, rules)
    chosen = jnp.where(jax.random.uniform(keys[1]) < rules.puct_share, by_puct, by_policy)
    dealt = categorical(keys[2], chance_weights(tree, kids, there, hands))
    child = kids[jnp.where(moves, chosen // tree.num_infostates, dealt)]
    after = jnp.stack([follow(tree, child, p, hands[p]) for p in (0, 1)])
    after = jnp.where(moves & (jnp.arange(2) == player), chosen % tree.num_infostates, after)
    return _Walk(
      child,
      after,
      key,
      walk.length + 1,
      walk.nodes.at[walk.length].set(child),
      walk.held.at[walk.length].set(after[player]),
      walk.counted.at[walk.length].set(moves),
    )

  def goes_on(walk: _Walk) -> jax.Array:
    return growth.present[walk.node] & is_interior(walk.node)

  # What was visited is kept as a path: tables of all nodes in the loop would be copied each step.
  nothing = jnp.zeros(depth, jnp.int32)
  start, hands, length = (x.astype(jnp.int32) for x in (start, hands, jnp.zeros(())))
  first = _Walk(start, hands, key, length, nothing, nothing, jnp.zeros(depth, bool))
  end = lax.while_loop(goes_on, step, first)
  missing = ~growth.present[end.node]
  kids, there = children_of(end.node)
  mover = jnp.asarray(tree.kind)[end.node]
  player = jnp.minimum(mover, 1)
  options = there[:, None] & comes_from(tree, kids, player, end.hands[player])
  joins = _joins(view, kids, there, options, mover < CHANCE, rules) & ~missing
  present = growth.present.at[kids].max(joins).at[end.node].set(True)
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
  key: jax.Array
  length: jax.Array
  nodes: jax.Array  # [depth]
  held: jax.Array  # [depth] the mover's infostate there
  counted: jax.Array  # [depth]


def categorical(key: jax.Array, weights: jax.Array) -> jax.Array:
  """Samples an index by weights, which may all be zero."""
  tiny = jnp.finfo(weights.dtype).tiny
  return jax.random.categorical(key, jnp.log(jnp.maximum(weights, 0.0) + tiny))


def comes_from(tree: PublicTree, kids: jax.Array, player: jax.Array, held: jax.Array):
  """Says which infostates of children `player` may come to from infostate `held`: `[A, H]`."""
  if tree.infostate_parent is None:
    return jnp.broadcast_to(
      jnp.arange(tree.num_infostates) == held, (len(kids), tree.num_infostates)
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
  if tree.chance_probability is None:
    return there.astype(tree.dtype)
  weights = jnp.where(there, jnp.asarray(tree.chance_probability)[kids], 0.0)
  for player in (0, 1):
    if tree.possible is not None:
      reached = comes_from(tree, kids, jnp.asarray(player), hands[player])
      reached &= jnp.asarray(tree.possible)[kids, player]
      weights *= reached.any(axis=1)
  if tree.dealt is not None and tree.hands is not None:
    held = jnp.asarray(tree.hands)[hands].reshape(-1)
    blocked = (jnp.asarray(tree.dealt)[kids][:, :, None] == held).any(axis=(1, 2))
    weights *= ~blocked
  return weights


def _puct(view: View, growth: Growth, node, kids, options, hands, player, rules: Rules):
  """Returns the option that PUCT takes, in `[A * H]`; one missing counts as its parent's value."""
  here = view.values[player, node, hands[player]]
  known = growth.present[kids][:, None]
  value = jnp.where(known, view.values[player][kids], here) / rules.scale
  visits, recent = growth.visits[kids], growth.recent[kids]
  # Visits since the last update count as losses, so that simulations of one batch spread.
  value = (visits * value - recent) / jnp.maximum(visits + recent, 1.0) * (recent > 0) + value * (
    recent <= 0
  )
  total = jnp.where(options, visits, 0.0).sum()
  score = value + rules.puct * view.prior[kids] * jnp.sqrt(total) / (1.0 + visits)
  return jnp.argmax(jnp.where(options, score, -jnp.inf).reshape(-1))


def _joins(view: View, kids, there, options, moves, rules: Rules) -> jax.Array:
  """Returns which children of a leaf are added: `[A]` bool."""
  if rules.children is None:
    return there
  likely = jnp.where(options, view.prior[kids], -1.0).max(axis=1)
  rank = jnp.argsort(jnp.argsort(-likely, stable=True), stable=True)
  return there & (~moves | (rank < rules.children))
