"""Templates: static shapes of subgames, filled in on the device from a public state.

A round of betting is a small tree whose shape depends on the round alone; chips and cards decide
which of its moves are legal. So one compiled program serves the subgames at any public states.
"""

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import xp
from games.build import add_payoff_runs, level_shape
from games.game import Game
from games.public_tree import CHANCE, PADDING, TERMINAL, PublicTree, TreeStructure, group_of

_MOST_UNROLLED = 2  # levels that are filled one by one; of more a loop is compiled once


@dataclasses.dataclass(frozen=True)
class Template:
  """The common shape of subgames of one kind; static, compared by value."""

  structure: TreeStructure  # levels and runs, as in `PublicTree`
  action: tuple[int, ...]  # [N], -1 at the root and on levels where outcomes of chance are drawn
  kind: tuple[int, ...]  # [N] of each node where it exists: who moves, LEAF or TERMINAL
  payoff_index: tuple[int, ...]  # [T] of each terminal node, as `Streets.pair_columns` has them

  @property
  def decides(self) -> bool:
    """Whether a player moves anywhere."""
    return min(self.kind) < CHANCE


@dataclasses.dataclass
class Node:
  """A node of a template in the making."""

  kind: int  # who moves there, LEAF or TERMINAL
  payoff: int = 0  # table of a terminal node
  children: list[tuple[int, "Node"]] = dataclasses.field(default_factory=list)  # by action


def make_template(root: Node) -> Template:
  """Returns the template of the tree below `root`, its nodes in the order of `PublicTree`."""
  level, levels, nodes = [(root, -1, 0)], [], []
  above = np.zeros(0, int)
  while level:
    kinds, parents = (np.array(x) for x in zip(*((node.kind, place) for node, _, place in level)))
    levels.append(level_shape(group_of(kinds), parents, above[parents] if len(above) else above))
    nodes += level
    below = [
      (child, move, number)
      for number, (node, _, _) in enumerate(level)
      for move, child in node.children
    ]
    # As `build_public_tree` has them: by group, and each by action.
    below.sort(key=lambda entry: (int(group_of(np.array(entry[0].kind))), entry[1], entry[2]))
    level, above = below, kinds
  rows, action, _ = zip(*nodes)
  payoff = tuple(node.payoff for node in rows if node.kind == TERMINAL)
  structure = add_payoff_runs(TreeStructure(tuple(levels)), np.array(payoff, int), gathered=False)
  return Template(structure, action, tuple(node.kind for node in rows), payoff)


