"""A tree that grows the bets it lacks most, as Libratus's self-improver does (thesis, section 6.1).

From one size of bet on a river. Opponents who may bet any of twenty sizes respond best to its
translated policy; the middle of the gap that they bet into most joins the tree. For each number of
sizes: their winnings, also against evenly spread sizes, and solves of a few updates, warm and cold.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

import games
import solvers
from benchmarks import timing
from games.poker import BetSizes, Holdem, RiverEndgame
from games.poker.holdem import FIRST_BET
from solvers import Algorithm, contrib
from solvers.contrib.off_tree import midpoint, translate, widest_gap

STEP = 0.1
POT = 1000
NUM_SIZES = 5
FEW = 32  # updates
CANDIDATES = tuple(float(size) for size in np.round(np.arange(1, 21) * STEP, 1))


class Spot:
  """A river of a small deck whose trees hold some sizes of the first bet; raises are of the pot."""

  def __init__(self) -> None:
    self.fine, self.whole = self.build(CANDIDATES)

  def build(self, sizes: Sequence[float]) -> tuple[Holdem, games.PublicTree]:
    bets = BetSizes((((*sizes,), (1.0,)),), all_in=False, max_raises=2)
    game = RiverEndgame(
      board="9hTdQsKhKd", ranks="9TJQKA", suits="shd", pot=POT, stack=20 * POT, big_blind=2,
      bets=bets,
    )  # fmt: skip
    return game, games.build_public_tree(game)

  def solve(self, sizes: Sequence[float], iterations: int) -> tuple[Any, ...]:
    """Returns a game of these sizes, its tree and policy, and this played in the fine tree."""
    game, tree = self.build(sizes)
    policy = timing.average_policy(tree, solvers.linear_cfr(), iterations).astype(float)
    return game, tree, policy, self.translated(game, tree, policy, self.fine, self.whole)

  def translated(self, game, tree, policy, played, whole) -> np.ndarray:
    """Returns both players' policy, played on a tree of other sizes: `[N, H]`."""
    first, second = (translate(game, tree, policy, played, whole, player=p) for p in (0, 1))
    mover = np.where(whole.parent >= 0, whole.kind[whole.parent], games.CHANCE)[:, None]
    return np.where(mover == 1, second, first)


def bets_against(spot: Spot, policy: np.ndarray) -> list[float]:
  """Returns the first bets of best responses in the fine tree, each as often as it is made."""
  tree, found = spot.whole, []
  amounts = spot.fine.amounts(np.asarray(tree.state))
  highest = spot.fine.rules.highest(np.asarray(tree.state))
  for player in (0, 1):
    answer = np.asarray(solvers.best_response(tree, policy, player=player).policy)
    holds = np.asarray(solvers.root_marginals(tree, tree.prior))
    for node in range(1, tree.num_nodes):
      parent, action = tree.parent[node], tree.action[node]
      if (
        tree.kind[parent] != player or action < FIRST_BET or len(tree.history(int(parent))) > player
      ):
        continue  # of a first bet nothing, or a check, comes before
      often = (holds[player] * answer[node]).sum()
      if player == 1:
        often *= (holds[0] * policy[parent]).sum()
      chips = amounts[parent, action - FIRST_BET] - highest[parent]
      found += [float(chips / (2 * highest[parent]))] * round(1000 * often)
  return found


def next_size(spot: Spot, sizes: Sequence[float], policy: np.ndarray) -> float:
  """Returns the candidate nearest to the middle of the widest gap that is not in the tree."""
  low, high = widest_gap(bets_against(spot, policy), (0.0, *sizes))
  return min(set(CANDIDATES) - set(sizes), key=lambda size: abs(size - midpoint(low, high)))


def grow(spot: Spot, iterations: int) -> list[dict[str, Any]]:
  """Returns a row for each number of sizes, from the largest candidate alone."""
  sizes: tuple[float, ...] = (CANDIDATES[-1],)
  before: tuple[Any, Any, Any] | None = None
  algorithm: Algorithm = solvers.linear_cfr()
  rows = []
  while True:
    game, tree, policy, played = spot.solve(sizes, iterations)
    row: dict[str, Any] = {"sizes": sizes, "exploitability": _error(spot.whole, played)}
    row["in_the_tree"] = _error(tree, policy)
    if before is not None:
      start = spot.translated(*before, game, tree)
      length = contrib.warm_start_length(tree, start, algorithm=algorithm)
      begun = solvers.warm_started(algorithm, num_iterations=length)
      for name, how in (("soon_cold", algorithm), ("soon_warm", begun)):
        more = {"initial_policy": start} if how is begun else {}
        row[name] = _error(tree, timing.average_policy(tree, how, FEW, **more))
    rows.append(row)
    if len(sizes) == NUM_SIZES:
      return rows
    before = game, tree, policy
    sizes = tuple(sorted((*sizes, next_size(spot, sizes, played))))


def evenly(spot: Spot, number: int, iterations: int) -> float:
  """Returns the exploitability of `number` sizes at equal distances up to the largest."""
  wanted = np.linspace(0, CANDIDATES[-1], number + 1)[1:]
  sizes = np.array(CANDIDATES)[np.abs(np.subtract.outer(wanted, CANDIDATES)).argmin(axis=1)]
  return _error(spot.whole, spot.solve(sizes.tolist(), iterations)[-1])


def _error(tree: games.PublicTree, policy) -> float:
  return float(solvers.exploitability(tree, policy))


def main(iterations: int = 1024) -> None:
  """Measures a tree at each number of sizes.

  Args:
    iterations: of each solve.
  """
  spot = Spot()
  for row in grow(spot, iterations):
    sizes = row.pop("sizes")
    lost = row | {"evenly": evenly(spot, len(sizes), iterations)}
    figures = {name: round(100 * x / POT, 4) for name, x in lost.items()}
    timing.say("grow_bets", sizes=sizes, unit="percent of the pot", **figures)


if __name__ == "__main__":
  timing.command(main)
