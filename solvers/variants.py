"""The subgames of several variants of a game in the same tables.

Search is one program for all of them: variants of a game have equal shapes once their trees are
stacked, and a lane of self-play never leaves the variant that its game began in, because the
successors of a subgame are subgames of the same variant.
"""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from games import Game
from solvers.subgames import (
  Subgames,
  SubgameTable,
  SubgameTables,
  group_stages,
  stack_groups,
)


def join_subgames(parts: Sequence[Subgames]) -> Subgames:
  """Lists the subgames of variants as one, those of each variant after each other.

  Args:
    parts: each variant's, from `find_subgames`.

  Returns:
    All of them, successors renumbered, with a start for each variant.
  """
  firsts = first_entries(parts).tolist()
  return Subgames(
    trees=[tree for part in parts for tree in part.trees],
    successors=[below + first for part, first in zip(parts, firsts) for below in part.successors],
    states=[state for part in parts for state in part.states],
    starts=tuple(first + start for part, first in zip(parts, firsts) for start in part.starts),
  )


def first_entries(parts: Sequence[Subgames]) -> np.ndarray:
  """Returns where each variant's entries begin among those of `join_subgames`: `[V]`."""
  return np.cumsum([0, *(len(part.trees) for part in parts)])[:-1]


def join_stages(games: Sequence[Game], parts: Sequence[Subgames]) -> list[list[int]]:
  """Groups entries of `join_subgames` by the stage of the game that they start, earliest first."""
  groups: dict[int, list[int]] = {}
  for game, part, first in zip(games, parts, first_entries(parts).tolist()):
    for entries in group_stages(game, part):
      stage = int(game.stages(part.states[entries[0]][None])[0])
      groups.setdefault(stage, []).extend(first + entry for entry in entries)
  return [groups[stage] for stage in sorted(groups)]


# Adds to a table of one game's subgames what trees do not hold: `subgames.add_node_features`.
Addition = Callable[[Game, SubgameTable], SubgameTable]


def stack_variants(
  games: Sequence[Game],
  parts: Sequence[Subgames],
  *,
  by_stage: bool,
  additions: Sequence[Addition] = (),
) -> SubgameTables:
  """Stacks the subgames of variants: all in one table, or one for each stage of the game.

  Args:
    games, parts: the variants and the subgames of each; a game alone is its only variant.
    by_stage: whether each stage has a table of its own.
    additions: applied to every table in turn, the rows of each variant by its own rules.

  Returns:
    The tables; entries are numbered as by `join_subgames`.
  """
  joined = join_subgames(parts)
  groups = join_stages(games, parts) if by_stage else [list(range(len(joined.trees)))]
  tables = stack_groups(joined, groups)
  of = np.repeat(np.arange(len(parts)), [len(part.trees) for part in parts])
  for addition in additions:
    added = (_add(games, table, of[own], addition) for table, own in zip(tables.tables, groups))
    tables = dataclasses.replace(tables, tables=tuple(added))
  return tables


def _add(
  games: Sequence[Game], table: SubgameTable, variant: np.ndarray, addition: Addition
) -> SubgameTable:
  """Returns `table` after an addition, each row's made by the rules of its `variant` `[R]`."""
  if len(games) == 1:
    return addition(games[0], table)
  rows = [np.flatnonzero(variant == number) for number in range(len(games))]
  parts = [
    addition(game, jax.tree.map(lambda x, own=own: np.asarray(x)[own], table))
    for game, own in zip(games, rows)
    if len(own)
  ]
  back = np.argsort(np.concatenate(rows))
  return jax.tree.map(lambda *x: np.concatenate(x)[back], *parts)
