"""Worth of policies on trees: expected values, exact best responses, exploitability."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.public_tree import Array, PublicTree, check_is_tree
from solvers import leaf_values as leaves
from solvers import validation
from solvers.algorithms.fictitious_play import best_moves
from solvers.loop import Evaluate
from solvers.sweeps import pairs
from solvers.sweeps.levels import Levels, join_levels
from solvers.sweeps.problem import Lock, Problem, make_lock, make_problem, per_unit_of_mass
from solvers.xla import Programs, on_mesh_of, work_of_solving


def policy_values(
  problem: Problem,
  policy: Levels,
  evaluate: Evaluate | None = None,
  each: Callable[..., Any] = lambda function: function,
) -> jax.Array:
  """Returns both players' expected values per root infostate under `policy`: `[P, H]`."""
  # Of problems `[B]`, whose leaves come in one query, with `jax.vmap` as `each`.
  answers = None
  if evaluate is not None:
    beliefs = each(lambda x, own: leaves.leaf_beliefs(x, x.both_reach(own)))(problem, policy)
    features = [each(lambda x, p=p: x.leaf_features(p))(problem) for p in (0, 1)]
    answers = [evaluate(leaves.LeafQuery(x, p, beliefs)) for p, x in enumerate(features)]

  def value(problem, policy, answers):
    reach = problem.both_reach(policy)
    totals = []
    for player in (0, 1):
      values, opponent = None, reach[1 - player]
      if answers is not None:
        values = problem.weigh_leaf_values(answers[player], opponent, player)
      totals.append(problem.values_up(policy, opponent, values, player).root)
    return per_unit_of_mass(jnp.stack(totals), problem.root_mass)

  return each(value)(problem, policy, answers)


def check_whole(tree: PublicTree, policy, beliefs) -> jax.Array:
  """Checks the arguments that metrics share; returns the beliefs `[P, H]`."""
  validation.check_unstacked(tree)
  if tree.depth_limited:
    raise ValueError(
      f"tree is cut off at {tree.num_leaves} leaves, so a policy on it has no value; build the "
      "tree without a depth"
    )
  validation.check_policy("policy", tree, policy)
  if beliefs is not None:
    validation.check_beliefs(tree, beliefs)
  return jnp.asarray(tree.prior if beliefs is None else beliefs, tree.dtype)


def measure(
  programs: Programs, tree: PublicTree, policy: Any, beliefs: Any, locked: Any = None, **static: Any
) -> Any:
  """Returns the measure of a policy, or of each of a batch, by `programs` of `_by_rows`."""
  check_is_tree(tree)
  # Arrays become JAX's inside the program: outside, that is a program of its own.
  policy, beliefs = (
    x if x is None or hasattr(x, "dtype") else np.asarray(x) for x in (policy, beliefs)
  )
  lock = locked.least if isinstance(locked, Lock) else None if locked is None else policy
  firsts = tree.prior, policy, beliefs, lock
  axes = tuple(0 if x is not None and np.ndim(x) == 3 else None for x in firsts)
  sizes = {np.shape(x)[0] for x, axis in zip(firsts, axes) if axis == 0}
  if len(sizes) > 1:
    raise ValueError(f"trees, policies and beliefs are of different numbers of rows: {sizes}")

  def check(tree: PublicTree, policy: Any, beliefs: Any, locked: Any) -> None:
    check_whole(tree, policy, beliefs)
    validation.check_lock(tree, policy, locked)

  if sizes:
    validation.check_rows(check, (tree, policy, beliefs, locked), axes, range(*sizes), "row")
  else:
    check(tree, policy, beliefs, locked)
  beliefs = tree.prior if beliefs is None else beliefs
  lock = make_lock(locked, policy, tree.dtype)
  work = work_of_solving(tree, None, policy, beliefs, lock)
  with on_mesh_of(tree, policy, beliefs):
    return programs[work](tree, policy, beliefs, lock, **static)


def _by_rows(function: Callable[..., Any], **arguments: Any) -> Programs:
  """Returns programs of a tree, a policy, beliefs and a lock, over rows where one has them."""
  # The function is of a problem and a policy by level.

  def one(tree, policy, beliefs, lock, **static):
    problem = make_problem(tree, beliefs, lock=lock)
    return function(problem, problem.split(policy), **static)

  @functools.wraps(function)
  def mapped(tree, policy, beliefs, lock, **static):
    policy, beliefs = (jnp.asarray(x, tree.dtype) for x in (policy, beliefs))
    firsts = tree.prior, policy, beliefs, None if lock is None else lock.least
    axes = tuple(0 if x is not None and x.ndim == 3 else None for x in firsts)
    own: Any = functools.partial(one, **static)
    return (jax.vmap(own, axes) if 0 in axes else own)(tree, policy, beliefs, lock)

  return Programs(mapped, **arguments)


