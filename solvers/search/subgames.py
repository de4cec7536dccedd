"""The protocol of a game's subgames: their roots, trees and successors.

Roots are pytrees of integers; `SubgameTables` holds trees beforehand, templates are filled later.
"""

import abc
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, PADDING, TERMINAL, Game, PublicTree, build_public_tree, stack_trees
from games.arrays import checked
from games.public_tree import Array, walk
from games.template import fill, fill_states, node_features


class FoundSubgames(NamedTuple):
  """The subgames of a game before they are stacked, by entry.

  Attributes:
    trees, states: the trees, each in its own shape, and their roots' public states `[S]`.
    successors: for each tree `[L]`, the entry that starts at each of its leaves.
  """

  trees: list[PublicTree]
  successors: list[np.ndarray]
  states: list[np.ndarray]


@checked
def find_subgames(game: Game, *, depth: int | str) -> FoundSubgames:
  """Enumerates the subgames of `game` that reach `depth` public actions down; the first starts it.

  Args:
    game: the rules. Equal public states have the same future and the same possible infostates.
    depth: public actions, chance included, from a subgame's root to its leaves; `"stage"` to cut
      where a stage of the game ends (`Game.stages`).

  Raises:
    ValueError: `depth` is not a positive integer or `"stage"`, or there are more than 4,096
      subgames.
  """
  if depth == "stage" and not stages_fit(game):
    raise _too_many(game, depth)
  roots: list[tuple[int, ...]] = [()]
  found = FoundSubgames([], [], [game.initial_state()])
  index = {found.states[0].tobytes(): 0}
  while len(found.trees) < len(roots):
    root = roots[len(found.trees)]
    tree = build_public_tree(game, root=root, depth=depth)
    successor = np.zeros(tree.num_leaves, np.int32)
    for i, leaf in enumerate(np.asarray(tree.leaf_nodes)):
      state = np.asarray(tree.state)[leaf]
      key = state.tobytes()
      if key not in index:
        index[key] = len(roots)
        roots.append(root + tree.history(int(leaf)))
        found.states.append(state)
        if len(roots) > _MAX_SUBGAMES:
          raise _too_many(game, depth)
      successor[i] = index[key]
    found.trees.append(tree)
    found.successors.append(successor)
  return found


@checked
def stages_fit(game: Game) -> bool:
  """Says whether a table may hold the subgames of a game's stages; counts them without trees."""
  roots, before = 1, game.stages(game.initial_state()[None])  # before: where each state came from
  for first, states, kind, parent, _, child in walk(game, game.initial_state(), merge="game"):
    stage = game.stages(states)
    roots += int(((kind != TERMINAL) & (stage != before)).sum())
    if roots > _MAX_SUBGAMES:
      return False
    numbers, rows = np.unique(child, return_index=True)
    before = stage[parent[rows[numbers >= first + len(states)]]]
  return True


def _too_many(game: Game, depth: int | str) -> ValueError:
  return ValueError(
    f"depth={depth} gives {game!r} more than {_MAX_SUBGAMES} different subgames; a table may hold "
    "at most that many"
  )


def bucket_subgames(subgames: FoundSubgames, num_buckets: int) -> list[list[int]]:
  """Groups entries of similar size, so that stacking a group wastes little."""
  sizes = np.array([tree.num_nodes for tree in subgames.trees])
  leaves = np.array([tree.num_leaves for tree in subgames.trees])
  decides = np.array([(np.asarray(tree.kind) < CHANCE).any() for tree in subgames.trees])
  apart = (np.flatnonzero(~decides), np.flatnonzero(decides & (leaves == 0)))
  buckets = [entries.tolist() for entries in apart if len(entries)]
  rest = np.flatnonzero(decides & (leaves > 0))
  if rest.size:
    log_sizes = np.log2(sizes[rest])
    span = max(log_sizes.max() - log_sizes.min(), 1e-9)
    count = max(num_buckets - len(buckets), 1)
    which = np.minimum(((log_sizes - log_sizes.min()) / span * count).astype(int), count - 1)
    buckets += [rest[which == i].tolist() for i in range(count) if (which == i).any()]
  return buckets


Roots = Any  # a pytree of integers `[B, ...]`


_STATIC = {"static": True}


