"""Solves a batch of different subgames at once, their leaves packed into one evaluation.

Subgames of a table have one common shape, and most of them do not fill it: deep in a game there
is little left to do. The tables of a solver are small, so padding them costs little; the network
is not, so only the leaves that exist are packed into the rows that it evaluates.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games import PADDING, PublicTree
from solvers import traversal, validation
from solvers.algorithm import Algorithm
from solvers.evaluate_policy import values_given_leaves
from solvers.leaf_values import (
  LeafBeliefs,
  LeafQuery,
  LeafValues,
  leaf_possible,
  leaf_reach,
  normalise_beliefs,
)
from solvers.level_values import level_values
from solvers.solve import uniform_policy, update_simultaneously
from solvers.subgames import SubgameTable
from solvers.traversal import Levels, Setting


class SearchResult(NamedTuple):
  """Results of a batch of `B` searches.

  Attributes:
    root_values: `[B, P, H]` see `solvers.solve`.
    policy: for each level `[B, n, H]`: the policy at the sampled iteration.
    average_policy: for each level `[B, n, H]`.
    leaf_beliefs: `[B, L, P, H]` at the leaves under `policy`; under the average until then if the
      algorithm sets leaf beliefs by averages (CFR-AVG; ReBeL, appendix I).
    num_rows: `[]` how many leaves were evaluated in each iteration, all subgames together.
    average_answers: both players' expected leaf values, each `[B, L, H]`, at the beliefs of
      `average_policy`; None unless asked for, and where there are no leaves.
  """

  root_values: jax.Array
  policy: Levels
  average_policy: Levels
  leaf_beliefs: jax.Array
  num_rows: jax.Array
  average_answers: tuple[jax.Array, jax.Array] | None = None


class Packing(NamedTuple):
  """Where the leaves of `B` subgames lie among `num_rows` packed rows.

  Attributes:
    source: `[num_rows]` index into `[B * L]` of each row; unused rows repeat the last leaf.
    target: `[B * L]` row of each leaf; any row where a leaf does not exist.
    live: `[B, L, 1]` whether the leaf exists and is evaluated.
  """

  source: jax.Array
  target: jax.Array
  live: jax.Array


def pack_leaves(live: jax.Array, num_rows: int) -> Packing:
  """Packs the leaves that `live` `[B, L]` marks, which must be at most `num_rows`."""
  flat = live.reshape(-1)
  source = jnp.nonzero(flat, size=num_rows, fill_value=flat.size - 1)[0]
  target = jnp.clip(jnp.cumsum(flat) - 1, 0, num_rows - 1)
  return Packing(source, target, live[..., None])


def search_batch(
  table: SubgameTable,
  roots: jax.Array,
  beliefs: jax.Array,
  stop: jax.Array,
  num_iterations: jax.Array | int,
  *,
  algorithm: Algorithm,
  leaf_values: LeafValues,
  params: Any,
  num_rows: int,
  active: jax.Array | None = None,
  values_of_average: bool = False,
  initial_policy: Levels | None = None,
  answer_average: bool = False,
  levelled: bool = False,
) -> SearchResult:
  """Searches `B` subgames of a table from given beliefs.

  Batching is the point here: the leaves of all subgames are evaluated together, so
  `leaf_values` must treat each row by itself, as a network does.

  Args:
    table: the subgames.
    roots: `[B]` which entry of the table each search starts from.
    beliefs: `[B, P, H]` at the roots.
    stop: `[B]` how many updates each player has made when the sampled policy is read, less than
      `num_iterations // 2`.
    num_iterations: one player's update is one iteration; even, may be traced.
    algorithm: static.
    leaf_values: static; if it has `encode(params, features)`, that is called once before the
      loop, and queries carry its result.
    params: passed on to `leaf_values`.
    num_rows: static; rows of the evaluation, at least the number of leaves of the active
      subgames.
    active: `[B]` bool; results of other subgames are meaningless. None for all.
    values_of_average: whether root values are those of the average policies rather than a mean
      over iterations, also if the algorithm does not ask for it.
    initial_policy: for each level `[B, n, H]`, what to start from: a warm-started algorithm's
      policy, or any other's first; None for uniform.
    levelled: whether to shift root values to the average policies' values of the PBS
      (`solvers.level_values`), another evaluation of all leaves.
    answer_average: whether to return `average_answers`, one more evaluation of all leaves.

  Returns:
    The results; see `SearchResult`.
  """
  trees = jax.tree.map(lambda x: jnp.asarray(x)[roots], table.trees)
  live = trees.leaf_actor != PADDING
  if active is not None:
    live &= active[:, None]
  settings = jax.vmap(traversal.prepare)(trees, beliefs)
  evaluate = None
  if table.trees.depth_limited:
    evaluate = packed_leaf_values(trees, live, num_rows, leaf_values, params)

  def values_for(state, player):
    if evaluate is None:
      return None

    def ask(tree, setting, state):
      return algorithm.leaf_query(tree, setting, state, player).beliefs

    return evaluate(jax.vmap(ask)(trees, settings, state), player)

  if initial_policy is None:
    initial_policy = jax.vmap(uniform_policy)(trees, settings)
  state = jax.vmap(algorithm.init)(trees, settings, initial_policy)
  first_answers = {player: values_for(state, player) for player in algorithm.primed}
  for player, answer in first_answers.items():
    prime = functools.partial(algorithm.prime, player=player)
    state = jax.vmap(prime)(trees, settings, state, answer)

  def advance(state):
    if not algorithm.alternating:
      both = functools.partial(update_simultaneously, algorithm)
      answers = (values_for(state, 0), values_for(state, 1))
      return jax.vmap(both)(trees, settings, state, answers)
    for player in (0, 1):
      update = functools.partial(algorithm.update, player=player)
      state = jax.vmap(update)(trees, settings, state, values_for(state, player))
    return state

  # What is kept of the iteration where play goes on: its policy, and the one that sets beliefs.
  kept = [jax.vmap(algorithm.current_policy)]
  if evaluate is not None and believes_averages(algorithm):
    kept.append(jax.vmap(algorithm.average_policy))

  def step(i, carry):
    state, sampled = carry
    now = (stop == i)[:, None, None]
    policies = tuple(keep(trees, settings, state) for keep in kept)
    sampled = jax.tree.map(lambda x, y: jnp.where(now, x, y), policies, sampled)
    return advance(state), sampled

  sampled = tuple(keep(trees, settings, state) for keep in kept)
  state, sampled = lax.fori_loop(0, num_iterations // 2, step, (state, sampled))
  average = jax.vmap(algorithm.average_policy)(trees, settings, state)
  values_of_average = values_of_average or algorithm.values_of_average
  answers = None
  if evaluate is not None and (values_of_average or levelled or answer_average):
    below = jax.vmap(leaf_beliefs)(trees, settings, average)
    answers = (evaluate(below, 0), evaluate(below, 1))
  root_values = jax.vmap(algorithm.root_values)(settings, state)
  if values_of_average or levelled:
    of_average = jax.vmap(values_given_leaves)(trees, settings, average, answers)
    if values_of_average:
      root_values = of_average
    if levelled:
      root_values = jax.vmap(level_values)(trees, beliefs, root_values, of_average)
  return SearchResult(
    root_values=root_values,
    policy=sampled[0],
    average_policy=average,
    leaf_beliefs=jax.vmap(leaf_beliefs)(trees, settings, sampled[-1]),
    num_rows=live.sum(),
    average_answers=answers,
  )


def believes_averages(algorithm: Algorithm) -> bool:
  """Says whether play goes on from the beliefs of average policies: CFR-AVG's does."""
  return getattr(algorithm, "leaf_beliefs", LeafBeliefs.CURRENT) != LeafBeliefs.CURRENT


