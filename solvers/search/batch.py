"""Solves a batch of different subgames at once, their leaves packed into one evaluation."""
# Subgames of a table have one common shape, and most of them do not fill it. The tables of a
# solver are small, so padding them costs little; the network is not, so only leaves that exist
# are packed.

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games import PADDING, Array, PublicTree
from solvers import loop, tuning, validation
from solvers.algorithms.cfr import Algorithm
from solvers.algorithms.regret_rules import Exponent, Schedule, at_horizon, decay
from solvers.algorithms.wrappers import LeafMeans, Wrapper
from solvers.leaf_values import LeafQuery, LeafValues, before_loop, leaf_beliefs, normalise_beliefs
from solvers.loop import Evaluate
from solvers.metrics.policies import policy_values
from solvers.sweeps.levels import Levels
from solvers.sweeps.pairs import root_marginals
from solvers.sweeps.problem import Alternatives, Problem, make_problem
from solvers.xla import Programs


class Batched(Wrapper):
  """Does what `algorithm` does to each of `B` problems; all arrays have a leading axis `[B]`."""

  # Leaves of all problems come in one query, so that a network may be asked about them together.

  def leaf_query(self, problem: Problem, state: Any, player: int) -> LeafQuery:
    """Returns the question about the leaves of all problems, features `[B, L, F]` and so on."""

    def ask(problem, state):
      # The traverser is static, which what comes out of `vmap` cannot be.
      return self.algorithm.leaf_query(problem, state, player)._replace(traverser=None)

    return jax.vmap(ask)(problem, state)._replace(traverser=player)

  def __getattr__(self, name: str) -> Any:
    one = super().__getattr__(name)
    return functools.partial(_each, one) if callable(one) else one


def _each(function: Callable, *arguments: Any) -> Any:
  """Applies an algorithm's operation to each of `B` problems; the player, if any, comes last."""
  if not isinstance(arguments[-1], int):
    return jax.vmap(function)(*arguments)
  return jax.vmap(lambda *arrays: function(*arrays, arguments[-1]))(*arguments[:-1])


def level_values(
  tree: PublicTree, beliefs: jax.Array, values: jax.Array, values_of_average: jax.Array
) -> jax.Array:
  """Shifts each player's values so that the PBS's value is that of the average policies."""
  # One constant is added for each player. The PBS is then worth half the difference of the two
  # players' `values_of_average` to player 0, and the opposite to player 1.
  weights = root_marginals(tree, beliefs)
  weights = jnp.where(jnp.isfinite(weights), weights, 0.0)  # no pair is possible: nothing to level
  worth = (weights * values_of_average).sum(axis=-1)
  level = (worth - worth[::-1]) / 2
  return values + (level - (weights * values).sum(axis=-1))[:, None]


class Iterates(NamedTuple):
  """Every iterate of `S` searches; index j is after j updates of each player."""

  policies: jax.Array  # `[S, num_iterations // 2, N, H]`
  believed: jax.Array  # the same shape: the policies that set beliefs below
  average_policy: jax.Array  # `[S, N, H]` at the end


class SearchResult(NamedTuple):
  """Results of a batch of `B` searches.

  Attributes:
    root_values: `[B, P, H]` see `solvers.solve`.
    policy, average_policy: for each level `[B, n, H]`, at the sampled iteration, and on average.
    leaf_beliefs: `[B, L, P, H]` at the leaves under `policy`; under the average until then if the
      algorithm sets leaf beliefs by averages (CFR-AVG; ReBeL, appendix I).
    leaf_values: `[B, P, L, H]` each player's mean over iterations: the opponent's row is its
      promise in the next search with a gadget. None unless `keep_leaf_values`.
    iterates: of the last `keep_iterates` searches; None for none.
  """

  root_values: jax.Array
  policy: Levels
  average_policy: Levels
  leaf_beliefs: jax.Array
  leaf_values: jax.Array | None = None
  iterates: Iterates | None = None


_MANY_INFOSTATES = 512