@functools.partial(jax.jit, static_argnums=(0, 1))  # a program that asks twice traces it once
def fill_states(
  rules: Any, number: int, state: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Returns states `[N, S]`, whether they exist, actions and what each stands for: `[N]`."""
  template = rules.templates[number]
  structure, actions = template.structure, np.array(template.action)
  size, parent = structure.num_nodes, jnp.asarray(structure.parents)
  drawn, stands_for = jnp.asarray(actions), jnp.ones(size)
  nodes = jnp.tile(state, (size, 1)), jnp.arange(size) == 0

  def fill_level(nodes: Any, here: Any, chosen: Any) -> Any:
    (states, exists), above = nodes, parent[here]
    there = exists[above] & rules.is_legal(states[above], chosen, template.decides)
    moved = rules.next_states(states[above], chosen, template.decides)
    moved = jnp.where(there[:, None], moved, states[above])
    return states.at[here].set(moved, mode="drop"), exists.at[here].set(there, mode="drop")

  if structure.depth > _MOST_UNROLLED and actions[1:].min() >= 0:
    place = np.full((structure.depth, max(level.size for level in structure.levels)), size)
    for row, (first, last) in zip(place, itertools.pairwise(structure.offsets[1:])):
      row[: last - first] = np.arange(first, last)
    nodes, _ = jax.lax.scan(
      lambda nodes, here: (fill_level(nodes, here, drawn[here]), None), nodes, jnp.asarray(place)
    )
    return *nodes, drawn, stands_for
  for depth in range(1, structure.depth + 1):
    here = slice(*structure.offsets[depth : depth + 2])
    chosen: Any = actions[here]  # of numpy: rules leave out the moves that a level has none of
    if chosen[0] < 0:
      chosen, weight = rules.outcomes(depth, nodes[0][parent[here]])
      drawn = drawn.at[here].set(chosen.astype(drawn.dtype))
      stands_for = stands_for.at[here].set(weight)
    nodes = fill_level(nodes, here, chosen)
  return *nodes, drawn, stands_for


@functools.partial(jax.jit, static_argnums=(0, 1))
def fill(rules: Any, number: int, state: jax.Array) -> PublicTree:
  """Returns the subgame at a public state `[S]`, of the shape of a template."""
  # The tree of `build_public_tree(..., depth="stage")` with padding and without what must follow
  # (`Streets.next_states`); its prior is uniform over the infostates that the rules allow.
  template, game = rules.templates[number], rules.game
  structure, kind = template.structure, np.array(template.kind)
  states, exists, actions, stands_for = fill_states(rules, number, state)
  parent = structure.parents
  leaves, ends = structure.leaf_nodes, structure.terminal_nodes
  by_chance = np.flatnonzero((parent >= 0) & (kind[np.maximum(parent, 0)] == CHANCE))
  probability = None
  nothing: Any = np.full(1, -1)
  dealt = jnp.full((structure.num_nodes, game.dealt_cards(state[None], nothing).shape[1]), -1)
  possible = jnp.broadcast_to(
    rules.possible(state[None]), (structure.num_nodes, 2, game.num_infostates)
  )
  if by_chance.size:
    before, taken = states[parent[by_chance]], actions[by_chance]
    chance, _ = game.chance(before, taken)
    probability = jnp.ones(structure.num_nodes).at[by_chance].set(chance * stands_for[by_chance])
    cards = game.dealt_cards(before, taken).astype(dealt.dtype)
    # What is padding deals nothing. Where all is constant, XLA would take seconds to fold it.
    dealt = dealt.at[by_chance].set(jnp.where(exists[by_chance, None], cards, -1))
    if not template.decides:
      possible = rules.possible(states)
  dtype = jnp.result_type(float)
  prior = possible[0].astype(dtype)
  rows, there = states[np.append(0, leaves)], exists[leaves]
  features = jnp.stack([game.features(rows, player) for player in (0, 1)])
  tree = PublicTree(
    parent=jnp.where(exists, parent, -1),
    action=jnp.where(exists, actions, -1),
    kind=jnp.where(exists, kind, PADDING).astype(jnp.int8),
    state=states,
    leaf_nodes=jnp.asarray(leaves, jnp.int32),
    terminal_nodes=jnp.asarray(ends, jnp.int32),
    prior=prior / jnp.maximum(prior.sum(axis=1, keepdims=True), 1.0),
    possible=possible,
    chance_probability=probability,
    infostate_parent=None,
    root_pair_index=jnp.zeros((), jnp.int32),
    leaf_pair_index=jnp.zeros(len(leaves), jnp.int32),
    payoff_index=jnp.asarray(template.payoff_index, jnp.int32),
    payoff_scale=jnp.where(exists[ends], game.payoff_scale(states[ends]), 0.0),
    root_features=features[:, 0],
    leaf_features=jnp.where(there[:, None], features[:, 1:], 0.0),
    leaf_actor=jnp.where(there, game.actor(states[leaves]), PADDING).astype(jnp.int8),
    structure=structure,
    depth_limited=leaves.size > 0,
    padded=True,
    **rules.pair_columns(number, states[ends], dealt),
  )
  return tree.astype(dtype)


def node_features(game: Game, tree: PublicTree) -> Any:
  """Returns decisions' public states as the mover sees them: `[..., N, F]`, else zero."""
  kind, rows = tree.kind[..., None], xp.reshape(tree.state, (-1, tree.state.shape[-1]))
  first, second = (game.features(rows, p).reshape(*kind.shape[:-1], -1) for p in (0, 1))
  return xp.where(kind == 0, first, xp.where(kind == 1, second, 0.0)).astype(tree.dtype)