@dataclasses.dataclass(frozen=True)
class Stage(abc.ABC):
  """Subgames of one shape, which one compiled program searches; attributes are static.

  Attributes:
    depth_limited, num_leaves: whether they may have leaves, and how many: L.
    decides: whether a player moves anywhere; else there is nothing to search.
    most_live, most_decisions: largest number of leaves, and of decisions, of a subgame.
    table_entries: of a solver's table for one subgame: nodes times infostates.
  """

  depth_limited: bool = dataclasses.field(metadata=_STATIC)
  num_leaves: int = dataclasses.field(metadata=_STATIC)
  decides: bool = dataclasses.field(metadata=_STATIC)
  most_live: int = dataclasses.field(metadata=_STATIC)
  most_decisions: int = dataclasses.field(metadata=_STATIC)
  table_entries: int = dataclasses.field(metadata=_STATIC)

  @abc.abstractmethod
  def holds(self, roots: Roots) -> jax.Array:
    """Says which of `roots` stand at this stage: `[B]`; other methods assume that all do."""

  @abc.abstractmethod
  def trees_at(self, roots: Roots) -> PublicTree:
    """Returns the subgames' trees, every array with a leading axis `[B]`."""

  @abc.abstractmethod
  def live_leaves(self, roots: Roots) -> jax.Array:
    """Returns how many leaves each subgame has: `[B]`."""

  @abc.abstractmethod
  def features_at(self, roots: Roots, trees: PublicTree) -> jax.Array | None:
    """Returns each decision's public state as the player who moves sees it: `[B, N, F]`, or None.

    Zero at other nodes. A policy network asks for them. `trees` are those at `roots`.
    """

  @abc.abstractmethod
  def successors(self, roots: Roots, trees: PublicTree) -> Roots:
    """Returns the roots of the subgames that start at the leaves of `trees`: `[B, L, ...]`."""


def after(stage: Stage, roots: Roots, trees: PublicTree, leaf: jax.Array) -> Roots:
  """Returns the roots of the subgames that start at leaves `[B]` of those at `roots`."""
  return jax.tree.map(lambda x: x[jnp.arange(len(leaf)), leaf], stage.successors(roots, trees))


