"""Self-play: many lanes, each solving the subgame it is in and moving on (ReBeL, algorithm 2)."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games import PADDING, Array, PublicTree
from solvers import Algorithm, LeafValues
from solvers.search import (
  Roots,
  SearchPolicy,
  SearchResult,
  Stage,
  Subgames,
  after,
  explore,
  first_policy,
  leaf_probabilities,
  sample_leaf,
  sample_starts,
  sample_stop,
  search_batch,
  search_starts,
)
from solvers.sweeps import Levels, make_problem, split_levels
from solvers.xla import Work

# Entries of a table. With all 1,128 hands of a turn endgame tables cost more than the network does,
# and compiling them for a network takes too long; with the 91 of a deck of 18 cards it pays.
LARGE = 2**14
# Probability of a uniform move by the one player that explores (ReBeL, appendix E).
EXPLORATION = 0.25


class Lanes(NamedTuple):
  """The states of `B` games of self-play."""

  roots: Roots  # `[B]` of the subgames to be solved next, as `Subgames` numbers them
  beliefs: jax.Array  # `[B, P, H]` PBS at the roots
  turn: jax.Array  # `[]` lane that is served first in the next step


@dataclasses.dataclass(frozen=True)
class ServedStage:
  """Settings of self-play at one stage of a game; static."""

  num_rows: int  # leaves evaluated at a time; lanes whose leaves do not fit wait for the next step
  # lanes searched at a time, so that a stage where few stand costs little; others wait
  capacity: int
  served: bool = True  # whether lanes may stand at it: none do at a start that is searched apart
  # lanes searched at once, one group after another and only as many as hold lanes: on a CPU the
  # capacity that is left costs nothing, and a group's tables fit a cache. None for all
  piece: int | None = None

  def in_place(self, num_lanes: int) -> bool:
    """Whether all lanes are searched where they stand, none chosen and put in front."""
    return self.capacity >= num_lanes and self.piece is None


@dataclasses.dataclass(frozen=True)
class SelfPlay:
  """Settings of ReBeL's self-play, all static."""

  algorithm: Algorithm  # solves the subgames
  num_iterations: int  # of each solve; one player's update is one
  num_lanes: int  # B, games side by side
  layers: tuple[ServedStage, ...]  # how each stage is served, in their order
  leaf_values: LeafValues  # of the leaves of searches
  policy: SearchPolicy | None = None  # a policy network that searches start from; None for uniform
  # targets are shifted to the average policies' values (`solvers.search.batch`)
  level_values: bool = False
  share_start: bool = False  # one search of the game's start serves all lanes that begin a new game
  num_starts: int = 1  # starts that are searched each step where games start in many ways
  # probability that a game which would end within a subgame goes on at one of its leaves
  play_on: float = 0.0
  random_beliefs: bool = False  # control: solves at random beliefs (ReBeL, Figure 2)

  def init(self, table: Subgames, key: jax.Array) -> Lanes:
    """Returns lanes that all stand at the start of a game, drawn where there are several."""
    roots = table.starts(key, self.num_lanes)
    return Lanes(roots, table.prior(roots), jnp.zeros((), jnp.int32))

  def step(self, table: Subgames, lanes: Lanes, params: Any, key: jax.Array) -> "Played":
    """Solves the subgames that the lanes are in and moves each lane on to a sampled leaf."""
    # Stages are served in turn: a lane plays from the first to the last of them in one step.
    begins, starts, searched = None, None, list[Searched]()
    opening, first = table.stages[0], self.layers[0]
    start_key = jax.random.split(key, 5)[4]
    if self.share_start and opening.depth_limited:
      begins = table.starts(jax.random.fold_in(start_key, 4), self.num_starts)
    # Searches of the lanes and of the starts that they share are one batch where they are alike.
    alike = len(table.stages) == 1 and first.served and opening.decides
    if begins is None:
      starts = self.init(table, jax.random.fold_in(key, len(table.stages)))
    elif not (alike and first.in_place(self.num_lanes)):
      found = search_starts(
        opening,
        begins,
        self.algorithm,
        self.num_iterations,
        self.leaf_values,
        params,
        self.policy,
      )
      starts, searched = new_games(opening, self, begins, found, start_key)
    if starts is not None and not first.served:
      roots, beliefs = where_lanes(
        opening.holds(lanes.roots), (starts.roots, starts.beliefs), (lanes.roots, lanes.beliefs)
      )
      lanes = lanes._replace(roots=roots, beliefs=beliefs)
    counts = []
    for number, (stage, layer) in enumerate(zip(table.stages, self.layers)):
      if layer.served:
        layer_key = key if number == 0 else jax.random.fold_in(key, number)
        played = _serve(stage, layer, self, lanes, starts, begins, params, layer_key)
        lanes = played.lanes
        searched += played.searched
        counts.append(played.stats)
    return Played(lanes, tuple(searched), jax.tree.map(lambda *x: sum(x), *counts))

  def most_examples(self, table: Subgames, target: Any) -> int:
    """Returns how many examples of a target a step can make."""
    served = [(stage, x.capacity) for stage, x in zip(table.stages, self.layers) if x.served]
    return sum(number * target.most_examples(stage, False) for stage, number in served) + (
      self.num_starts * self.share_start * target.most_examples(table.stages[0], True)
    )

  def work(self, table: Subgames) -> Work:
    """Returns whether a step spends its time in networks or in tables."""
    large = any(stage.table_entries >= LARGE for stage in table.stages)
    return Work.TREES if large else Work.NETWORKS


