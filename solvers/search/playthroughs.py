"""An agent that searches depth-limited subgames, and its policy (ReBeL, section 6, Theorem 3)."""
# In one playthrough every subgame that can come up is solved once, from the beliefs that searches
# above it led to, and a random iteration's policy is played; it, or with CFR-AVG the average until
# then, sets the beliefs below (appendix I). Averaged over playthroughs by own reach, these policies
# approach the agent's, and the exploitability of the average bounds the agent's from above. All of
# a batch meet the same first search; its random iterations are spread evenly (`spread_stops`).
# CFR is chaotic: rounding decides where a long search goes, and all playthroughs share where the
# first one went. A jitter of its beliefs by a few units in the last place draws another trajectory.
# *Unsafe* search plays the average policy of each search and passes its beliefs down: one
# playthrough is all of it, and however long it searches it may stay exploitable.

import dataclasses
import functools
import graphlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games import CHANCE, PADDING, Game, PublicTree, build_public_tree
from games.tabulate import check_tree_of, children_of
from solvers import tuning, validation
from solvers.algorithms.cfr import Algorithm
from solvers.leaf_values import LeafValues
from solvers.search.batch import (
  beliefs_below,
  iterations_to,
  sample_stop,
  search_batch,
  spread_stops,
)
from solvers.search.starts import SearchPolicy, first_policy, searched_starts
from solvers.search.subgames import (
  FoundSubgames,
  Stage,
  SubgameTable,
  SubgameTables,
  bucket_subgames,
  stack_subgames,
)
from solvers.sweeps.levels import join_levels, split_levels
from solvers.sweeps.problem import make_problem
from solvers.xla import Programs, run_ahead, work_of_solving

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
  """An agent that searches depth-limited subgames of a game.

  Attributes:
    game, algorithm, leaf_values, subgames, policy, average_last: see `make_searching_agent`.
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
    leaf_values: of `(params, query)`, each row by itself; None if the subgames have no leaves.
    policy: a policy network that every search starts from; None for uniform policies.
    average_last: play the average policy of subgames that end the game, not a random iteration's:
      in expectation the same, with fewer playthroughs.
    num_buckets: into how many programs subgames are grouped by size.
    rows_per_call, max_lanes: leaves and subgames that one call searches at most (more leaves if a
      single subgame has more); None for what suits the device.
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


def upwards(subgames: FoundSubgames) -> list[int]:
  """Returns the subgames' numbers, each after all those below it."""
  below = {root: rows.tolist() for root, rows in enumerate(subgames.successors)}
  return list(graphlib.TopologicalSorter(below).static_order())


def searches_from(subgames: FoundSubgames) -> np.ndarray:
  """Returns how many searches each subgame costs with all below it: `[R]`."""
  counts = np.ones(len(subgames.successors), np.int64)
  for root in upwards(subgames):
    counts[root] += counts[subgames.successors[root]].sum()
  return counts


def visits(subgames: FoundSubgames) -> np.ndarray:
  """Returns how often one game's public tree meets each subgame, from entry 0 on: `[R]`."""
  counts = np.zeros(len(subgames.successors), np.int64)
  counts[0] = 1
  for root in reversed(upwards(subgames)):
    np.add.at(counts, subgames.successors[root], counts[root])
  return counts


class Frontier(NamedTuple):
  """Subgames to be searched, sorted by node."""

  node: np.ndarray  # `[M]` place of the subgame's root in the whole tree
  root: np.ndarray  # `[M]` which subgame it is
  beliefs: np.ndarray  # `[M, P, H]`
  reach: np.ndarray  # `[M, P, H]` each player's own reach in this playthrough

  def take(self, index: np.ndarray) -> "Frontier":
    return Frontier(*(x[index] for x in self))