def packed_leaf_values(
  trees: PublicTree, live: jax.Array, num_rows: int, leaf_values: LeafValues, params: Any
) -> Callable[[jax.Array, int], jax.Array]:
  """Returns a function from leaf beliefs `[B, L, P, H]` and a player to values `[B, L, H]`.

  Leaves that `live` `[B, L]` does not mark are worth zero. What does not depend on beliefs is
  computed here, outside the solver's loop.
  """
  packing = pack_leaves(live, num_rows)
  features = jnp.asarray(trees.leaf_features).swapaxes(0, 1)  # [P, B, L, F]
  rows = features.reshape(2, -1, features.shape[-1])[:, packing.source]
  encoded: tuple[Any, Any] = (None, None)
  if hasattr(leaf_values, "encode"):
    encoded = (leaf_values.encode(params, rows[0]), leaf_values.encode(params, rows[1]))

  def evaluate(beliefs: jax.Array, player: int) -> jax.Array:
    packed = beliefs.reshape(-1, *beliefs.shape[2:])[packing.source]  # [num_rows, P, H]
    query = LeafQuery(rows[player], player, packed, encoded=encoded[player])
    answer = leaf_values(params, query)
    validation.check_leaf_answer(num_rows, beliefs.shape[-1], answer)
    values = answer[packing.target].reshape(*live.shape, -1)
    return jnp.where(packing.live, values, 0.0)

  return evaluate