class SelfPlayStats(NamedTuple):
  """Counts of one step."""

  solves: jax.Array  # subgames solved
  rows: jax.Array  # leaves evaluated in each iteration
  asked: jax.Array  # rows of all iterations that the network answered, in floating point


class Searched(NamedTuple):
  """A batch of `C` searches of one stage, as training targets see it."""

  trees: PublicTree  # of the subgames, stacked
  # `[C, N, F]`, `Stage.features_at`; None where no target needs them
  node_features: jax.Array | None
  beliefs: Array  # `[C, P, H]` PBS at the roots
  active: jax.Array  # `[C]` bool; arrays of other searches are meaningless
  # for each level `[C, n, H]`; None at stages where no player decides
  average_policy: Levels | None
  result: SearchResult | None  # of the searches; None for starts that lanes share


class Played(NamedTuple):
  """Results of one step of self-play."""

  lanes: Any  # after the step
  # the shared starts, if any, then the lanes of each stage; or solved questions
  searched: tuple[Any, ...]
  stats: SelfPlayStats


def where_lanes(condition: jax.Array, x: Any, y: Any) -> Any:
  """Returns `x` for lanes where `condition` `[B]` holds and `y` for others, leaf by leaf."""

  return jax.tree.map(
    lambda a, b: jnp.where(condition.reshape(-1, *[1] * (a.ndim - 1)), a, b), x, y
  )


