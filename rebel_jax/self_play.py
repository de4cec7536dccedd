"""Self-play: many lanes, each solving the subgame it is in and moving on (ReBeL, algorithm 2)."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rebel_jax.examples import make_examples, make_inner_examples, make_policy_examples
from rebel_jax.replay import Examples, PolicyExamples
from solvers import LeafValues, root_search, traversal, vanilla_cfr
from solvers.algorithm import Algorithm
from solvers.batch_search import sample_stop, search_batch
from solvers.inner_nodes import batch_inner_values, inner_nodes
from solvers.policy_network import SearchPolicy
from solvers.sampling import explore, leaf_probabilities, sample_leaf
from solvers.subgames import SubgameTable, SubgameTables
from solvers.warm_start import warm_start


class Lanes(NamedTuple):
  """Where `B` games of self-play stand.

  Attributes:
    roots: `[B]` entry of the subgame table to be solved next.
    beliefs: `[B, P, H]` PBS there.
    turn: `[]` lane that is served first in the next step.
  """

  roots: jax.Array
  beliefs: jax.Array
  turn: jax.Array


@dataclasses.dataclass(frozen=True)
class Layer:
  """How self-play serves one table of subgames; static.

  Attributes:
    num_rows: leaves evaluated at a time, all lanes together; lanes whose leaves do not fit wait
      for the next step.
    decides: whether a player moves in any of its subgames; if not, as where cards are dealt, one
      evaluation of the leaves is all there is to solve.
    served: whether lanes may stand there: none do at the start of the game if it is searched apart.
  """

  num_rows: int
  decides: bool = True
  served: bool = True


@dataclasses.dataclass(frozen=True)
class SelfPlay:
  """Settings of self-play, all static.

  Attributes:
    algorithm: what solves the subgames.
    num_iterations: of each solve; one player's update is one.
    stop_exponent: the stopping iteration is drawn with weights `(j + 1) ** stop_exponent`.
    exploration: probability of a uniform move by the player that explores.
    num_lanes: B, games side by side.
    layers: how each table of subgames is served, in the order of the tables.
    values_of_average: whether targets are the values of the average policies rather than the
      mean over iterations.
    level_values: whether targets are shifted to the average policies' values of the PBS
      (`solvers.level_values`).
    share_start: whether one search of the game's start serves all lanes that begin a new game
      (`root_search`); else each lane searches it by itself.
    num_starts: where there are variants of the game, of how many the starts are searched in a step,
      others every step; at most as many as there are.
    random_beliefs: control: each subgame is solved at random beliefs instead of those that
      play led to (ReBeL, Figure 2).
    inner_rows: inner nodes of each subgame that examples are made of, beside the root's.
  """

  algorithm: Algorithm
  num_iterations: int
  stop_exponent: float
  exploration: float
  num_lanes: int
  layers: tuple[Layer, ...]
  values_of_average: bool = False
  level_values: bool = False
  share_start: bool = False
  num_starts: int = 1
  random_beliefs: bool = False
  inner_rows: int = 0


class SelfPlayStats(NamedTuple):
  """Counts of one step: subgames solved, and leaves evaluated in each iteration."""

  solves: jax.Array
  rows: jax.Array


class Played(NamedTuple):
  """What one step of self-play leaves behind.

  Attributes:
    lanes: where the games stand now.
    examples, valid: of the value network, two for each lane and table and as many for each inner
      node drawn, and which of them count.
    stats: counts.
    policy_examples, policy_valid: of the policy network; None without one.
  """

  lanes: Lanes
  examples: Examples
  valid: jax.Array
  stats: SelfPlayStats
  policy_examples: PolicyExamples | None = None
  policy_valid: jax.Array | None = None


def init_lanes(tables: SubgameTables, num_lanes: int, key: jax.Array | None = None) -> Lanes:
  """Returns lanes that all stand at the start of a game, of a variant drawn by `key`.

  Args:
    tables: the subgames.
    num_lanes: B.
    key: consumed; needed if there are variants.
  """
  roots, turn = jnp.zeros(num_lanes, jnp.int32), jnp.zeros((), jnp.int32)
  if tables.num_variants > 1:
    assert key is not None
    roots = jax.random.choice(key, jnp.asarray(tables.starts), (num_lanes,))
  rows = jnp.asarray(tables.row_of)[roots]
  return Lanes(roots, jnp.asarray(tables.tables[0].trees.prior)[rows], turn)


def self_play_step(
  tables: SubgameTables,
  settings: SelfPlay,
  lanes: Lanes,
  leaf_values: LeafValues,
  params: Any,
  key: jax.Array,
  policy: SearchPolicy | None = None,
) -> Played:
  """Solves the subgames that the lanes are in and moves each lane on to a sampled leaf.

  Tables are served in turn, so that where each holds one stage of a game a lane plays from the
  first to the last of them in one step.

  Args:
    tables: the game's subgames.
    settings: static.
    lanes: where the games stand.
    leaf_values: static; a network's.
    params: the networks' parameters.
    key: consumed.
    policy: static; a policy network that searches start from, and learn for.

  Returns:
    See `Played`.
  """
  starts = sample_new_games(tables, settings, leaf_values, params, key, policy)
  if not settings.layers[0].served:
    begins = jnp.asarray(tables.table_of)[lanes.roots] == 0
    lanes = lanes._replace(
      roots=jnp.where(begins, starts.roots, lanes.roots),
      beliefs=jnp.where(begins[:, None, None], starts.beliefs, lanes.beliefs),
    )
  parts = []
  for number, layer in enumerate(settings.layers):
    if layer.served:
      layer_key = key if number == 0 else jax.random.fold_in(key, number)
      played = _serve(
        tables, number, settings, lanes, starts, leaf_values, params, layer_key, policy
      )
      lanes = played.lanes
      parts.append(played)
  found = [(starts.policy_examples, starts.policy_valid)]
  found += [(played.policy_examples, played.policy_valid) for played in parts]
  found = [x for x in found if x[1] is not None]
  policy_examples = policy_valid = None
  if found:
    policy_examples, policy_valid = jax.tree.map(lambda *x: jnp.concatenate(x), *found)
  return Played(
    lanes=lanes,
    examples=jax.tree.map(lambda *x: jnp.concatenate(x), *(played.examples for played in parts)),
    valid=jnp.concatenate([played.valid for played in parts]),
    stats=jax.tree.map(lambda *x: sum(x), *(played.stats for played in parts)),
    policy_examples=policy_examples,
    policy_valid=policy_valid,
  )


class Starts(NamedTuple):
  """Where each lane stands if it begins a new game.

  Attributes:
    roots, beliefs: `[B]` and `[B, P, H]`.
    policy_examples, policy_valid: of the searches that starts share, if there were any and there is
      a policy network.
  """

  roots: jax.Array
  beliefs: jax.Array
  policy_examples: PolicyExamples | None = None
  policy_valid: jax.Array | None = None


def _serve(
  tables: SubgameTables,
  number: int,
  settings: SelfPlay,
  lanes: Lanes,
  starts: Starts,
  leaf_values: LeafValues,
  params: Any,
  key: jax.Array,
  policy: SearchPolicy | None,
) -> Played:
  """Serves the lanes that stand in one table; see `self_play_step`."""
  table, layer = tables.tables[number], settings.layers[number]
  stop_key, explorer_key, leaf_key, belief_key, _ = jax.random.split(key, 5)
  here = jnp.asarray(tables.table_of)[lanes.roots] == number
  rows, beliefs = jnp.where(here, jnp.asarray(tables.row_of)[lanes.roots], 0), lanes.beliefs
  if settings.random_beliefs:
    beliefs = random_beliefs(belief_key, table, rows)
  active = choose_active(table, layer, lanes.turn, rows, here)
  shape = (settings.num_lanes,)
  algorithm, num_iterations, initial = settings.algorithm, settings.num_iterations, None
  if not layer.decides:
    algorithm, num_iterations = vanilla_cfr(), 2
  elif policy is not None:
    initial = policy.start(table, rows, beliefs, params)
  inner = bool(settings.inner_rows and len(inner_nodes(table.trees.structure)))
  warm = warm_start(algorithm)
  stop = sample_stop(stop_key, shape, num_iterations, settings.stop_exponent, warm)
  result = search_batch(
    table,
    rows,
    beliefs,
    stop,
    num_iterations,
    algorithm=algorithm,
    leaf_values=leaf_values,
    params=params,
    num_rows=layer.num_rows,
    active=active,
    values_of_average=settings.values_of_average and layer.decides,
    levelled=settings.level_values and layer.decides,
    initial_policy=initial,
    answer_average=inner,
  )

  trees = jax.tree.map(lambda x: jnp.asarray(x)[rows], table.trees)
  explorer = jax.random.bernoulli(explorer_key, shape=shape).astype(jnp.int32)

  def move(key, tree, beliefs, policy, explorer):
    setting = traversal.prepare(tree, beliefs)
    mixed = explore(tree, setting, policy, explorer, settings.exploration)
    return sample_leaf(key, leaf_probabilities(tree, setting, mixed, beliefs))

  keys = jax.random.split(leaf_key, settings.num_lanes)
  leaf = jax.vmap(move)(keys, trees, beliefs, result.policy, explorer)
  over = leaf == table.trees.num_leaves
  next_roots, next_beliefs = starts.roots, starts.beliefs
  if table.trees.num_leaves:
    leaf = jnp.minimum(leaf, table.trees.num_leaves - 1)
    lane = jnp.arange(settings.num_lanes)
    next_roots = jnp.where(over, starts.roots, jnp.asarray(table.successor)[rows, leaf])
    below = result.leaf_beliefs[lane, leaf]
    next_beliefs = jnp.where(over[:, None, None], starts.beliefs, below)

  examples = make_examples(table, rows, beliefs, result.root_values)
  valid = jnp.tile(active, 2)
  if inner:
    found = batch_inner_values(table, rows, beliefs, result)
    found = found._replace(reach=jnp.where(active[:, None], found.reach, 0.0))
    inner_key = jax.random.fold_in(leaf_key, settings.num_lanes)
    more = make_inner_examples(table, rows, found, inner_key, settings.inner_rows)
    examples, valid = jax.tree.map(lambda *x: jnp.concatenate(x), (examples, valid), more)
  policy_examples = policy_valid = None
  if policy is not None and layer.decides:
    targets = policy.targets(table, rows, beliefs, result.average_policy)
    targets = targets._replace(valid=targets.valid & active[:, None])
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), targets)
    policy_examples, policy_valid = make_policy_examples(flat), flat.valid
  return Played(
    lanes=Lanes(
      roots=jnp.where(active, next_roots, lanes.roots),
      beliefs=jnp.where(active[:, None, None], next_beliefs, lanes.beliefs),
      turn=(lanes.turn + active.sum(dtype=jnp.int32)) % settings.num_lanes,
    ),
    examples=examples,
    valid=valid,
    stats=SelfPlayStats(active.sum(), result.num_rows),
    policy_examples=policy_examples,
    policy_valid=policy_valid,
  )


def sample_new_games(
  tables: SubgameTables,
  settings: SelfPlay,
  leaf_values: LeafValues,
  params: Any,
  key: jax.Array,
  policy: SearchPolicy | None = None,
) -> Starts:
  """Returns where each lane stands if it begins a new game; arguments as `self_play_step`'s."""
  table = tables.tables[0]
  if not settings.share_start or not table.trees.depth_limited:
    lanes = init_lanes(tables, settings.num_lanes, jax.random.fold_in(key, len(tables.tables)))
    return Starts(lanes.roots, lanes.beliefs)
  key = jax.random.split(key, 5)[4]
  chosen = jnp.asarray(tables.row_of)[jnp.asarray(tables.starts)]
  varied = tables.num_variants > 1
  if varied:
    chosen = jax.random.choice(
      jax.random.fold_in(key, 4), chosen, (settings.num_starts,), replace=False
    )
  iterates = root_search.search_starts(
    table, chosen, settings.algorithm, settings.num_iterations, leaf_values, params, policy
  )
  roots, beliefs = root_search.sample_starts(
    table,
    iterates if varied else jax.tree.map(lambda x: x[0], iterates),
    key,
    settings.num_lanes,
    stop_exponent=settings.stop_exponent,
    exploration=settings.exploration,
    warm_start=warm_start(settings.algorithm),
    rows=chosen if varied else None,
  )
  if policy is None:
    return Starts(roots, beliefs)
  prior = jnp.asarray(table.trees.prior)[chosen]
  trees = jax.tree.map(lambda x: jnp.asarray(x)[chosen], table.trees)
  average = jax.vmap(traversal.split_levels)(trees, iterates.average_policy)
  targets = policy.targets(table, chosen, prior, average)
  flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), targets)
  return Starts(roots, beliefs, make_policy_examples(flat), flat.valid)


def choose_active(
  table: SubgameTable, layer: Layer, turn: jax.Array, rows: jax.Array, here: jax.Array
) -> jax.Array:
  """Says which lanes of those `here` fit into one evaluation of leaves, from `turn` on: `[B]`.

  `rows` `[B]` are the lanes' subgames in `table`.
  """
  live = jnp.asarray(table.num_live)[rows] * here
  ahead = jnp.cumsum(jnp.roll(live, -turn))
  return jnp.roll(ahead <= layer.num_rows, turn) & here


def random_beliefs(key: jax.Array, table: SubgameTable, roots: jax.Array) -> jax.Array:
  """Returns beliefs drawn uniformly from the simplex of possible infostates: `[B, P, H]`."""
  prior = jnp.asarray(table.trees.prior)[roots]
  weights = jax.random.exponential(key, prior.shape)
  weights = jnp.where(prior > 0, weights, 0.0)
  return weights / weights.sum(axis=-1, keepdims=True)
