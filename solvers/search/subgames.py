"""The protocol of a game's subgames: their roots, trees and successors.

Lanes of self-play, agents and evaluations hold *roots*, pytrees of integers that say which subgame
comes next, and ask a `Subgames` for everything else. Tables of subgames written out beforehand
(`tables.SubgameTables`) are one implementation, templates that are filled where they are needed
(`templates.TemplateSubgames`) another.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from games import PublicTree

Roots = Any  # a pytree of integers `[B, ...]`


class Stage(Protocol):
  """Subgames of one shape, which one compiled program searches."""

  @property
  def depth_limited(self) -> bool:
    """Whether the subgames may have leaves."""

  @property
  def num_leaves(self) -> int:
    """Leaves of the common shape: L."""

  @property
  def decides(self) -> bool:
    """Whether a player moves anywhere; else there is nothing to search."""

  @property
  def most_live(self) -> int:
    """Largest number of leaves of a subgame."""

  @property
  def most_decisions(self) -> int:
    """Largest number of decisions of a subgame."""

  @property
  def table_entries(self) -> int:
    """Entries of a solver's table for one subgame: nodes times infostates."""

  def holds(self, roots: Roots) -> jax.Array:
    """Says which of `roots` stand at this stage: `[B]`; other methods take any for one of them."""

  def trees_at(self, roots: Roots) -> PublicTree:
    """Returns the subgames' trees, every array with a leading axis `[B]`."""

  def live_leaves(self, roots: Roots) -> jax.Array:
    """Returns how many leaves each subgame has: `[B]`."""

  def features_at(self, roots: Roots, trees: PublicTree) -> jax.Array | None:
    """Returns each decision's public state as the player who moves sees it: `[B, N, F]`, or None.

    Zero at other nodes. A policy network asks for them. `trees` are those at `roots`.
    """

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