def _serve(
  stage: Stage,
  layer: ServedStage,
  settings: SelfPlay,
  lanes: Lanes,
  starts: Lanes | None,
  begins: Roots | None,
  params: Any,
  key: jax.Array,
) -> Played:
  """Serves lanes at one stage, as many as there is room for; see `SelfPlay.step`."""
  # Without `starts` the searches of `begins` `[S]` are in one batch with those of the lanes, behind
  # them: one loop to compile, and hardly more kernels than the lanes have alone.
  stop_key, explorer_key, leaf_key, belief_key, start_key = jax.random.split(key, 5)
  chosen, active = choose_lanes(stage, layer, lanes)
  at = lanes if starts is None else starts
  here, new = (jax.tree.map(lambda x: x[chosen], (x.roots, x.beliefs)) for x in (lanes, at))
  shape = (layer.capacity,)
  algorithm = settings.algorithm
  # Where only cards are dealt, one question about each player is all there is to solve.
  num_iterations = settings.num_iterations if stage.decides else 2
  stop = sample_stop(stop_key, shape, num_iterations, algorithm.averaging, algorithm.head_start)
  explorer = jax.random.bernoulli(explorer_key, shape=shape).astype(jnp.int32)
  keys = jax.random.split(leaf_key, layer.capacity), jax.random.split(belief_key, layer.capacity)

  def serve(rows: int, group: Any) -> tuple[tuple[Searched, ...], Any]:
    """Returns the searches of a group of lanes, and where these lanes go."""
    (roots, beliefs), new, active, stop, explorer, (leaf_keys, belief_keys) = group
    size, more = len(active), 0
    if starts is None:
      roots = jax.tree.map(lambda *x: jnp.concatenate(x), roots, begins)
      more = len(jax.tree.leaves(begins)[0])
    trees = stage.trees_at(roots)
    node_features = stage.features_at(roots, trees)
    if settings.random_beliefs:
      beliefs = jax.vmap(random_beliefs)(belief_keys, jnp.asarray(trees.prior)[:size])
    if more:
      behind = jnp.asarray(trees.prior)[size:], jnp.ones(more, bool), jnp.zeros(more, stop.dtype)
      beliefs, active, stop = map(jnp.concatenate, zip((beliefs, active, stop), behind))
    result = search_batch(
      trees,
      beliefs,
      stop,
      num_iterations,
      algorithm=algorithm if stage.decides else None,
      leaf_values=settings.leaf_values,
      params=params,
      num_rows=rows + more * stage.num_leaves,
      active=active,
      levelled=settings.level_values,
      initial_policy=first_policy(settings.policy, stage, trees, node_features, beliefs, params),
      keep_iterates=more,
    )
    begun = list[Searched]()
    if more:
      last = jax.tree.map(lambda x: x[size:], (trees, node_features))
      made, begun = new_games(stage, settings, begins, (*last, result.iterates), start_key)
      new = made.roots, made.beliefs
      roots, trees, node_features, beliefs, active, result = jax.tree.map(
        lambda x: x[:size],
        (roots, trees, node_features, beliefs, active, result._replace(iterates=None)),
      )

    def move(key, tree, beliefs, policy, explorer):
      problem = make_problem(tree, beliefs)
      mixed = explore(problem, policy, explorer, EXPLORATION)
      return sample_leaf(key, leaf_probabilities(problem, mixed, beliefs), settings.play_on)

    leaf = jax.vmap(move)(leaf_keys, trees, beliefs, result.policy, explorer)
    following = new
    if stage.num_leaves:
      over, leaf = leaf == stage.num_leaves, jnp.minimum(leaf, stage.num_leaves - 1)
      below = result.leaf_beliefs[jnp.arange(len(leaf)), leaf]
      following = where_lanes(over, new, (after(stage, roots, trees, leaf), below))
    average = result.average_policy if stage.decides else None
    return (*begun, Searched(trees, node_features, beliefs, active, average, result)), following

  groups = here, new, active, stop, explorer, keys
  if layer.piece is None or layer.piece >= layer.capacity:
    searched, following = serve(layer.num_rows, groups)
  else:
    rows = min(layer.num_rows, layer.piece * stage.most_live)
    searched, following = in_pieces(lambda group: serve(rows, group), groups, active, layer.piece)
  leaves = (jnp.asarray(searched[-1].trees.leaf_actor) != PADDING).sum(axis=1, dtype=jnp.int32)
  num_rows = jnp.where(active, leaves, 0).sum()
  next_roots, next_beliefs = where_lanes(active, following, here)
  if not layer.in_place(settings.num_lanes):
    places = jnp.where(active, chosen, settings.num_lanes)  # of no lane: dropped
    next_roots, next_beliefs = jax.tree.map(
      lambda x, y: x.at[places].set(y, mode="drop"),
      (lanes.roots, lanes.beliefs),
      (next_roots, next_beliefs),
    )
  turn = (lanes.turn + active.sum(dtype=jnp.int32)) % settings.num_lanes
  return Played(
    lanes=Lanes(next_roots, next_beliefs, turn),
    searched=searched,
    stats=SelfPlayStats(
      solves=active.sum(dtype=jnp.int32),
      rows=num_rows,
      asked=num_rows.astype(float) * num_iterations,
    ),
  )


