"""Exact best responses on public trees."""

from typing import NamedTuple

import jax

from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.algorithms.fictitious_play import best_moves
from solvers.metrics.expected_values import each_row, measure
from solvers.sweeps.constraints import Lock
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import choose, make_problem, per_unit_of_mass
from solvers.xla.compiler_options import Programs


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
    tree: a tree without leaves, or a stack of them.
    policy: `[N, H]`, as `solve` returns it, or `[B, N, H]`.
    player: who responds, 0 or 1; static.
    beliefs: `[P, H]` at the root, or `[B, P, H]`; None for the tree's own prior.
    locked: where `player` keeps to `policy` too, as for `solvers.solve`.

  Returns:
    Values and policy. The values average over the root beliefs (`root_marginals`) to the
    best-response value. Moves of equal value are equally likely. Arrays have a leading axis `[B]`
    where an argument has one.

  Raises:
    ValueError: as `expected_values`, or `player` is not 0 or 1.
  """
  validation.check_player(player)
  return measure(_programs, tree, policy, beliefs, locked, player=int(player))


def _best_response(tree, policy, beliefs, lock, *, player):
  problem = make_problem(tree, beliefs, lock=lock)
  levels = problem.split(policy)
  opponent = problem.own_reach(levels, 1 - player)
  sweep = problem.values_up(None, opponent, None, player)
  response = list(best_moves(problem, sweep, opponent, player))
  for i in range(1, len(response)):
    response[i] = choose(problem.moves_at(i, player), response[i], levels[i])
  values = per_unit_of_mass(sweep.root, problem.root_mass[player])
  return BestResponse(values, join_levels(tuple(response)))


_programs = Programs(each_row(_best_response), static_argnames="player")