def leaf_beliefs(tree, setting, policy: Levels) -> jax.Array:
  """Returns the PBS at each leaf of one tree under `policy`: `[L, P, H]`."""
  reach = leaf_reach(tree, setting, traversal.both_reach(tree, setting, policy))
  return normalise_beliefs(jnp.stack(reach, axis=1), leaf_possible(tree))


def node_beliefs(tree, setting, policy: Levels) -> jax.Array:
  """Returns the PBS at every node of one tree under `policy`: `[N, P, H]`."""
  reach = node_reach(setting, traversal.both_reach(tree, setting, policy))
  possible = None if tree.possible is None else jnp.asarray(tree.possible)
  return normalise_beliefs(reach, possible)


def node_reach(setting: Setting, own: tuple[Levels, Levels]) -> jax.Array:
  """Returns players' reach of every node with root beliefs and chance, `[N, P, H]`.

  `own` is `both_reach` of one tree.
  """
  reach = []
  for nature, levels in zip(setting.nature, own):
    rows = [jnp.broadcast_to(x, y.shape) * y for x, y in zip(nature, levels)]
    reach.append(traversal.join_levels(tuple(rows)))
  return jnp.stack(reach, axis=1)


def sample_stop(
  key: jax.Array,
  shape: tuple[int, ...],
  num_iterations: int,
  exponent: float,
  warm_start: int = 0,
) -> jax.Array:
  """Samples how many updates to make before stopping, with the weights of the average policy.

  The policy after j updates weighs `(j + 1) ** exponent`, so the mean over playthroughs is the
  average policy (ReBeL, algorithm 2 and Theorem 3); exponent 0 samples uniformly. After a warm
  start these count as the updates after so many more.

  Args:
    key: consumed.
    shape: of the result.
    num_iterations: static; one player's update is one iteration.
    exponent: static.
    warm_start: iterations that the policy started from stands for; static.

  Returns:
    Integers from 0 to `num_iterations // 2 - 1`.
  """
  logits = _stop_logits(num_iterations, exponent, warm_start)
  return jax.random.categorical(key, logits, shape=shape).astype(jnp.int32)


def spread_stops(
  key: jax.Array, count: int, num_iterations: int, exponent: float, warm_start: int = 0
) -> jax.Array:
  """Samples stops, each with the same weights as by `sample_stop`, but spread evenly together.

  Below any iteration lie as many of them as the weights say, to within one (systematic sampling),
  so the average over playthroughs of what depends on one search's stop has far less variance.

  Args:
    key: consumed.
    count: of stops; static.
    num_iterations, exponent, warm_start: see `sample_stop`.

  Returns:
    Integers `[count]` in random order.
  """
  offset_key, order_key = jax.random.split(key)
  below = jnp.cumsum(jax.nn.softmax(_stop_logits(num_iterations, exponent, warm_start)))
  strata = jax.random.permutation(order_key, count)
  quantiles = (strata + jax.random.uniform(offset_key)) / count
  stops = jnp.searchsorted(below, quantiles, side="right")
  return jnp.minimum(stops, num_iterations // 2 - 1).astype(jnp.int32)


def _stop_logits(num_iterations: int, exponent: float, warm_start: int) -> jax.Array:
  return exponent * jnp.log(warm_start + jnp.arange(1, num_iterations // 2 + 1))
