"""Subgames that are made where they are needed: a template filled at a public state."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from games import PublicTree
from games.template import Templates, fill, fill_states, node_features


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TemplateStage:
  """The subgames of one template; a root is its public state `[S]`. See `Stage`.

  Attributes:
    rules: the templates of the game, static.
    number: which of them, static.
    node_features: whether `features_at` answers, static.
  """

  rules: Templates = dataclasses.field(metadata={"static": True})
  number: int = dataclasses.field(metadata={"static": True})
  node_features: bool = dataclasses.field(default=False, metadata={"static": True})

  @property
  def _template(self):
    return self.rules.templates[self.number]

  @property
  def depth_limited(self) -> bool:
    return self.num_leaves > 0

  @property
  def num_leaves(self) -> int:
    return self._template.structure.num_leaves

  @property
  def decides(self) -> bool:
    return self._template.decides

  @property
  def most_live(self) -> int:
    return self.num_leaves

  @property
  def most_decisions(self) -> int:
    return self._template.num_decisions

  @property
  def table_entries(self) -> int:
    return self._template.structure.num_nodes * self.rules.game.num_infostates

  def holds(self, roots: jax.Array) -> jax.Array:
    return self.rules.number_of(roots) == self.number

  def trees_at(self, roots: jax.Array) -> PublicTree:
    return jax.vmap(lambda state: fill(self.rules, self.number, state))(roots)

  def live_leaves(self, roots: jax.Array) -> jax.Array:
    leaves = self._template.structure.leaf_nodes
    return jax.vmap(lambda state: fill_states(self.rules, self.number, state)[1][leaves].sum())(
      roots
    )

  def features_at(self, roots: jax.Array, trees: PublicTree) -> jax.Array | None:
    del roots
    if not self.node_features:
      return None
    return jax.vmap(functools.partial(node_features, self.rules.game))(trees)

  def successors(self, roots: jax.Array, trees: PublicTree) -> jax.Array:
    del roots
    return jnp.asarray(trees.state)[:, self._template.structure.leaf_nodes]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TemplateSubgames:
  """The subgames of a game by its templates; see `Subgames`.

  Attributes:
    rules: the templates, static.
    node_features: whether stages answer `features_at`, static.
  """

  rules: Templates = dataclasses.field(metadata={"static": True})
  node_features: bool = dataclasses.field(default=False, metadata={"static": True})

  @property
  def stages(self) -> tuple[TemplateStage, ...]:
    numbers = range(len(self.rules.templates))
    return tuple(TemplateStage(self.rules, number, self.node_features) for number in numbers)

  @property
  def num_subgames(self) -> None:
    """Nobody counts them."""
    return None

  @property
  def one_start(self) -> bool:
    return self.rules.one_start

  @property
  def starts_apart(self) -> bool:
    return True

  def starts(self, key: jax.Array, number: int) -> jax.Array:
    return self.rules.starts(key, number)

  def prior(self, roots: jax.Array) -> jax.Array:
    possible = self.rules.possible(roots).astype(jnp.result_type(float))
    return possible / possible.sum(axis=-1, keepdims=True)
