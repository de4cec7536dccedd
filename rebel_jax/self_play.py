"""Self-play: many lanes, each solving the subgame it is in and moving on (ReBeL, algorithm 2)."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rebel_jax.replay import Examples
from solvers import LeafValues, hole_cards, root_search, traversal
from solvers.algorithm import Algorithm
from solvers.batch_search import sample_stop, search_batch
from solvers.sampling import explore, leaf_probabilities, sample_leaf
from solvers.subgames import SubgameTable


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
class SelfPlay:
  """Settings of self-play, all static.

  Attributes:
    algorithm: what solves the subgames.
    num_iterations: of each solve; one player's update is one.
    stop_exponent: the stopping iteration is drawn with weights `(j + 1) ** stop_exponent`.
    exploration: probability of a uniform move by the player that explores.
    num_lanes: B, games side by side.
    num_rows: leaves evaluated at a time, all lanes together; lanes whose leaves do not fit
      wait for the next step.
    values_of_average: whether targets are the values of the average policies rather than the
      mean over iterations.
    share_start: whether one search of the game's start serves all lanes that begin a new game
      (`root_search`); else each lane searches it by itself.
    random_beliefs: control: each subgame is solved at random beliefs instead of those that
      play led to (ReBeL, Figure 2).
  """

  algorithm: Algorithm
  num_iterations: int
  stop_exponent: float
  exploration: float
  num_lanes: int
  num_rows: int
  values_of_average: bool = False
  share_start: bool = False
  random_beliefs: bool = False


class SelfPlayStats(NamedTuple):
  """Counts of one step: subgames solved, and leaves evaluated in each iteration."""

  solves: jax.Array
  rows: jax.Array


def init_lanes(table: SubgameTable, num_lanes: int) -> Lanes:
  """Returns lanes that all stand at the start of the game."""
  beliefs = jnp.broadcast_to(table.trees.prior[0], (num_lanes, *table.trees.prior.shape[1:]))
  return Lanes(jnp.zeros(num_lanes, jnp.int32), jnp.asarray(beliefs), jnp.zeros((), jnp.int32))


def self_play_step(
  table: SubgameTable,
  settings: SelfPlay,
  lanes: Lanes,
  leaf_values: LeafValues,
  params: Any,
  key: jax.Array,
) -> tuple[Lanes, Examples, jax.Array, SelfPlayStats]:
  """Solves the subgames that the lanes are in and moves each lane on to a sampled leaf.

  Args:
    table: the game's subgames.
    settings: static.
    lanes: where the games stand.
    leaf_values: static; a network's.
    params: the network's parameters.
    key: consumed.

  Returns:
    The lanes, `2 * B` examples, which of them are valid `[2 * B]`, and counts.
  """
  stop_key, explorer_key, leaf_key, belief_key, start_key = jax.random.split(key, 5)
  roots, beliefs = lanes.roots, lanes.beliefs
  if settings.random_beliefs:
    beliefs = random_beliefs(belief_key, table, roots)
  active = choose_active(table, settings, lanes)
  shape = (settings.num_lanes,)
  stop = sample_stop(stop_key, shape, settings.num_iterations, settings.stop_exponent)
  result = search_batch(
    table,
    roots,
    beliefs,
    stop,
    settings.num_iterations,
    algorithm=settings.algorithm,
    leaf_values=leaf_values,
    params=params,
    num_rows=settings.num_rows,
    active=active,
    values_of_average=settings.values_of_average,
  )

  trees = jax.tree.map(lambda x: jnp.asarray(x)[roots], table.trees)
  explorer = jax.random.bernoulli(explorer_key, shape=shape).astype(jnp.int32)

  def move(key, tree, beliefs, policy, explorer):
    setting = traversal.prepare(tree, beliefs)
    mixed = explore(tree, setting, policy, explorer, settings.exploration)
    return sample_leaf(key, leaf_probabilities(tree, setting, mixed, beliefs))

  keys = jax.random.split(leaf_key, settings.num_lanes)
  leaf = jax.vmap(move)(keys, trees, beliefs, result.policy, explorer)
  over = leaf == table.trees.num_leaves
  leaf = jnp.minimum(leaf, table.trees.num_leaves - 1)
  lane = jnp.arange(settings.num_lanes)
  starts = sample_new_games(table, settings, leaf_values, params, start_key)
  next_roots = jnp.where(over, starts[0], jnp.asarray(table.successor)[roots, leaf])
  next_beliefs = jnp.where(over[:, None, None], starts[1], result.leaf_beliefs[lane, leaf])

  examples = make_examples(table, roots, beliefs, result.root_values)
  lanes = Lanes(
    roots=jnp.where(active, next_roots, lanes.roots),
    beliefs=jnp.where(active[:, None, None], next_beliefs, lanes.beliefs),
    turn=(lanes.turn + active.sum(dtype=jnp.int32)) % settings.num_lanes,
  )
  stats = SelfPlayStats(active.sum(), result.num_rows)
  return lanes, examples, jnp.tile(active, 2), stats


def sample_new_games(
  table: SubgameTable, settings: SelfPlay, leaf_values: LeafValues, params: Any, key: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns where each lane stands if it begins a new game: `[B]` and `[B, P, H]`."""
  if settings.share_start and table.trees.depth_limited:
    policies = root_search.search_iterates(
      root_search.start_tree(table),
      settings.algorithm,
      settings.num_iterations,
      leaf_values,
      params,
    )
    return root_search.sample_starts(
      table,
      policies,
      key,
      settings.num_lanes,
      stop_exponent=settings.stop_exponent,
      exploration=settings.exploration,
    )
  lanes = init_lanes(table, settings.num_lanes)
  return lanes.roots, lanes.beliefs