def draw_stops(
  agent: SearchingAgent, frontier: Frontier, num_iterations: int, key: jax.Array
) -> np.ndarray:
  """Returns each subgame's last iteration, `[M]`, drawn independently."""
  count = len(frontier.node)
  # Frontiers are of any length, and each length would be compiled.
  shape = (1 << max(count - 1, 0).bit_length(),)
  algorithm = agent.algorithm
  stops = sample_stop(key, shape, num_iterations, algorithm.averaging, algorithm.head_start)
  return np.asarray(stops)[:count]


def cut_into_calls(
  agent: SearchingAgent, frontier: Frontier, stops: np.ndarray
) -> Iterator[tuple[int, Frontier, np.ndarray]]:
  """Yields a stage's number, what one call of it can search, sorted by node, and its stops."""
  # Searches that stop early share a call, so that it need not go on.
  stage_of = agent.stage_of(frontier.root)
  for number, (stage, room) in enumerate(zip(agent.tables.stages, agent.rooms)):
    members = np.flatnonzero(stage_of == number)
    members = members[np.argsort(stops[members], kind="stable")]
    rows = np.asarray(stage.row_of)[frontier.root[members]]
    for part in room.calls(np.asarray(stage.num_live)[rows]):
      chunk = np.sort(members[part])
      yield number, frontier.take(chunk), stops[chunk]


# A node's noise counts by its reach and falls with the root of its number of searches. For a given
# total it is least with numbers proportional to reach to this power.
_POWER, _LEAST = 2 / 3, 4


def thinned(frontier: Frontier, count: int, key: jax.Array) -> Frontier:
  """Draws some of the subgames of `count` playthroughs by their reach, fewer at rare nodes."""
  # Reach is divided by the odds of being drawn, so that sums over subgames are right in
  # expectation.
  _, first, group = np.unique(frontier.node, return_index=True, return_inverse=True)
  odds = frontier.reach.sum(axis=(1, 2), dtype=float)
  share = np.add.reduceat(odds, first) / (count * frontier.reach[0].size)
  number = np.maximum(count * share**_POWER, _LEAST)
  for _ in range(8):  # what is drawn for certain leaves more for the others
    odds = np.minimum(odds * (number / np.add.reduceat(odds, first))[group], 1.0)
  upto = np.cumsum(odds) + float(jax.random.uniform(key))
  drawn = np.floor(upto) > np.floor(upto - odds)
  return frontier._replace(reach=frontier.reach / odds[:, None, None]).take(np.flatnonzero(drawn))


Progress = Callable[[int, int], None]  # (searches done, searches in all)


@dataclasses.dataclass(frozen=True)
class Sampled:
  """Sums over the playthroughs sampled so far.

  Attributes:
    sums: `[N, H]` own reach of each edge of the whole tree by its mover, added up.
    count: playthroughs so far.
    key: for later ones.
  """

  sums: np.ndarray
  count: int
  key: jax.Array


def searching_policy(
  agent: SearchingAgent,
  *,
  params: Any,
  num_playthroughs: int,
  num_iterations: int,
  key: jax.Array,
  unsafe: bool = False,
  progress: Progress | None = None,
) -> np.ndarray:
  """Computes the agent's policy `[N, H]` on `agent.tree`, the average over sampled playthroughs.

  Args:
    agent: from `make_searching_agent`.
    params: passed on to the agent's leaf values.
    num_playthroughs: how many are averaged.
    num_iterations: of each search; one player's update is one. Even.
    key: consumed.
    unsafe: play the average policy of each search, not a random iteration's, and pass on its
      beliefs. Needs one playthrough only.
    progress: called with searches done and in all.

  Raises:
    ValueError: a number is out of range.
  """
  *_, last = sample_playthroughs(
    agent,
    params=params,
    num_playthroughs=num_playthroughs,
    num_iterations=num_iterations,
    start=no_playthroughs(agent, key),
    unsafe=unsafe,
    progress=progress,
  )
  return average_policy(agent, last)


def no_playthroughs(agent: SearchingAgent, key: jax.Array) -> Sampled:
  """Returns the start of `sample_playthroughs`; `key` is consumed."""
  return Sampled(np.zeros((agent.tree.num_nodes, agent.tree.num_infostates)), 0, key)


