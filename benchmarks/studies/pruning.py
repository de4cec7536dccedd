"""Shares of a tree that regret-based pruning leaves alone (thesis, sections 3.3 and 3.5).

Vanilla CFR skips what is below a move of regret R <= 0 for floor(|R| / L) iterations, which changes
no policy (Theorem 7). Counted are pairs of infostates at nodes, as a traversal over histories would
touch them, nodes without pairs, and the player's own moves whose sums a traversal needs.
Best-response pruning skips a move that even a best response to the average so far would not have
gained by, and takes regrets from such a response, not counted, when it comes back.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import solvers
from benchmarks import timing
from games import LeducPoker, PublicTree, RiverEndgame, build_public_tree
from games.pairs import of_tree
from solvers import loop
from solvers.contrib.payoff_ranges import payoff_ranges
from solvers.sweeps import Levels, Problem, make_problem
from solvers.sweeps.levels import chance_reach

ALGORITHM: Any = solvers.vanilla_cfr()
GAMES: dict[str, Any] = {
  "leduc": LeducPoker,
  "river": lambda: RiverEndgame(ranks="9TJQKA", suits="shd", board="9hTdQsKhKd"),
  "leduc_5": lambda: LeducPoker(bets=((0.5, 1, 2, 4, 8), (1, 2, 4, 8, 16))),
}


def regret_bounds(problem: Problem, player: int) -> Levels:
  """Returns L, of counterfactual regrets, of the infostate that each move is made in: `[n, H]`."""
  chance = chance_reach(problem.tree, problem.dtype)
  rows = zip(payoff_ranges(problem, player), chance)
  above = [x * y[: len(x)] * problem.root_mass[player] for x, y in rows]
  below = (problem.from_parents(i + 1, player, x) for i, x in enumerate(above[:-1]))
  return (jnp.zeros(problem.shapes[0], problem.dtype), *below)


class Sums(NamedTuple):
  """Sums of best-response pruning of a player; rows `[n, H]` a level."""

  reach: Levels  # of the opponent
  worth: Levels  # of the infostates that moves are made in
  alive: Levels  # where the last traversal came


def recall(problem: Problem, state: Any, known: Sums, alive: Levels, player: int):
  """Takes regrets from best responses where a traversal comes back; returns the state and these."""
  best = problem.values_up(None, known.reach, None, player)
  regret, worth = list(state.regret), list(known.worth)
  for i, above in enumerate(best.parents):
    if above is not None and (moved := problem.moves_at(i, player)) is not False:
      there, before = (problem.from_parents(i, player, x[i - 1]) > 0 for x in (alive, known.alive))
      worth[i] = jnp.where(there & ~before, above, worth[i])
      back = moved & (alive[i] > 0) & (known.alive[i] == 0) | moved & there & ~before
      regret[i] = jnp.where(back, best.nodes[i] - worth[i], regret[i])
  state = ALGORITHM.extend(problem, state._replace(regret=tuple(regret)))
  return state, best, known._replace(worth=tuple(worth), alive=alive)


def step(
  problem: Problem, bounds: Any, state: Any, skips: Any, player: int, times: float = 1.0,
  known: Sums | None = None,
):  # fmt: skip
  """Updates `player` but for what it skips, for `times` as long as Theorem 7 allows."""
  # Returns the state, how long each move is skipped yet, which nodes the player's own moves lead a
  # traversal to, `[n, H]` a level both, and what it knows (best-response pruning).
  alive = problem.own_reach(tuple((x == 0).astype(problem.dtype) for x in skips), player)
  if known is not None:
    state, best, known = recall(problem, state, known, alive, player)
  new, sweep = ALGORITHM.update(problem, state, None, player)
  regret, policy, later = list(new.regret), list(new.policy), list(skips)
  worth = [] if known is None else list(known.worth)
  for i in range(1, len(policy)):
    if (moved := problem.moves_at(i, player)) is not False:
      there = problem.from_parents(i, player, alive[i - 1]) > 0
      regret[i] = jnp.where(there, regret[i], state.regret[i])
      policy[i] = jnp.where(there, policy[i], state.policy[i])
      lost = -regret[i]
      if known is not None:  # of the updates before this one
        lost = worth[i] - best.nodes[i] - bounds[player][i]
        worth[i] = jnp.where(there, worth[i] + sweep.parents[i], worth[i])
      length = jnp.floor(times * lost / jnp.maximum(bounds[player][i], 1e-30))
      begins = there & (skips[i] == 0) & (lost > 0) & (regret[i] < 0) & moved
      later[i] = jnp.where(begins, length, jnp.maximum(skips[i] - 1, 0))
  if known is not None:
    sums = jax.tree.map(jnp.add, known.reach, state.reach[1 - player])
    known = known._replace(reach=sums, worth=tuple(worth))
  return new._replace(regret=tuple(regret), policy=tuple(policy)), tuple(later), alive, known


def shares(tree: PublicTree, iterations: int, *, responses: bool = False) -> jax.Array:
  """Returns the shares of visits that are left, means over `iterations` of both: `[2, 3]`."""
  # Rows are what the opponent's play leaves and what pruning leaves of that, by regrets or by best
  # responses; columns pairs, nodes and the player's own moves.
  problem = make_problem(tree, tree.prior)
  bounds = [regret_bounds(problem, p) for p in (0, 1)]
  weights = of_tree(tree).weight_table(int(tree.root_pair_index)) > 0
  ones = tuple(jnp.ones(shape, problem.dtype) for shape in problem.shapes)
  zeros = tuple(map(jnp.zeros_like, ones))

  def visits(own: Levels, others: Levels, player: int) -> Any:
    pairs = jnp.asarray(weights if player == 0 else weights.T, problem.dtype)
    rows = zip(problem.full_reach(own, player), problem.full_reach(others, 1 - player))
    met = [jnp.einsum("na,ab,nb->n", (x > 0) * 1.0, pairs, (y > 0) * 1.0) for x, y in rows]
    moved = (problem.moves_at(i, player) for i in range(1, len(own)))
    kept = sum(((x > 0) & y).sum() for x, y in zip(own[1:], moved))
    return jnp.append(sum(jnp.stack([x.sum(), (x > 0).sum()]) for x in met), kept)

  def both(_, carry):
    state, skips, known, total = carry
    for p in (0, 1):
      opponent = state.reach[1 - p]
      state, later, alive, new = step(problem, bounds, state, skips[p], p, known=known[p])
      skips, known = ((later, skips[1]), (new, known[1])) if p == 0 else (
        (skips[0], later), (known[0], new)
      )  # fmt: skip
      total += jnp.stack([visits(ones, opponent, p), visits(alive, opponent, p)])
    return state, skips, known, total

  known = (Sums(zeros, zeros, ones),) * 2 if responses else (None, None)
  start = loop.begin(problem, ALGORITHM), (zeros, zeros), known, jnp.zeros((2, 3), problem.dtype)
  total = jax.jit(lambda: jax.lax.fori_loop(0, iterations, both, start)[-1])()
  return total / (iterations * sum(visits(ones, ones, p) for p in (0, 1)))


def main(iterations: int = 1000, games: tuple[str, ...] = tuple(GAMES)) -> None:
  """Counts for Leduc poker, with one size of bets and with five, and for a river.

  Args:
    iterations: of both players.
    games: which ones.
  """
  for name in games:
    tree = build_public_tree(timing.look_up("games", name, GAMES)())
    rows = [*shares(tree, iterations), shares(tree, iterations, responses=True)[1]]
    left = ([round(float(x), 4) for x in row] for row in rows)
    about = {"game": name, "nodes": tree.num_nodes, "iterations": iterations}
    names = "partial", "regret_based", "best_response"
    timing.say("pruning", **about, **dict(zip(names, left)))


if __name__ == "__main__":
  timing.command(main)