def rows_at_a_time(num_infostates: int) -> int | None:
  """Returns how many leaves a network is asked about at a time; None for all."""
  leaves = tuning.pieces().leaves
  return None if leaves is None else leaves[num_infostates >= _MANY_INFOSTATES]


def search_batch(
  trees: PublicTree,
  beliefs: jax.Array,
  stop: jax.Array,
  num_iterations: jax.Array | int,
  *,
  algorithm: Algorithm | None,
  leaf_values: LeafValues,
  params: Any,
  num_rows: int,
  active: jax.Array | None = None,
  initial_policy: Levels | None = None,
  alternatives: Alternatives | None = None,
  levelled: bool = False,
  keep_leaf_values: bool = False,
  keep_iterates: int = 0,
) -> SearchResult:
  """Searches `B` subgames of one shape from given beliefs.

  The leaves of all subgames are evaluated together, so `leaf_values` must treat each row by itself,
  as a network does.

  Args:
    trees: stacked, every array with a leading axis `[B]`.
    beliefs: `[B, P, H]` at the roots.
    stop: `[B]` updates of each player before the sampled policy, below `num_iterations // 2`.
    num_iterations: one player's update is one iteration; even, may be traced.
    algorithm: static; None where no player decides: then the leaves are asked about once.
    leaf_values: static; `encode(params, features)`, if it has that, is called once before the loop,
      and queries carry its result.
    params: passed on to `leaf_values`.
    num_rows: static; rows of the evaluation, at least the leaves of the active subgames.
    active: `[B]` bool; results of other subgames are meaningless. None for all.
    initial_policy: for each level `[B, n, H]`, the first policy; None for uniform.
    alternatives: `[B, H]` what the opponent is promised, for an algorithm with a gadget.
    levelled: whether to shift root values to the average policies' values of the PBS, by another
      evaluation of all leaves.
    keep_leaf_values: whether to return mean leaf values; for algorithms of the CFR family.
    keep_iterates: of how many searches, the last ones, to return every iterate; then the number of
      iterations is static.

  Returns:
    The results; see `SearchResult`.
  """
  live = jnp.asarray(trees.leaf_actor) != PADDING
  if active is not None:
    live &= active[:, None]

  def problem_of(tree, beliefs, alternatives) -> Problem:
    return make_problem(tree, beliefs, alternatives=alternatives, lanes=len(stop))

  problems = jax.vmap(problem_of)(trees, beliefs, alternatives)
  evaluate = None
  if trees.depth_limited:
    evaluate = packed_leaf_values(trees, live, num_rows, leaf_values, params)

  values_of = functools.partial(policy_values, problems, evaluate=evaluate, each=jax.vmap)
  if algorithm is None:
    policy = jax.vmap(Problem.uniform_policy)(problems)
    below = jax.vmap(beliefs_at_leaves)(problems, policy)
    return SearchResult(values_of(policy), policy, policy, below)
  if keep_leaf_values:
    if not hasattr(algorithm, "core"):
      raise ValueError(
        f"keep_leaf_values=True needs an algorithm of the CFR family, not {algorithm}"
      )
    algorithm = LeafMeans(algorithm)
  batched: Any = Batched(algorithm)
  number = 2 if evaluate is not None and algorithm.uses_average else 1

  def keep(problems, state) -> tuple[Levels, ...]:
    """Returns the iteration's policy, and the one that sets beliefs where play goes on."""
    policies = batched.current_policy, batched.average_policy
    return tuple(policy(problems, state) for policy in policies[:number])

  def last(levels: Levels) -> jax.Array:
    return jnp.concatenate([x[-keep_iterates:] for x in levels], axis=1)

  def observe(j, problems, state, carry):
    sampled, seen = carry
    kept, now = keep(problems, state), (stop == j)[:, None, None]
    if seen:
      rows = (last(y)[:, None] for y in kept)
      seen = tuple(lax.dynamic_update_slice_in_dim(x, y, j, 1) for x, y in zip(seen, rows))
    return jax.tree.map(lambda x, y: jnp.where(now, x, y), kept, sampled), seen

  sizes = ((len(stop), level.size, trees.num_infostates) for level in trees.structure.levels)
  sampled = (tuple(jnp.zeros(size, trees.dtype) for size in sizes),) * number
  seen: tuple[jax.Array, ...] = ()
  if keep_iterates:
    shape = (keep_iterates, num_iterations // 2, trees.num_nodes, trees.num_infostates)
    seen = (jnp.zeros(shape, trees.dtype),) * number
  end = loop.run(
    problems,
    batched,
    evaluate,
    num_iterations,
    policy=initial_policy,
    observe=observe,
    carry=(sampled, seen),
  )
  sampled, seen = end.carry
  average = batched.average_policy(problems, end.state)
  root_values = batched.root_values(problems, end.state)
  if algorithm.uses_average or levelled:
    of_average = values_of(average)
    if algorithm.uses_average:
      root_values = of_average
    if levelled:
      root_values = jax.vmap(level_values)(trees, beliefs, root_values, of_average)
  return SearchResult(
    root_values=root_values,
    policy=sampled[0],
    average_policy=average,
    leaf_beliefs=jax.vmap(beliefs_at_leaves)(problems, sampled[-1]),
    leaf_values=jax.vmap(algorithm.means)(end.state) if isinstance(algorithm, LeafMeans) else None,
    iterates=Iterates(seen[0], seen[-1], last(average)) if seen else None,
  )


def packed_leaf_values(
  trees: PublicTree, live: jax.Array, num_rows: int, leaf_values: LeafValues, params: Any
) -> Evaluate:
  """Returns a function from a query about all leaves of `B` problems to values `[B, L, H]`."""
  flat = live.reshape(-1)
  # `[B * L]` the row of each leaf; `[num_rows]` and back, the last leaf where no other fills a row.
  target = jnp.cumsum(flat) - 1
  source = (  # `jnp.nonzero` would count twice more
    jnp.full(num_rows, flat.size - 1)
    .at[jnp.where(flat, target, num_rows)]
    .set(jnp.arange(flat.size), mode="drop")
  )
  features = jnp.asarray(trees.leaf_features).swapaxes(0, 1)  # [P, B, L, F]
  rows = features.reshape(2, -1, features.shape[-1])[:, source]
  leaf_values, params, encoded = before_loop(leaf_values, params, (rows[0], rows[1]))

  piece = min(num_rows, rows_at_a_time(trees.num_infostates) or num_rows)
  pieces = -(-live.sum() // piece)

  def evaluate(query: LeafQuery) -> jax.Array:
    player = query.traverser

    def ask(start: jax.Array | int) -> jax.Array:
      """Returns the answer for rows from `start` on, `[piece, H]`."""

      def cut(numbers: jax.Array) -> jax.Array:
        return lax.dynamic_slice_in_dim(numbers, start, piece)

      def pack(beliefs: jax.Array) -> jax.Array:
        return beliefs.reshape(-1, *beliefs.shape[2:])[cut(source)]  # [piece, P, H]

      valued = None if query.value_beliefs is None else pack(query.value_beliefs)
      known = jax.tree.map(cut, encoded[player])
      asked = LeafQuery(cut(rows[player]), player, pack(query.beliefs), valued, known)
      answer = leaf_values(params, asked)
      validation.check_leaf_answer(piece, query.beliefs.shape[-1], answer)
      return answer.astype(trees.dtype)

    if piece == num_rows:
      answer = ask(0)
    else:
      # The last piece overlaps the one before it; its values are the same.
      answer = lax.fori_loop(
        0,
        pieces,
        lambda i, x: lax.dynamic_update_slice_in_dim(x, ask(i * piece), i * piece, axis=0),
        jnp.zeros((num_rows, trees.num_infostates), trees.dtype),
      )
    values = answer[target].reshape(*live.shape, -1)
    return jnp.where(live[..., None], values, 0.0)

  return evaluate


def beliefs_at_leaves(problem: Problem, policy: Levels) -> jax.Array:
  """Returns the PBS at each leaf of one problem under `policy`: `[L, P, H]`."""
  return leaf_beliefs(problem, problem.both_reach(policy))


def beliefs_below(tree: PublicTree, beliefs: Array, policy: Levels) -> jax.Array:
  """Returns the PBS at each leaf of one tree under `policy` from `beliefs`: `[L, P, H]`."""
  return beliefs_at_leaves(make_problem(tree, beliefs), policy)


def node_beliefs(problem: Problem, policy: Levels) -> jax.Array:
  """Returns the PBS at every node of one problem under `policy`: `[N, P, H]`."""
  possible = problem.tree.possible
  reach = problem.node_reach(problem.both_reach(policy))
  return normalise_beliefs(reach, None if possible is None else jnp.asarray(possible))


@Programs
def posteriors(tree: PublicTree, policy: Array, beliefs: Array | None = None) -> jax.Array:
  """Returns both players' beliefs at every node under a policy, `[N, P, H]`."""
  problem = make_problem(tree, tree.prior if beliefs is None else beliefs)
  return node_beliefs(problem, problem.split(jnp.asarray(policy, tree.dtype)))


@functools.partial(jax.jit, static_argnames=("shape", "num_iterations", "exponent", "warm_start"))
def sample_stop(
  key: jax.Array,
  shape: tuple[int, ...],
  num_iterations: int,
  exponent: Exponent,
  warm_start: int = 0,
) -> jax.Array:
  """Samples how many updates to make before stopping, with the weights of the average policy.

  The policy after j updates weighs `(j + 1) ** exponent`, so the mean over playthroughs is the
  average policy (ReBeL, algorithm 2 and Theorem 3); exponent 0 samples uniformly.

  Args:
    key: consumed.
    shape: of the result; static.
    num_iterations: static; one player's update is one iteration.
    exponent: static.
    warm_start: iterations that the policy started from stands for, counted as done; static.

  Returns:
    Integers from 0 to `num_iterations // 2 - 1`.
  """
  logits = _stop_logits(num_iterations, exponent, warm_start)
  return jax.random.categorical(key, logits, shape=shape).astype(jnp.int32)


def iterations_to(stops: np.ndarray, algorithm: Algorithm, num_iterations: int) -> int:
  """Returns how many of `num_iterations` searches make to have all updates before `stops`."""
  # A schedule knows how long its run is, so such a run is not cut short.
  scheduled = at_horizon(algorithm, 1) != algorithm
  return num_iterations if scheduled else 2 * (int(stops.max()) + 1)


@functools.partial(jax.jit, static_argnames=("count", "num_iterations", "exponent", "warm_start"))
def spread_stops(
  key: jax.Array, count: int, num_iterations: int, exponent: Exponent, warm_start: int = 0
) -> jax.Array:
  """Samples stops with the weights of `sample_stop`, but spread evenly (systematic sampling).

  Below any iteration lie as many as the weights say, to within one, so averages over playthroughs
  of what depends on one search's stop have far less variance.

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
  quantiles = (strata.astype(below.dtype) + jax.random.uniform(offset_key)) / count
  stops = jnp.searchsorted(below, quantiles, side="right")
  return jnp.minimum(stops, num_iterations // 2 - 1).astype(jnp.int32)


def _stop_logits(num_iterations: int, exponent: Exponent, warm_start: int) -> jax.Array:
  counts = warm_start + jnp.arange(1, num_iterations // 2 + 1)
  if isinstance(exponent, Schedule):  # weights are products of decays
    exponent = at_horizon(exponent, num_iterations // 2)
    return -jnp.log(decay(counts - 1.0, exponent)).at[0].set(0.0).cumsum()
  if exponent == math.inf:
    return jnp.where(counts == counts[-1], 0.0, -jnp.inf)
  return exponent * jnp.log(counts)
