"""Shares of a tree that regret-based pruning leaves alone (thesis, sections 3.3 and 3.5).

`python -m benchmarks.studies.pruning` prints a JSON line for each game. Vanilla CFR skips what is
below a move of regret R <= 0 for floor(|R| / L) iterations, which changes no policy (Theorem 7);
counted are pairs of infostates at nodes, as a traversal over histories would touch them, and nodes
that a sweep over vectors of hands could skip, where no pair is left.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

import games
import solvers
from benchmarks import timing
from games.pairs import of_tree
from games.public_tree import PublicTree
from solvers import loop
from solvers.contrib.payoff_ranges import payoff_ranges
from solvers.sweeps.levels import Levels
from solvers.sweeps.problem import Problem, make_problem

LEDUC_5 = games.LeducPoker(bets=((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16)))
RIVER = {"ranks": "9TJQKA", "suits": "shd", "board": "9hTdQsKhKd"}
GAMES = timing.GAMES | {
  "leduc_5": lambda: LEDUC_5,
  "river": functools.partial(games.make, "river_endgame_holdem", **RIVER),
}
ALGORITHM: Any = solvers.vanilla_cfr()


def regret_bounds(problem: Problem, player: int) -> Levels:
  """Returns L of the mover's infostate for each move, counterfactual: `[n, H]` a level."""
  ranges, pairs = payoff_ranges(problem, player), of_tree(problem.tree, problem.dtype)
  rows = [jnp.zeros(problem.shapes[0], problem.dtype)]
  for i, above in enumerate(ranges[:-1]):
    ones = jnp.ones((len(above), problem.num_infostates), problem.dtype)
    reach = problem.with_nature(i, jnp.ones(problem.shapes[i], problem.dtype), 1 - player)
    mass = pairs.mass(jnp.zeros(len(above), int), reach[: len(above)] * ones, player)
    rows.append(problem.from_parents(i + 1, player, above * mass))
  return tuple(rows)


def step(problem: Problem, bounds: Any, state: Any, skips: Any, player: int, times: float = 1.0):
  """Updates `player` but for what it skips.

  Returns the state, how long each move is skipped yet, `[n, H]` a level, and where a traversal
  goes: whether by the player's own moves, `[n, H]` a level.
  """
  alive = problem.own_reach(tuple((x == 0).astype(problem.dtype) for x in skips), player)
  new, _ = ALGORITHM.update(problem, state, None, player)
  regret, policy, later = list(new.regret), list(new.policy), list(skips)
  for i in range(1, len(policy)):
    if problem.moves_at(i, player) is False:
      continue
    mine = jnp.broadcast_to(jnp.asarray(problem.moves_at(i, player)), policy[i].shape)
    there = problem.from_parents(i, player, alive[i - 1]) > 0
    regret[i] = jnp.where(there, regret[i], state.regret[i])
    policy[i] = jnp.where(there, policy[i], state.policy[i])
    length = jnp.floor(times * -regret[i] / jnp.maximum(bounds[player][i], 1e-30))
    begins = mine & there & (skips[i] == 0) & (regret[i] < 0)
    later[i] = jnp.where(begins, length, jnp.maximum(skips[i] - 1, 0))
  return new._replace(regret=tuple(regret), policy=tuple(policy)), tuple(later), alive


def run(tree: PublicTree, iterations: int, times: float = 1.0) -> tuple[Any, jax.Array]:
  """Returns CFR's state and shares of visits, means over `iterations` of both: `[2, 2]`.

  Rows are what the opponent's play leaves and what pruning leaves of that, columns pairs and nodes.
  With `times` skips are so many times as long as Theorem 7 allows.
  """
  problem = make_problem(tree, tree.prior)
  bounds = [regret_bounds(problem, p) for p in (0, 1)]
  weights = jnp.asarray(of_tree(tree).weight_table(int(tree.root_pair_index)), problem.dtype)
  everywhere = tuple(jnp.ones(shape, problem.dtype) for shape in problem.shapes)
  legal = [problem.own_reach(everywhere, p) for p in (0, 1)]
  legal = [problem.full_reach(x, p) for p, x in enumerate(legal)]

  def visits(own: Levels, others: Levels, player: int) -> jax.Array:
    found = jnp.zeros(2)
    for i in range(len(own)):
      first, second = (
        (x > 0) & (legal[p][i] > 0) for p, x in ((player, own[i]), (1 - player, others[i]))
      )
      pairs = weights if player == 0 else weights.T
      met = jnp.einsum("na,ab,nb->n", first * 1.0, (pairs > 0) * 1.0, second * 1.0)
      found += jnp.stack([met.sum(), (met > 0).sum()])
    return found

  def both(_, carry):
    state, skips, total = carry
    for p in (0, 1):
      opponent = state.reach[1 - p]
      state, later, alive = step(problem, bounds, state, skips[p], p, times)
      skips = (later, skips[1]) if p == 0 else (skips[0], later)
      total += jnp.stack([visits(everywhere, opponent, p), visits(alive, opponent, p)])
    return state, skips, total

  nothing = tuple(jnp.zeros(shape, problem.dtype) for shape in problem.shapes)
  start = loop.begin(problem, ALGORITHM), (nothing, nothing), jnp.zeros((2, 2))
  state, _, total = jax.lax.fori_loop(0, iterations, both, start)
  return state, total / (iterations * sum(visits(everywhere, everywhere, p) for p in (0, 1)))


def main(
  iterations: int = 1000, names: tuple[str, ...] = ("leduc", "leduc_5", "liars_dice_1x4f", "river")
) -> None:
  """Counts for each game.

  Args:
    iterations: of both players.
    names: of the games.
  """
  for name in names:
    tree = games.build_public_tree(GAMES[name]())
    _, shares = jax.jit(functools.partial(run, tree))(iterations)
    timing.say({
      "benchmark": "pruning", **timing.environment(), "game": name, "nodes": tree.num_nodes,
      "iterations": iterations,
      "partial": [round(float(x), 4) for x in shares[0]],
      "regret_based": [round(float(x), 4) for x in shares[1]],
    })  # fmt: skip


if __name__ == "__main__":
  timing.command(main)
