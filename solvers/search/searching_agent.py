"""An agent that searches depth-limited subgames of a game: its tables and what it searches with."""

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from games import Game, PublicTree, build_public_tree
from games.tabulate import check_tree_of
from solvers import tuning
from solvers.algorithms.cfr import Algorithm
from solvers.leaf_values import LeafValues
from solvers.search.starts import SearchPolicy
from solvers.search.subgames import (
  FoundSubgames,
  SubgameTable,
  SubgameTables,
  bucket_subgames,
  stack_subgames,
)

_SPARE_LANES = 1.25  # lanes for each that the rows of a call fill on average


class Room(NamedTuple):
  """Capacity of a compiled call of one stage: searches, and leaves of all of them."""

  num_lanes: int
  num_rows: int

  def calls(self, live: np.ndarray) -> Iterator[slice]:
    """Cuts searches of `live` leaves each, `[M]`, into calls that have lanes and rows for them."""
    start = 0
    while start < len(live):
      total = np.cumsum(live[start : start + self.num_lanes])
      size = max(int(np.searchsorted(total, self.num_rows, side="right")), 1)
      yield slice(start, start + size)
      start += size


@dataclasses.dataclass(frozen=True)
class SearchingAgent:
  """An agent that searches depth-limited subgames of a game; the whole of it in one object.

  Attributes:
    game: the rules.
    algorithm: what the agent searches with.
    leaf_values: values of leaves, each row by itself; None if the subgames have no leaves.
    subgames: from `find_subgames`.
    policy: a policy network that searches start from, or None.
    average_last: whether the average policy is played in subgames without leaves.
    start: the start of the game alone, as a stage.
    tables: all subgames, a stage for each compiled program.
    rooms: what a call of each has room for.
  """

  game: Game
  algorithm: Algorithm
  leaf_values: LeafValues | None
  subgames: FoundSubgames
  policy: SearchPolicy | None
  average_last: bool
  start: SubgameTable
  tables: SubgameTables
  rooms: tuple[Room, ...]

  @functools.cached_property
  def tree(self) -> PublicTree:
    """The whole game's public tree, which searches do not need."""
    return build_public_tree(self.game)

  def stage_of(self, roots: np.ndarray) -> np.ndarray:
    """Returns the number of the stage that each of `roots` `[M]` stands at."""
    held = [np.asarray(stage.row_of)[roots] >= 0 for stage in self.tables.stages]
    return np.argmax(held, axis=0)


def make_searching_agent(
  game: Game,
  subgames: FoundSubgames,
  *,
  algorithm: Algorithm,
  leaf_values: LeafValues | None,
  policy: SearchPolicy | None = None,
  average_last: bool = False,
  num_buckets: int = 4,
  rows_per_call: int | None = None,
  max_lanes: int | None = None,
) -> SearchingAgent:
  """Prepares the tables of an agent.

  Args:
    game: the rules.
    subgames: from `find_subgames`; its depth is the depth of the agent's search.
    algorithm: such as `linear_cfr()`.
    leaf_values: function of `(params, query)` that treats each row of a query by itself.
    policy: a policy network that every search starts from; None for uniform policies.
    average_last: play the average policy of subgames that end the game rather than a random
      iteration's. In expectation that is the same, since nothing is searched below them, and the
      average over playthroughs is as good with fewer.
    num_buckets: into how many programs subgames are grouped by size.
    rows_per_call, max_lanes: how many leaves and subgames one call searches at most (more
      leaves if a single subgame has more); None for what suits the device.
  """
  check_tree_of(game, subgames.trees[0])
  default_rows, default_lanes = tuning.pieces().call
  rows_per_call, max_lanes = rows_per_call or default_rows, max_lanes or default_lanes
  times, features_of = visits(subgames), None if policy is None else game
  stages, rooms = [], []
  for entries in bucket_subgames(subgames, num_buckets):
    stage = stack_subgames(subgames, entries, features_of)
    num_rows = max(rows_per_call, stage.most_live)
    met = times[entries] if times[entries].any() else None
    mean_live = max(float(np.average(stage.num_live, weights=met)), 1.0)
    # A network's row is much dearer than a subgame's tables, so rows are what should run out.
    lanes = int(np.clip(_SPARE_LANES * num_rows / mean_live, 1, max_lanes))
    stages.append(stage)
    rooms.append(Room(lanes, min(num_rows, lanes * stage.most_live)))
  return SearchingAgent(
    game=game,
    algorithm=algorithm,
    leaf_values=leaf_values,
    subgames=subgames,
    policy=policy,
    average_last=average_last,
    start=stack_subgames(subgames, [0], features_of),
    tables=SubgameTables(tuple(stages)),
    rooms=tuple(rooms),
  )


def searches_from(agent: SearchingAgent) -> np.ndarray:
  """Returns how many searches each subgame costs with all below it: `[R]`."""
  successors = agent.subgames.successors
  counts = np.ones(len(successors), np.int64)
  while True:
    longer = np.array([1 + counts[below].sum() for below in successors])
    if (longer == counts).all():
      return counts
    counts = longer


def visits(subgames: FoundSubgames) -> np.ndarray:
  """Returns how often one game's public tree meets each subgame, from entry 0 on: `[R]`."""
  counts = np.zeros(len(subgames.successors), np.int64)
  while True:
    more = np.zeros_like(counts)
    more[0] = 1
    for count, below in zip(counts, subgames.successors):
      np.add.at(more, below, count)
    if (more == counts).all():
      return counts
    counts = more