def average_policy(agent: SearchingAgent, sampled: Sampled) -> np.ndarray:
  """Returns the average policy `[N, H]` of the playthroughs on `agent.tree`."""
  return np.asarray(_normalise(agent.tree, jnp.asarray(sampled.sums, agent.tree.dtype)))


def sample_playthroughs(
  agent: SearchingAgent,
  *,
  params: Any,
  num_playthroughs: int,
  num_iterations: int,
  start: Sampled,
  unsafe: bool = False,
  jitter: jax.Array | None = None,
  progress: Progress | None = None,
) -> Iterator[Sampled]:
  """Samples playthroughs, as many at a time as fit.

  Args:
    start: from `no_playthroughs` or an earlier call with the same agent, parameters and iterations;
      what follows does not depend on where calls began or ended, if none but the last ended within
      a batch.
    jitter: key that moves the first search's beliefs by rounding, for another trajectory, below
      which searches are `thinned`; None for neither.
    num_playthroughs: in all, those of `start` included.
    agent, params, num_iterations, unsafe, progress: see `searching_policy`; progress counts from
      `start`.

  Yields:
    The sums after each batch, at least once.

  Raises:
    ValueError: a number is out of range.
  """
  validation.check_integer("num_playthroughs", num_playthroughs)
  validation.check_even("num_iterations", num_iterations)
  children = children_of(agent.tree, agent.game.num_actions)
  sums, done, key = start.sums.copy(), start.count, start.key
  per_batch = max(1, min(num_playthroughs, _MAX_FRONTIER // max(agent.tree.num_nodes // 4, 1)))
  if jitter is not None:
    per_batch = min(num_playthroughs, _MAX_THINNED)
  costs = searches_from(agent.subgames)
  left = total = int(costs[0]) * max(num_playthroughs - done, 0)
  iterates = None
  if not unsafe and agent.start.depth_limited and agent.leaf_values is not None:
    _, _, iterates = searched_starts(
      agent.start,
      jnp.zeros(1, jnp.int32),
      agent.algorithm,
      num_iterations,
      agent.leaf_values,
      params,
      agent.policy,
      jittered(np.asarray(agent.tree.prior), jitter)[None],
    )

  def search(item: tuple[int, Frontier, np.ndarray]) -> tuple[Any, Any]:
    here = jax.device_put(params, tuning.chosen_device())
    return _search_chunk(agent, *item, here, num_iterations, unsafe)

  if done >= num_playthroughs:
    yield start
  while done < num_playthroughs:
    count = min(per_batch, num_playthroughs - done)
    prior = np.tile(np.asarray(agent.tree.prior), (count, 1, 1))
    frontier = Frontier(np.zeros(count, int), np.zeros(count, int), prior, np.ones_like(prior))
    if iterates is not None:
      key, start_key = jax.random.split(key)
      # All playthroughs of a batch meet the same first search.
      stops = spread_stops(
        start_key, count, num_iterations, agent.algorithm.averaging, agent.algorithm.head_start
      )
      policies, believed = (x[0, stops] for x in (iterates.policies, iterates.believed))
      reached = _follow(agent.subgames.trees[0], frontier.reach, policies, believed)
      frontier = _descend(agent, agent.start, reached, frontier, children, sums)
      left -= int(costs[0] * count - costs[frontier.root].sum())
    while len(frontier.node):
      key, level_key = jax.random.split(key)
      if jitter is not None:
        drawn = thinned(frontier, count, jax.random.fold_in(level_key, 1))
        left -= int(costs[frontier.root].sum() - costs[drawn.root].sum())
        frontier = drawn
      chunks = cut_into_calls(
        agent, frontier, draw_stops(agent, frontier, num_iterations, level_key)
      )
      below = []
      for (number, chunk, _), found in run_ahead(search, chunks, kind=lambda item: item[0]):
        stage = agent.tables.stages[number]
        below.append(_descend(agent, stage, found, chunk, children, sums))
        left -= int(costs[chunk.root].sum() - costs[below[-1].root].sum())
        if progress is not None:
          progress(total - left, total)
      joined = Frontier(*map(np.concatenate, zip(*below)))
      frontier = joined.take(np.argsort(joined.node, kind="stable"))
    done += count
    yield Sampled(sums.copy(), done, key)


_MAX_FRONTIER = 1 << 17
_MAX_THINNED = 2_048  # playthroughs


def jittered(beliefs: np.ndarray, key: jax.Array | None) -> np.ndarray:
  """Returns beliefs `[P, H]` moved by at most two units of rounding each; None moves nothing."""
  if key is None:
    return beliefs
  units = np.asarray(jax.random.randint(key, np.shape(beliefs), -2, 3))
  return beliefs * (1 + units * np.finfo(beliefs.dtype).eps).astype(beliefs.dtype)


@functools.partial(
  Programs, static_argnames=("algorithm", "leaf_values", "policy", "num_rows", "average")
)
def _searches(
    stage, roots, beliefs, stop, active, num_iterations, params, algorithm, leaf_values, policy,
    num_rows, average,
):  # fmt: skip
  trees = stage.trees_at(roots)
  features = stage.features_at(roots, trees)
  result = search_batch(
    trees, beliefs, stop, num_iterations, algorithm=algorithm if stage.decides else None,
    leaf_values=leaf_values, params=params, num_rows=num_rows, active=active,
    initial_policy=first_policy(policy, stage, trees, features, beliefs, params),
  )  # fmt: skip
  played = result.average_policy if average else result.policy
  below = jax.vmap(beliefs_below)(trees, beliefs, played) if average else result.leaf_beliefs
  policies = jax.vmap(join_levels)(played)
  return trees, stage.successors(roots, trees), policies, below if stage.depth_limited else None


def search_together(
  stage: Stage, room: Room, roots: np.ndarray, beliefs: np.ndarray, stops: np.ndarray,
  num_iterations: int, params: Any, **settings: Any,
) -> tuple[PublicTree, Any, jax.Array, jax.Array | None]:  # fmt: skip
  """Searches subgames of a stage in one call.

  Args:
    stage, room: of the subgames, and of the call.
    roots: `[M, ...]`, as for `Stage.trees_at`.
    beliefs, stops: `[M, ...]`, as for `search_batch`.
    num_iterations, params: of all searches.
    settings: `algorithm`, `leaf_values`, the policy network `policy`, and whether the `average`
      policy is played instead of an iteration's.

  Returns:
    By lane of the room, of which the first M count: trees, their successors, the policies played
    `[B, n, H]`, and the PBSs at leaves `[B, L, P, H]`; None without leaves.
  """
  index = np.resize(np.arange(len(roots)), room.num_lanes)
  return _searches[work_of_solving(stage, settings["leaf_values"])](
    stage,
    np.asarray(roots, np.int32)[index],
    beliefs[index],
    np.asarray(stops, np.int32)[index],
    np.arange(room.num_lanes) < len(roots),
    num_iterations,
    params,
    num_rows=room.num_rows,
    **settings,
  )


def _own_reach(tree, policy, reach):
  """Returns one subgame's own reach `[P, n, H]` under a policy `[n, H]`."""
  problem = make_problem(tree, tree.prior)
  levels = problem.split(policy)
  return jnp.stack([join_levels(problem.own_reach(levels, p, reach[p])) for p in (0, 1)])


_own_reaches = Programs(jax.vmap(_own_reach))


@Programs
def _follow(tree: PublicTree, reach: jax.Array, policies: jax.Array, believed: jax.Array):
  """Plays policies `[M, n, H]` of the start."""
  tree = jax.tree.map(jnp.asarray, tree)

  def follow(reach, played, known):
    own = _own_reach(tree, played, reach.astype(tree.dtype))
    return own, beliefs_below(tree, tree.prior, split_levels(tree, known))

  return jax.vmap(follow)(jnp.asarray(reach), policies, believed)


def _search_chunk(
  agent: SearchingAgent, number: int, chunk: Frontier, stops, params, num_iterations, unsafe
) -> tuple[np.ndarray, jax.Array | None]:
  """Searches one chunk of a stage, as far as it is needed; returns own reach, PBSs at leaves."""
  stage, room = agent.tables.stages[number], agent.rooms[number]
  average = unsafe or (agent.average_last and not stage.depth_limited)
  trees, _, played, below = search_together(
    stage,
    room,
    chunk.root,
    chunk.beliefs.astype(agent.tree.dtype),
    stops,
    num_iterations if average else iterations_to(stops, agent.algorithm, num_iterations),
    params,
    algorithm=agent.algorithm,
    leaf_values=agent.leaf_values,
    policy=agent.policy,
    average=average,
  )
  reach = np.resize(chunk.reach, (room.num_lanes, *chunk.reach.shape[1:]))
  own = _own_reaches(trees, played, reach.astype(agent.tree.dtype))
  return np.asarray(own)[: len(chunk.node)], below


def _descend(
  agent: SearchingAgent, stage: SubgameTable, results, chunk: Frontier, children, sums
) -> Frontier:
  """Adds the policies of searched subgames to `sums` and returns the subgames below them."""
  own, below = np.asarray(results[0]), results[1]
  rows = np.asarray(stage.row_of)[chunk.root]
  nodes, first = np.unique(chunk.node, return_index=True)
  places = _places(stage, rows[first], nodes, children)  # [nodes, n]
  _accumulate(agent.tree, np.add.reduceat(own, first, axis=0), places, sums)
  if below is None:
    return chunk.take(np.zeros(0, int))

  lanes, leaf = np.nonzero(np.asarray(stage.trees.leaf_actor)[rows] != PADDING)
  leaf_nodes = np.asarray(stage.trees.leaf_nodes)[0]
  place = places[np.searchsorted(nodes, chunk.node[lanes]), leaf_nodes[leaf]]
  # Where neither player's own policy goes, no policy has weight in the average, and none below.
  reached = own[lanes, :, leaf_nodes[leaf]].max(axis=(1, 2)) > 0
  order = np.argsort(place, kind="stable")
  order = order[reached[order]]
  lanes, leaf, place = lanes[order], leaf[order], place[order]
  return Frontier(
    node=place,
    root=np.asarray(stage.successor)[rows[lanes], leaf],
    beliefs=np.asarray(below)[lanes, leaf],
    reach=own[lanes, :, leaf_nodes[leaf]],
  )


def _places(stage: SubgameTable, rows, nodes, children) -> np.ndarray:
  """Returns the nodes of the whole tree at those of subgames at `nodes`, -1 for padding."""
  parent = np.asarray(stage.trees.parent)[rows]  # [m, n]
  action = np.asarray(stage.trees.action)[rows]
  places = np.full(parent.shape, -1)
  places[:, 0] = nodes
  for i in range(1, parent.shape[1]):
    above = places[np.arange(len(nodes)), parent[:, i]]
    places[:, i] = np.where(parent[:, i] >= 0, children[above, action[:, i]], -1)
  return places


def _accumulate(tree: PublicTree, own: np.ndarray, places: np.ndarray, sums: np.ndarray) -> None:
  """Adds the movers' own reach `[m, P, n, H]` to their edges of the whole tree."""
  mover = np.asarray(tree.kind)[np.asarray(tree.parent)[places]]
  row, column = np.nonzero((places >= 0) & (mover < CHANCE) & (np.arange(places.shape[1]) > 0))
  sums[places[row, column]] += own[row, mover[row, column], column]


@Programs
def _normalise(tree: PublicTree, sums: jax.Array) -> jax.Array:
  problem = make_problem(tree, tree.prior)
  return join_levels(problem.normalise(problem.split(sums)))