def expected_values(tree: PublicTree, policy: Array, *, beliefs: Array | None = None) -> jax.Array:
  """Computes what each player expects under `policy`, for each of its root infostates.

  Args:
    tree: a tree without leaves, or a stack of them.
    policy: `[N, H]`, as `solve` returns it, or `[B, N, H]`.
    beliefs: `[P, H]` at the root, or `[B, P, H]`; None for the tree's own prior.

  Returns:
    `[P, H]` payoffs, the other's infostate drawn from the root beliefs conditioned on the player's;
    zero where none is compatible. `[B, P, H]` where there are `B` of one argument; one of another
    serves all.

  Raises:
    ValueError: the tree is depth-limited, `policy` or `beliefs` has the wrong shape or is concrete
      and not a distribution, or batches differ in size.
  """
  return measure(_payoffs, tree, policy, beliefs)


_payoffs = _by_rows(policy_values)


class BestResponse(NamedTuple):
  """A best response.

  Attributes:
    values: `[H]` what the responding player expects given its root infostate.
    policy: `[N, H]` its responses; the other player's rows are those of the policy answered.
  """

  values: jax.Array  # [H]
  policy: jax.Array  # [N, H]


@validation.checked
def best_response(
  tree: PublicTree,
  policy: Array,
  player: validation.Player,
  *,
  beliefs: Array | None = None,
  locked: Lock | Array | None = None,
) -> BestResponse:
  """Computes `player`'s best response to the other player's part of `policy`.

  Args:
    tree, policy, beliefs: as for `expected_values`.
    player: who responds, 0 or 1; static.
    locked: where `player` keeps to `policy` too, as for `solvers.solve`.

  Returns:
    Values and policy. The values average over the root beliefs (`root_marginals`) to the
    best-response value. Moves of equal value are equally likely. Arrays have a leading axis `[B]`
    where an argument has one.

  Raises:
    ValueError: as `expected_values`, or `player` is not 0 or 1.
  """
  return measure(_responses, tree, policy, beliefs, locked, player=int(player))


@functools.partial(_by_rows, static_argnames="player")
def _responses(problem, levels, *, player):
  opponent = problem.own_reach(levels, 1 - player)
  sweep = problem.values_up(None, opponent, None, player)
  best = best_moves(problem, sweep, opponent, player)
  response = problem.where_moved(levels, lambda i, _: best[i], [player])
  values = per_unit_of_mass(sweep.root, problem.root_mass[player])
  return BestResponse(values, join_levels(response))


def best_response_values(
  tree: PublicTree,
  policy: Array,
  *,
  beliefs: Array | None = None,
  locked: Lock | Array | None = None,
) -> jax.Array:
  """Returns each player's expected payoff when it responds best to `policy`: `[P]`, or `[B, P]`."""
  return measure(_best_worths, tree, policy, beliefs, locked)


@_by_rows
def _best_worths(problem, levels):
  return _worth(problem, None, problem.both_reach(levels))


def _worth(problem: Any, own: Levels | None, reach: tuple[Levels, Levels]) -> jax.Array:
  """Returns the payoff of each player `[P]` by its own policy, or a best response, at reach."""
  roots = [problem.values_up(own, reach[1 - p], None, p).root for p in (0, 1)]
  return jnp.stack([problem.worth(roots[p], p) for p in (0, 1)])


def exploitability_of(problem: Any, policy: Levels) -> jax.Array:
  """Returns the exploitability of a policy, by level, on a problem without leaves."""
  # Where the house takes a rake, it is the gain of best responses beyond the policy's own payoffs.
  reach = problem.both_reach(policy)
  gain = _worth(problem, None, reach).sum()
  if not problem.zero_sum:
    gain = gain - _worth(problem, policy, reach).sum()
  return gain / 2


_exploitabilities = _by_rows(exploitability_of)


def exploitability(
  tree: PublicTree,
  policy: Array,
  *,
  beliefs: Array | None = None,
  locked: Lock | Array | None = None,
) -> jax.Array:
  """Computes the exploitability of `policy` (ReBeL, section 7: NashConv / 2).

  Args:
    tree, policy, beliefs: as for `expected_values`.
    locked: where both players keep to `policy` even as they respond, as for `solvers.solve`.

  Returns:
    A scalar, (best-response value of player 0 + best-response value of player 1) / 2, in the game's
    units; zero exactly at an equilibrium. `[B]` where there are `B` of an argument.

  Raises:
    ValueError: as `expected_values`.
  """
  return measure(_exploitabilities, tree, policy, beliefs, locked)


def root_marginals(tree: PublicTree, beliefs: Array) -> jax.Array:
  """Returns each player's marginal of the joint prior at the root: `[P, H]`.

  It is the beliefs themselves unless infostates exclude each other.

  Raises:
    ValueError: the tree is stacked, or `beliefs` `[P, H]` are not distributions.
  """
  validation.check_unstacked(tree)
  validation.check_beliefs(tree, beliefs)
  return pairs.root_marginals(tree, jnp.asarray(beliefs, tree.dtype))
