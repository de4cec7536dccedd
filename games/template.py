"""Templates: static shapes of subgames, filled in on the device from a public state.

A round of betting is a small tree whose shape depends on the round alone; chips and cards decide
which of its moves are legal. So one compiled program serves the subgames at any public states.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

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
  payoff_index: tuple[int, ...]  # [T] of each terminal node, as `Templates.pair_columns` has them

  @property
  def decides(self) -> bool:
    """Whether a player moves anywhere."""
    return min(self.kind) < CHANCE


class Node:
  """A node of a template in the making.

  Attributes:
    kind: who moves there, `LEAF` or `TERMINAL`.
    payoff: table of a terminal node.
    children: action and node of each move.
  """

  def __init__(self, kind: int, payoff: int = 0):
    self.kind, self.payoff = kind, payoff
    self.children: list[tuple[int, Node]] = []


def make_template(root: Node) -> Template:
  """Returns the template of the tree below `root`, its nodes in the order of `PublicTree`."""
  level, levels, action, kind, payoff = [(root, -1, 0)], [], [], [], []
  above = np.zeros(0, int)
  while level:
    kinds, parents = (np.array(x) for x in zip(*((node.kind, place) for node, _, place in level)))
    levels.append(level_shape(group_of(kinds), parents, above[parents] if len(above) else above))
    action += [move for _, move, _ in level]
    kind += kinds.tolist()
    payoff += [node.payoff for node, _, _ in level if node.kind == TERMINAL]
    below = [
      (child, move, number)
      for number, (node, _, _) in enumerate(level)
      for move, child in node.children
    ]
    # As `build_public_tree` has them: by group, and each by action.
    below.sort(key=lambda entry: (int(group_of(np.array(entry[0].kind))), entry[1], entry[2]))
    level, above = below, kinds
  structure = add_payoff_runs(TreeStructure(tuple(levels)), np.array(payoff, int), gathered=False)
  return Template(structure, tuple(action), tuple(kind), tuple(payoff))


class Templates(Protocol):
  """The subgames of a game as templates, and what fills them; methods run on JAX's arrays.

  `game` are the rules, over public states `[n, S]`; `templates` are by the number that `number_of`
  gives, earlier parts of the game first.
  """

  @property
  def game(self) -> Game: ...

  @property
  def templates(self) -> Sequence[Template]: ...

  @property
  def one_start(self) -> bool:
    """Whether all games start in the same public state."""

  def starts(self, key: jax.Array, number: int) -> jax.Array:
    """Returns public states that games start in: `[number, S]`; `key` is consumed."""

  def number_of(self, states: jax.Array) -> jax.Array:
    """Returns which template subgames at `states` `[n, S]` have: `[n]`."""

  def is_legal(self, states: jax.Array, actions: jax.Array, players: bool) -> jax.Array:
    """Says which of `actions` `[n]`, all of players or all of chance, are legal: `[n]`."""

  def next_states(self, states: jax.Array, actions: jax.Array, players: bool) -> jax.Array:
    """Returns the states after `actions` `[n]`, and after what must follow: `[n, S]`."""

  def outcomes(self, level: int, above: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Draws outcomes of chance `[n]`, and returns how many each stands for `[n]`.

    Called where a template does not name them. `above` `[n, S]` are the states they are drawn at;
    at level 1 all are the root's.
    """

  def possible(self, states: jax.Array) -> jax.Array:
    """Returns which infostates the rules allow in `states`: `[n, P, H]`."""

  def pair_columns(self, template: int, state: jax.Array, ends: jax.Array) -> dict[str, Any]:
    """Returns `Pairs.columns`, without `dealt`, for a root and its ends `[T, S]`."""