def choose_lanes(stage: Stage, layer: ServedStage, lanes: Lanes) -> tuple[jax.Array, jax.Array]:
  """Chooses lanes at a stage for which it has room: which `[C]`, and whether they are any `[C]`."""
  active = here = stage.holds(lanes.roots)
  num_lanes = len(here)

  def ahead(counts):
    return jnp.roll(jnp.cumsum(jnp.roll(counts, -lanes.turn)), lanes.turn)

  if layer.num_rows < layer.capacity * stage.num_leaves:  # else there is room for any lanes
    active &= ahead(jnp.where(here, stage.live_leaves(lanes.roots), 0)) <= layer.num_rows
  if layer.in_place(num_lanes):
    return jnp.arange(num_lanes), active
  active &= ahead(here.astype(jnp.int32)) <= layer.capacity
  chosen = jnp.nonzero(active, size=layer.capacity, fill_value=0)[0]
  return chosen, jnp.arange(layer.capacity) < active.sum()


def new_games(
  stage: Stage,
  settings: SelfPlay,
  chosen: Roots,
  found: tuple[PublicTree, jax.Array | None, Any],
  key: jax.Array,
) -> tuple[Lanes, list[Searched]]:
  """Returns lanes in new games, and the searches of the starts `chosen` `[S]` that they share."""
  # `found`: as `search_starts` returns it.
  trees, features, iterates = found
  roots, beliefs = sample_starts(
    stage,
    chosen,
    trees,
    iterates,
    key,
    settings.num_lanes,
    stop_exponent=settings.algorithm.averaging,
    exploration=EXPLORATION,
    warm_start=settings.algorithm.head_start,
  )
  searched = Searched(
    trees=trees,
    node_features=features,
    beliefs=trees.prior,
    active=jnp.ones(len(iterates.policies), bool),
    average_policy=jax.vmap(split_levels)(trees, iterates.average_policy),
    result=None,
  )
  return Lanes(roots, beliefs, jnp.zeros((), jnp.int32)), [searched]


def random_beliefs(key: jax.Array, prior: Array) -> jax.Array:
  """Returns beliefs drawn uniformly from the simplex of infostates with a `prior` `[B, P, H]`."""
  weights = jnp.where(prior > 0, jax.random.exponential(key, prior.shape), 0.0)
  return weights / weights.sum(axis=-1, keepdims=True)


def in_pieces(serve: Callable, groups: Any, active: jax.Array, piece: int) -> Any:
  """Serves lanes `[C, ...]` `piece` at a time, until all `active` `[C]` are; zero elsewhere."""
  serve, capacity = jax.jit(serve), len(active)  # or it would be traced twice

  def body(i: jax.Array, done: Any) -> Any:
    # The last piece may begin among the lanes of the one before it, and does these again.
    start = jnp.minimum(i * piece, capacity - piece)
    cut = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, piece), groups)
    return jax.tree.map(
      lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, start, axis=0), done, serve(cut)
    )

  like = jax.eval_shape(serve, jax.tree.map(lambda x: x[:piece], groups))
  empty = jax.tree.map(lambda x: jnp.zeros((capacity, *x.shape[1:]), x.dtype), like)
  return jax.lax.fori_loop(0, -(-active.sum() // piece), body, empty)