class Subgames(Protocol):
  """All subgames of a game."""

  @property
  def stages(self) -> tuple[Stage, ...]:
    """The stages, earlier ones first; games start at the first."""

  @property
  def num_subgames(self) -> int | None:
    """Number of different subgames; None where they are not counted."""

  @property
  def one_start(self) -> bool:
    """Whether all games start alike."""

  @property
  def starts_apart(self) -> bool:
    """Whether the subgames of the first stage are the starts and no others."""

  def starts(self, key: jax.Array, number: int) -> Roots:
    """Returns the roots of `number` starts; `key` is consumed where they are drawn."""

  def prior(self, roots: Roots) -> jax.Array:
    """Returns the beliefs at roots that start a game: `[B, P, H]`."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SubgameTable(Stage):
  """The subgames of one stage; a root is a subgame's number among all of the game's."""

  # Public states that are equal share an entry: in Liar's Dice there is one for each last bid and
  # player to act, however the bidding got there.
  trees: PublicTree  # stacked depth-limited trees, leading axis `[M]`
  successor: Array  # `[M, L]` the root that each leaf is, -1 for padding
  num_live: Array  # `[M]` how many leaves of the common shape each row has
  row_of: Array  # `[R]` the row of each root, -1 for those of other stages
  node_features: Array | None = None  # `[M, N, F]` see `Stage.features_at`; None without

  def rows(self, roots: jax.Array) -> jax.Array:
    """Returns the rows of `roots` `[B]`, the first for those of other stages."""
    return jnp.maximum(jnp.asarray(self.row_of)[roots], 0)

  def holds(self, roots: jax.Array) -> jax.Array:
    return jnp.asarray(self.row_of)[roots] >= 0

  def trees_at(self, roots: jax.Array) -> PublicTree:
    rows = self.rows(roots)
    return jax.tree.map(lambda x: jnp.asarray(x)[rows], self.trees)

  def live_leaves(self, roots: jax.Array) -> jax.Array:
    return jnp.asarray(self.num_live)[self.rows(roots)]

  def features_at(self, roots: jax.Array, trees: PublicTree) -> jax.Array | None:
    if self.node_features is None:
      return None
    return jnp.asarray(self.node_features)[self.rows(roots)]

  def successors(self, roots: jax.Array, trees: PublicTree) -> jax.Array:
    return jnp.asarray(self.successor)[self.rows(roots)]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class SubgameTables:
  """The subgames of a game in one table a stage; see `Subgames`."""

  stages: tuple[SubgameTable, ...]  # the tables; root 0 is in the first

  @property
  def num_subgames(self) -> int:
    return sum(len(stage.num_live) for stage in self.stages)

  one_start = True

  @property
  def starts_apart(self) -> bool:
    return len(self.stages[0].num_live) == 1

  def starts(self, key: jax.Array, number: int) -> jax.Array:
    return jnp.zeros(number, jnp.int32)

  def prior(self, roots: jax.Array) -> jax.Array:
    first = self.stages[0]
    return jnp.asarray(first.trees.prior)[first.rows(roots)]


def stack_subgames(
  subgames: FoundSubgames, entries: Sequence[int] | None = None, features_of: Game | None = None
) -> SubgameTable:
  """Stacks the given entries of `subgames` (all by default) into a table."""
  entries = list(range(len(subgames.trees)) if entries is None else entries)
  stacked = stack_trees([subgames.trees[i] for i in entries])
  live = np.asarray(stacked.leaf_actor) != PADDING
  successor = np.full(live.shape, -1, np.int32)
  for row, mask, i in zip(successor, live, entries):
    # Stacking keeps the order of a tree's leaves: both are sorted by action, then parent.
    row[mask] = subgames.successors[i]
  row_of = np.full(len(subgames.trees), -1, np.int32)
  row_of[entries] = np.arange(len(entries))
  number, decisions = live.sum(axis=1), np.asarray(stacked.kind) < CHANCE
  with np.errstate(invalid="ignore"):  # of padding
    features = None if features_of is None else node_features(features_of, stacked)
  return SubgameTable(
    depth_limited=stacked.depth_limited,
    num_leaves=stacked.num_leaves,
    decides=bool(decisions.any()),
    most_live=int(number.max()),
    most_decisions=int(decisions.sum(axis=1).max()),
    table_entries=stacked.num_nodes * stacked.num_infostates,
    trees=stacked,
    successor=successor,
    num_live=number.astype(np.int32),
    row_of=row_of,
    node_features=features,
  )


def stack_stages(
  game: Game, subgames: FoundSubgames, *, by_stage: bool, node_features: bool = False
) -> SubgameTables:
  """Stacks the subgames of a game in one table, or `by_stage`, earliest first.

  `node_features` says whether tables hold them.
  """
  stage = game.stages(np.stack(subgames.states)) if by_stage else np.zeros(len(subgames.trees))
  groups = [np.flatnonzero(stage == number).tolist() for number in np.unique(stage)]
  features_of = game if node_features else None
  return SubgameTables(tuple(stack_subgames(subgames, group, features_of) for group in groups))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TemplateStage(Stage):
  """The subgames of one template; a root is its public state `[S]`. See `Stage`.

  Attributes:
    rules: the templates of the game, static.
    number: which of them, static.
    node_features: whether `features_at` answers, static.
  """

  rules: Any = dataclasses.field(metadata=_STATIC)
  number: int = dataclasses.field(metadata=_STATIC)
  node_features: bool = dataclasses.field(default=False, metadata=_STATIC)

  def holds(self, roots: jax.Array) -> jax.Array:
    return self.rules.number_of(roots) == self.number

  def trees_at(self, roots: jax.Array) -> PublicTree:
    return jax.vmap(lambda state: fill(self.rules, self.number, state))(roots)

  def live_leaves(self, roots: jax.Array) -> jax.Array:
    leaves = self.rules.templates[self.number].structure.leaf_nodes
    return jax.vmap(lambda state: fill_states(self.rules, self.number, state)[1][leaves].sum())(
      roots
    )

  def features_at(self, roots: jax.Array, trees: PublicTree) -> jax.Array | None:
    if not self.node_features:
      return None
    return jax.vmap(functools.partial(node_features, self.rules.game))(trees)

  def successors(self, roots: jax.Array, trees: PublicTree) -> jax.Array:
    return jnp.asarray(trees.state)[:, trees.structure.leaf_nodes]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TemplateSubgames:
  """The subgames of a game by its templates; see `Subgames`.

  Attributes:
    rules: the templates, static.
    node_features: whether stages answer `features_at`, static.
  """

  rules: Any = dataclasses.field(metadata=_STATIC)
  node_features: bool = dataclasses.field(default=False, metadata=_STATIC)

  @functools.cached_property
  def stages(self) -> tuple[TemplateStage, ...]:
    return tuple(
      TemplateStage(
        depth_limited=template.structure.num_leaves > 0,
        num_leaves=template.structure.num_leaves,
        decides=template.decides,
        most_live=template.structure.num_leaves,
        most_decisions=sum(kind < CHANCE for kind in template.kind),
        table_entries=template.structure.num_nodes * self.rules.game.num_infostates,
        rules=self.rules,
        number=number,
        node_features=self.node_features,
      )
      for number, template in enumerate(self.rules.templates)
    )

  num_subgames = None  # not counted
  starts_apart = True

  @property
  def one_start(self) -> bool:
    return self.rules.one_start

  def starts(self, key: jax.Array, number: int) -> jax.Array:
    return self.rules.starts(key, number)

  def prior(self, roots: jax.Array) -> jax.Array:
    possible = self.rules.possible(roots).astype(jnp.result_type(float))
    return possible / possible.sum(axis=-1, keepdims=True)


_MAX_SUBGAMES = 4096