@functools.partial(jax.jit, static_argnums=(0, 1))  # a program that asks twice traces it once
def fill_states(
  rules: Templates, number: int, state: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Returns states `[N, S]`, whether they exist, actions and what each stands for: `[N]`."""
  template = rules.templates[number]
  structure = template.structure
  if structure.depth > _MOST_UNROLLED and min(template.action[1:]) >= 0:
    filled = _fill_by_loop(rules, template, state)
    return *filled, jnp.asarray(template.action), jnp.ones(structure.num_nodes)
  states, exists = [state[None]], [jnp.ones(1, bool)]
  actions, stands_for = [jnp.full(1, -1)], [jnp.ones(1)]
  for i, level in enumerate(structure.levels[1:], start=1):
    first, last = structure.offsets[i : i + 2]
    above = states[-1][level.parents]
    # Of numpy: rules leave out the moves that a level has none of.
    action: Any = np.array(template.action[first:last])
    weight = jnp.ones(level.size)
    if template.action[first] < 0:
      action, weight = rules.outcomes(i, above)
    there = exists[-1][level.parents] & rules.is_legal(above, action, template.decides)
    moved = rules.next_states(above, action, template.decides)
    states.append(jnp.where(there[:, None], moved, above))
    exists.append(there)
    actions.append(jnp.asarray(action))
    stands_for.append(weight)
  joined = (jnp.concatenate(part) for part in (states, exists, actions, stands_for))
  return tuple(joined)  # type: ignore[return-value]


def _fill_by_loop(
  rules: Templates, template: Template, state: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns states `[N, S]` and whether nodes exist `[N]`, by one program for all levels."""
  structure, number = template.structure, template.structure.num_nodes
  levels = list(zip(structure.offsets, structure.offsets[1:], structure.levels[1:]))
  place = np.full((len(levels), max(level.size for _, _, level in levels)), number)
  parent, action = np.zeros(number + 1, np.int32), jnp.array([*template.action, 0])
  for row, (above, start, level) in zip(place, levels):
    row[: level.size] = np.arange(start, start + level.size)
    parent[start : start + level.size] = above + level.parents

  def fill_level(nodes, here):
    states, exists = nodes
    above, chosen = jnp.asarray(parent)[here], action[here]
    before = states[above]
    there = exists[above] & rules.is_legal(before, chosen, template.decides)
    after = rules.next_states(before, chosen, template.decides)
    moved = jnp.where(there[:, None], after, before)
    return (states.at[here].set(moved, mode="drop"), exists.at[here].set(there, mode="drop")), None

  nodes = jnp.tile(state, (number, 1)), jnp.arange(number) == 0
  return jax.lax.scan(fill_level, nodes, jnp.asarray(place))[0]


@functools.partial(jax.jit, static_argnums=(0, 1))
def fill(rules: Templates, number: int, state: jax.Array) -> PublicTree:
  """Returns the subgame at a public state `[S]`, of the shape of a template."""
  # The tree of `build_public_tree(..., depth="stage")` with padding and without what must follow
  # (`Templates.next_states`); its prior is uniform over the infostates that the rules allow.
  template, game = rules.templates[number], rules.game
  structure, kind = template.structure, np.array(template.kind)
  offsets = np.array(structure.offsets)
  states, exists, actions, stands_for = fill_states(rules, number, state)
  parent = np.full(structure.num_nodes, -1)
  for i, level in enumerate(structure.levels[1:], start=1):
    parent[offsets[i] : offsets[i + 1]] = level.parents + offsets[i - 1]
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
  features = [game.features(states[leaves], player) for player in (0, 1)]
  there = exists[leaves]
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
    root_features=jnp.stack([game.features(state[None], player)[0] for player in (0, 1)]),
    leaf_features=jnp.where(there[:, None], jnp.stack(features), 0.0),
    leaf_actor=jnp.where(there, game.actor(states[leaves]), PADDING).astype(jnp.int8),
    structure=structure,
    depth_limited=leaves.size > 0,
    padded=True,
    dealt=dealt,
    **rules.pair_columns(number, state, states[ends]),
  )
  return tree.astype(dtype)


def node_features(game: Game, tree: PublicTree) -> Any:
  """Returns decisions' public states as the mover sees them: `[..., N, F]`, else zero."""
  xp: Any = tree.kind.__array_namespace__()
  kind, rows = tree.kind[..., None], xp.reshape(tree.state, (-1, tree.state.shape[-1]))
  first, second = (game.features(rows, p).reshape(*kind.shape[:-1], -1) for p in (0, 1))
  return xp.where(kind == 0, first, xp.where(kind == 1, second, 0.0)).astype(tree.dtype)
