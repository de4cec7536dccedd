"""Exact best responses on public trees."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.algorithms.fictitious_play import best_moves
from solvers.metrics.expected_values import check_whole
from solvers.sweeps.constraints import Lock
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import choose, make_problem, per_unit_of_mass
from solvers.xla.compiler_options import Programs, work_of_solving


class BestResponse(NamedTuple):
  """A best response.

  Attributes:
    values: `[H]` what the responding player expects given its root infostate.
    policy: `[N, H]` its responses; the other player's rows are those of the policy answered.
  """

  values: jax.Array  # [H]
  policy: jax.Array  # [N, H]


def best_response(
  tree: PublicTree,
  policy: Array,
  player: int,
  *,
  beliefs: Array | None = None,
  locked: Lock | Array | None = None,
) -> BestResponse:
  """Computes `player`'s best response to the other player's part of `policy`.

  Args:
    tree: a tree without leaves.
    policy: `[N, H]`, as `solve` returns it.
    player: who responds, 0 or 1; static.
    beliefs: `[P, H]` at the root; None for the tree's own prior.
    locked: where `player` keeps to `policy` too, as for `solvers.solve`.

  Returns:
    Values and policy. The values average over the root beliefs (`root_marginals`) to the
    best-response value. Moves of equal value are equally likely.

  Raises:
    ValueError: as `expected_values`, or `player` is not 0 or 1.
  """
  validation.check_player(player)
  beliefs = check_whole(tree, policy, beliefs)
  policy = jnp.asarray(policy, tree.dtype)
  lock = validation.check_lock(tree, policy, locked)
  work = work_of_solving(tree, None, policy, beliefs)
  return _programs[work](tree, policy, int(player), beliefs, lock)


def _best_response(tree, policy, player, beliefs, lock):
  problem = make_problem(tree, beliefs, lock=lock)
  levels = problem.split(policy)
  opponent = problem.own_reach(levels, 1 - player)
  sweep = problem.values_up(None, opponent, None, player)
  response = list(best_moves(problem, sweep, opponent, player))
  for i in range(1, len(response)):
    response[i] = choose(problem.moves_at(i, player), response[i], levels[i])
  values = per_unit_of_mass(sweep.root, problem.root_mass[player])
  return BestResponse(values, join_levels(tuple(response)))


_programs = Programs(_best_response, static_argnames="player")
