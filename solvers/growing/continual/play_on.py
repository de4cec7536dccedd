"""A game that goes on in a tree: moves by a policy, and what chance deals."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.game import CHANCE, TERMINAL
from games.public_tree import PADDING, PublicTree
from solvers.growing.choose import draw, sample_index
from solvers.growing.rooted_problem import RootedProblem, rooted_problem
from solvers.growing.simulate import (
  chance_weights,
  child_slots,
  comes_from,
  follow,
  sample_pair,
)
from solvers.sweeps.masked import NodeInfo


class Table(NamedTuple):
  """A tree and its nodes' children, for games to go on in.

  Attributes:
    tree: whole.
    slots: `[N, A]` each node's children, filled up with -1.
    problem: of the whole game.
  """

  tree: PublicTree
  slots: jax.Array
  problem: RootedProblem

  @classmethod
  def of(cls, tree: PublicTree, nodes: NodeInfo) -> "Table":
    """Returns the table of a whole tree."""
    tree = jax.tree.map(jnp.asarray, tree)
    everywhere = jnp.ones(tree.num_nodes, bool)
    problem = rooted_problem(tree, nodes, jnp.asarray(0), tree.prior, everywhere)
    return cls(tree, jnp.asarray(child_slots(tree.structure)), problem)

  def children(self, node: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns a node's children `[A]`, and which of them there are."""
    kids = jnp.maximum(self.slots[node], 0)
    return kids, (self.slots[node] >= 0) & (self.tree.kind[kids] != PADDING)

  def moves_from(
    self, num_actions: int, node: jax.Array, policy: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    """Returns the mover's policy at a node, and where its moves come from: `[A, H]` each.

    Args:
      num_actions: A, of the game.
      node: a decision; elsewhere what is returned is meaningless.
      policy: `[A', H]` of its moves, in the order of `slots`.
    """
    tree = self.tree
    kids, there = self.children(node)
    player = jnp.minimum(tree.kind[node], 1)
    actions = jnp.where(there, tree.action[kids], num_actions)  # out of range: dropped
    held = jnp.broadcast_to(jnp.arange(tree.num_infostates), policy.shape)
    if tree.infostate_parent is not None:
      held = tree.infostate_parent[kids, player]
    if tree.possible is not None:
      held = jnp.where(tree.possible[kids, player], held, -1)
    shape = num_actions, tree.num_infostates
    found = jnp.zeros(shape, policy.dtype).at[actions].set(policy, mode="drop")
    origin = jnp.full(shape, -1, jnp.int32).at[actions].set(held.astype(jnp.int32), mode="drop")
    return jnp.where(origin >= 0, found, 0.0), origin


def deal(table: Table, key: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Begins a game: returns its first decision, and both players' infostates there, `[P]`."""
  problem = table.problem
  pair_key, chance_key = jax.random.split(key)
  # Nobody has moved at the root, and nothing below it is asked for.
  tree = table.tree
  ones = problem.split(jnp.ones((tree.num_nodes, tree.num_infostates), tree.dtype))
  reach, start = (ones, ones), jnp.zeros((), jnp.int32)
  hands = sample_pair(problem, reach, start, draw(pair_key, 2)).astype(jnp.int32)
  return _past_chance(table, start, hands, chance_key)


def play_on(
  table: Table,
  node: jax.Array,
  hands: jax.Array,
  policy: jax.Array,
  key: jax.Array,
  *,
  exploration: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Makes one move, and deals what chance deals after it.

  Args:
    table: of the game.
    node: a decision.
    hands: `[P]` infostates there.
    policy: `[A, H]` the mover's, in the order of `slots`.
    key: a random key.
    exploration: how likely the move is uniform instead.

  Returns:
    The next decision or end, both players' infostates there, and whether the game is over.
  """
  tree = table.tree
  move_key, chance_key = jax.random.split(key)
  numbers = draw(move_key, 2)
  player = tree.kind[node]
  kids, there = table.children(node)
  options = there[:, None] & comes_from(tree, kids, player, hands[player])
  by_policy = jnp.where(options, policy, 0.0)
  explores = numbers[0] < exploration
  weights = jnp.where(explores, options.astype(policy.dtype), by_policy)
  chosen = sample_index(numbers[1], weights.reshape(-1))
  child = kids[chosen // tree.num_infostates].astype(jnp.int32)
  after = jnp.stack([follow(tree, child, p, hands[p]) for p in (0, 1)])
  moved = chosen % tree.num_infostates
  after = jnp.where(jnp.arange(2, dtype=player.dtype) == player, moved, after).astype(jnp.int32)
  child, after = _past_chance(table, child, after, chance_key)
  return child, after, tree.kind[child] == TERMINAL


def _past_chance(
  table: Table, node: jax.Array, hands: jax.Array, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
  tree = table.tree

  def step(carry):
    node, hands, key = carry
    key, now = jax.random.split(key)
    kids, there = table.children(node)
    child = kids[sample_index(draw(now)[()], chance_weights(tree, kids, there, hands))].astype(
      jnp.int32
    )
    after = jnp.stack([follow(tree, child, p, hands[p]) for p in (0, 1)]).astype(jnp.int32)
    return child, after, key

  def at_chance(carry):
    return tree.kind[carry[0]] == CHANCE

  node, hands, _ = lax.while_loop(at_chance, step, (node, hands, key))
  return node, hands
