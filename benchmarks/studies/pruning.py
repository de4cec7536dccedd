"""Shares of a tree that regret-based pruning leaves alone (thesis, sections 3.3 and 3.5).

`python -m benchmarks.studies.pruning` prints a JSON line for each game. Vanilla CFR skips what is
below a move of regret R <= 0 for floor(|R| / L) iterations, which changes no policy (Theorem 7);
counted are pairs of infostates at nodes, as a traversal over histories would touch them, and nodes
that a sweep over vectors of hands could skip, where no pair is left.
"""

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
from solvers.sweeps.levels import Levels, chance_reach
from solvers.sweeps.problem import Problem, make_problem

ALGORITHM: Any = solvers.vanilla_cfr()


def regret_bounds(problem: Problem, player: int) -> Levels:
  """Returns L, of counterfactual regrets, of the infostate that each move is made in: `[n, H]`."""
  chance = chance_reach(problem.tree, problem.dtype)
  rows = zip(payoff_ranges(problem, player), chance)
  above = [x * y[: len(x)] * problem.root_mass[player] for x, y in rows]
  below = (problem.from_parents(i + 1, player, x) for i, x in enumerate(above[:-1]))
  return (jnp.zeros(problem.shapes[0], problem.dtype), *below)


def step(problem: Problem, bounds: Any, state: Any, skips: Any, player: int, times: float = 1.0):
  """Updates `player` but for what it skips, for `times` as long as Theorem 7 allows.

  Returns the state, how long each move is skipped yet, `[n, H]` a level, and which nodes the
  player's own moves lead a traversal to, `[n, H]` a level.
  """
  alive = problem.own_reach(tuple((x == 0).astype(problem.dtype) for x in skips), player)
  new, _ = ALGORITHM.update(problem, state, None, player)
  regret, policy, later = list(new.regret), list(new.policy), list(skips)
  for i in range(1, len(policy)):
    if (moved := problem.moves_at(i, player)) is not False:
      there = problem.from_parents(i, player, alive[i - 1]) > 0
      regret[i] = jnp.where(there, regret[i], state.regret[i])
      policy[i] = jnp.where(there, policy[i], state.policy[i])
      length = jnp.floor(times * -regret[i] / jnp.maximum(bounds[player][i], 1e-30))
      begins = there & (skips[i] == 0) & (regret[i] < 0) & moved
      later[i] = jnp.where(begins, length, jnp.maximum(skips[i] - 1, 0))
  return new._replace(regret=tuple(regret), policy=tuple(policy)), tuple(later), alive


def shares(tree: PublicTree, iterations: int) -> jax.Array:
  """Returns the shares of visits that are left, means over `iterations` of both: `[2, 2]`.

  Rows are what the opponent's play leaves and what pruning leaves of that, columns pairs and nodes.
  """
  problem = make_problem(tree, tree.prior)
  bounds = [regret_bounds(problem, p) for p in (0, 1)]
  weights = of_tree(tree).weight_table(int(tree.root_pair_index)) > 0
  ones = tuple(jnp.ones(shape, problem.dtype) for shape in problem.shapes)
  zeros = tuple(map(jnp.zeros_like, ones))

  def visits(own: Levels, others: Levels, player: int) -> Any:
    pairs = jnp.asarray(weights if player == 0 else weights.T, problem.dtype)
    rows = zip(problem.full_reach(own, player), problem.full_reach(others, 1 - player))
    met = [jnp.einsum("na,ab,nb->n", (x > 0) * 1.0, pairs, (y > 0) * 1.0) for x, y in rows]
    return sum(jnp.stack([x.sum(), (x > 0).sum()]) for x in met)

  def both(_, carry):
    state, skips, total = carry
    for p in (0, 1):
      opponent = state.reach[1 - p]
      state, later, alive = step(problem, bounds, state, skips[p], p)
      skips = (later, skips[1]) if p == 0 else (skips[0], later)
      total += jnp.stack([visits(ones, opponent, p), visits(alive, opponent, p)])
    return state, skips, total

  start = loop.begin(problem, ALGORITHM), (zeros, zeros), jnp.zeros((2, 2), problem.dtype)
  total = jax.jit(lambda: jax.lax.fori_loop(0, iterations, both, start)[2])()
  return total / (iterations * sum(visits(ones, ones, p) for p in (0, 1)))


def main(iterations: int = 1000) -> None:
  """Counts for Leduc poker, with one size of bets and with five, and for a river.

  Args:
    iterations: of both players.
  """
  river = {"ranks": "9TJQKA", "suits": "shd", "board": "9hTdQsKhKd"}
  for name, game in {
    "leduc": games.LeducPoker(),
    "river": games.make("river_endgame_holdem", **river),
    "leduc_5": games.LeducPoker(bets=((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16))),
  }.items():
    tree = games.build_public_tree(game)
    left = [[round(float(x), 4) for x in row] for row in shares(tree, iterations)]
    about = {"game": name, "nodes": tree.num_nodes, "iterations": iterations}
    timing.say({
      "benchmark": "pruning", **timing.environment(), **about, "partial": left[0],
      "regret_based": left[1],
    })  # fmt: skip


if __name__ == "__main__":
  timing.command(main)