def choose_active(table: SubgameTable, settings: SelfPlay, lanes: Lanes) -> jax.Array:
  """Says which lanes' leaves fit into the evaluation together, from `turn` on: `[B]`."""
  live = jnp.asarray(table.num_live)[lanes.roots]
  ahead = jnp.cumsum(jnp.roll(live, -lanes.turn))
  return jnp.roll(ahead <= settings.num_rows, lanes.turn)


def make_examples(
  table: SubgameTable, roots: jax.Array, beliefs: jax.Array, values: jax.Array
) -> Examples:
  """Returns one example for each player and lane, player 0's first: `[2 * B, ...]`."""
  features = jnp.asarray(table.trees.root_features)[roots]  # [B, P, F]
  if table.trees.hands is not None:
    # What sums that cancel leave of nothing is rounding.
    possible = hole_cards.compatible_mass(beliefs[:, ::-1]) > 1e-6
  else:
    weights = jnp.asarray(table.trees.pair_weights)[roots]
    weights = jax.vmap(lambda w, i: w[i])(weights, jnp.asarray(table.trees.root_pair_index)[roots])
    mass = jnp.stack(
      [
        jnp.einsum("bij,bj->bi", weights, beliefs[:, 1]),
        jnp.einsum("bij,bi->bj", weights, beliefs[:, 0]),
      ],
      axis=1,
    )
    possible = mass > 0
  mask = possible.astype(values.dtype)
  if table.trees.possible is not None:
    mask *= jnp.asarray(table.trees.possible)[roots, 0]
  own_first = jnp.stack([beliefs.reshape(len(roots), -1), beliefs[:, ::-1].reshape(len(roots), -1)])
  return Examples(
    features=features.swapaxes(0, 1).reshape(-1, features.shape[-1]),
    beliefs=own_first.reshape(-1, own_first.shape[-1]),
    values=values.swapaxes(0, 1).reshape(-1, values.shape[-1]),
    mask=mask.swapaxes(0, 1).reshape(-1, values.shape[-1]),
  )


def random_beliefs(key: jax.Array, table: SubgameTable, roots: jax.Array) -> jax.Array:
  """Returns beliefs drawn uniformly from the simplex of possible infostates: `[B, P, H]`."""
  prior = jnp.asarray(table.trees.prior)[roots]
  weights = jax.random.exponential(key, prior.shape)
  weights = jnp.where(prior > 0, weights, 0.0)
  return weights / weights.sum(axis=-1, keepdims=True)
