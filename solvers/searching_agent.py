"""An agent that searches depth-limited subgames of a game: its tables and what it searches with."""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from games import Game, PublicTree, build_public_tree
from solvers.algorithm import Algorithm
from solvers.leaf_values import LeafValues
from solvers.policy_network import SearchPolicy
from solvers.subgames import (
  Subgames,
  SubgameTable,
  add_node_features,
  bucket_subgames,
  stack_subgames,
)

_SPARE_LANES = 1.25  # lanes for each that the rows of a call fill on average


class Bucket(NamedTuple):
  """Subgames searched by one compiled program."""

  table: SubgameTable
  num_lanes: int
  num_rows: int
  decides: bool

  def calls(self, rows: np.ndarray) -> Iterator[slice]:
    """Cuts searches of the table's `rows` `[M]` into calls that have lanes and room for them."""
    live, start = self.table.num_live[rows], 0
    while start < len(rows):
      total = np.cumsum(live[start : start + self.num_lanes])
      size = max(int(np.searchsorted(total, self.num_rows, side="right")), 1)
      yield slice(start, start + size)
      start += size


@dataclasses.dataclass(frozen=True)
class SearchingAgent:
  """An agent that searches depth-limited subgames of a game; the whole of it in one object.

  Attributes:
    game: the rules.
    tree: the whole game's public tree.
    algorithm: what the agent searches with.
    leaf_values: values of leaves, each row by itself; None if the subgames have no leaves.
    stop_exponent: the stopping iteration's weights, `(j + 1) ** stop_exponent`.
    subgames: what `find_subgames` found.
    policy: a policy network that searches start from, or None.
    average_last: whether the average policy is played in subgames without leaves.
    start: the table of the first subgame alone.
    buckets, bucket_of, row_of: the compiled programs' tables, and where each entry is.
  """

  game: Game
  tree: PublicTree
  algorithm: Algorithm
  leaf_values: LeafValues | None
  stop_exponent: float
  subgames: Subgames
  policy: SearchPolicy | None
  average_last: bool
  start: SubgameTable
  buckets: tuple[Bucket, ...]
  bucket_of: np.ndarray
  row_of: np.ndarray


def make_searching_agent(
  game: Game,
  subgames: Subgames,
  *,
  algorithm: Algorithm,
  leaf_values: LeafValues | None,
  stop_exponent: float | None = None,
  policy: SearchPolicy | None = None,
  average_last: bool = False,
  num_buckets: int = 4,
  rows_per_call: int = 512,
  max_lanes: int = 256,
) -> SearchingAgent:
  """Prepares the tables of an agent.

  Args:
    game: the rules.
    subgames: from `find_subgames`; its depth is the depth of the agent's search.
    algorithm: such as `linear_cfr()`.
    leaf_values: function of `(params, query)` that treats each row of a query by itself.
    stop_exponent: None for the algorithm's averaging weights, as Theorem 3 asks.
    policy: a policy network that every search starts from; None for uniform policies.
    average_last: play the average policy of subgames that end the game rather than a random
      iteration's. In expectation that is the same, since nothing is searched below them, and the
      average over playthroughs is as good with fewer.
    num_buckets: into how many programs subgames are grouped by size.
    rows_per_call, max_lanes: how many leaves and subgames one call searches at most (more
      leaves if a single subgame has more).
  """
  bucket_of = np.zeros(len(subgames.trees), int)
  row_of = np.zeros(len(subgames.trees), int)
  times = visits(subgames)
  buckets: list[Bucket] = []
  for entries in bucket_subgames(subgames, num_buckets):
    table = _stack(game, subgames, entries, policy)
    bucket_of[entries] = len(buckets)
    row_of[entries] = np.arange(len(entries))
    num_rows = max(rows_per_call, int(table.num_live.max()))
    met = times[entries] if times[entries].any() else None
    mean_live = max(float(np.average(table.num_live, weights=met)), 1.0)
    # A network's row is much dearer than a subgame's tables, so rows are what should run out.
    lanes = int(np.clip(_SPARE_LANES * num_rows / mean_live, 1, max_lanes))
    num_rows = min(num_rows, lanes * int(table.num_live.max()))
    buckets.append(Bucket(table, lanes, num_rows, table.decides))
  exponent = algorithm.averaging if stop_exponent is None else stop_exponent
  return SearchingAgent(
    game=game,
    tree=build_public_tree(game),
    algorithm=algorithm,
    leaf_values=leaf_values,
    stop_exponent=float(exponent),
    subgames=subgames,
    policy=policy,
    average_last=average_last,
    start=_stack(game, subgames, [0], policy),
    buckets=tuple(buckets),
    bucket_of=bucket_of,
    row_of=row_of,
  )


def _stack(game: Game, subgames: Subgames, entries, policy: SearchPolicy | None) -> SubgameTable:
  table = stack_subgames(subgames, entries)
  return table if policy is None else add_node_features(game, table)


def count_searches(agent: SearchingAgent) -> int:
  """Returns how many subgames one playthrough searches at most."""
  return int(searches_from(agent)[0])


def searches_from(agent: SearchingAgent) -> np.ndarray:
  """Returns how many searches each subgame costs with all below it: `[R]`."""
  successors = agent.subgames.successors
  counts = np.ones(len(successors), np.int64)
  while True:
    longer = np.array([1 + counts[below].sum() for below in successors])
    if (longer == counts).all():
      return counts
    counts = longer


def visits(subgames: Subgames) -> np.ndarray:
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
