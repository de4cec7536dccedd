"""The subgames of several variants of a game in the same tables.

Search is one program for all of them: variants of a game have equal shapes once their trees are
stacked, and a lane of self-play never leaves the variant that its game began in, because the
successors of a subgame are subgames of the same variant.
"""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from games import Game
from solvers.search.find import FoundSubgames
from solvers.search.tables import SubgameTable, SubgameTables, decision_features, stack_groups


def join_subgames(parts: Sequence[FoundSubgames]) -> FoundSubgames:
  """Lists the subgames of variants as one, those of each variant after each other.

  Args:
    parts: each variant's, from `find_subgames`.

  Returns:
    All of them, successors renumbered, with a start for each variant.
  """
  firsts = first_entries(parts).tolist()
  return FoundSubgames(
    trees=[tree for part in parts for tree in part.trees],
    successors=[below + first for part, first in zip(parts, firsts) for below in part.successors],
    states=[state for part in parts for state in part.states],
    starts=tuple(first + start for part, first in zip(parts, firsts) for start in part.starts),
  )


def first_entries(parts: Sequence[FoundSubgames]) -> np.ndarray:
  """Returns where each variant's entries begin among those of `join_subgames`: `[V]`."""
  return np.cumsum([0, *(len(part.trees) for part in parts)])[:-1]


def join_stages(games: Sequence[Game], parts: Sequence[FoundSubgames]) -> list[list[int]]:
  """Groups entries of `join_subgames` by the stage of the game that they start, earliest first."""
  groups: dict[int, list[int]] = {}
  for game, part, first in zip(games, parts, first_entries(parts).tolist()):
    for entry, stage in enumerate(game.stages(np.stack(part.states)).tolist()):
      groups.setdefault(stage, []).append(first + entry)
  return [groups[stage] for stage in sorted(groups)]


def stack_variants(
  games: Sequence[Game],
  parts: Sequence[FoundSubgames],
  *,
  by_stage: bool,
  node_features: bool = False,
) -> SubgameTables:
  """Stacks the subgames of variants: all in one table, or one for each stage of the game.

  Args:
    games, parts: the variants and the subgames of each; a game alone is its only variant.
    by_stage: whether each stage has a table of its own.
    node_features: whether tables hold them, the rows of each variant by its own rules.

  Returns:
    The tables; roots are numbered as the entries of `join_subgames`.
  """
  joined = join_subgames(parts)
  groups = join_stages(games, parts) if by_stage else [list(range(len(joined.trees)))]
  tables = stack_groups(joined, groups)
  if not node_features:
    return tables
  of = np.repeat(np.arange(len(parts)), [len(part.trees) for part in parts])
  stages = (
    dataclasses.replace(table, node_features=_features_by_variant(games, table, of[own]))
    for table, own in zip(tables.stages, groups)
  )
  return dataclasses.replace(tables, stages=tuple(stages))


def _features_by_variant(
  games: Sequence[Game], table: SubgameTable, variant: np.ndarray
) -> np.ndarray:
  """Returns `[M, N, F]`, each row's by the rules of its `variant` `[M]`."""
  found: dict[int, np.ndarray] = {}
  for number in np.unique(variant).tolist():
    rows = np.flatnonzero(variant == number)
    trees = jax.tree.map(lambda x, rows=rows: np.asarray(x)[rows], table.trees)
    found |= dict(zip(rows.tolist(), decision_features(games[number], trees)))
  return np.stack([found[row] for row in range(len(variant))])
