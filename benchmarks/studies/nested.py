"""Costs of bets that a tree lacks: policy translation against solving the answer (Table 5.4).

The other player's gain over equilibrium when it may bet the missing size too, in percent of the
pot. `bound` is the least that any answers lose: where the tree has the move, the searcher keeps to
the blueprint, which never bets the missing size itself. Controls are promises that mean nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import games
import solvers
from benchmarks import timing
from games import PublicTree
from games.poker import BetSizes, Holdem
from solvers import Alternatives, Maxmargin, Placer, Resolve
from solvers.contrib.off_tree import translate

METHODS = ("translation", "unsafe", "resolve", "maxmargin", "expensive", "bound")
CONTROLS = ("constant", "reversed")


class Spot(NamedTuple):
  """A river with all bet sizes, and without one of them.

  Attributes:
    coarse, tree, policy: without it, and an equilibrium `[N, H]`.
    fine, whole, policy_of_all: with it.
  """

  coarse: Holdem
  tree: PublicTree
  policy: np.ndarray
  fine: Holdem
  whole: PublicTree
  policy_of_all: np.ndarray


def make_spot(
  *, sizes: Sequence[float], missing: float, num_iterations: int, **river: str | int
) -> Spot:
  """Returns a river with at most two bets, all chips behind enough for them, solved both ways."""

  def solve(fractions):
    bets = BetSizes((((*fractions,),),), all_in=False, max_raises=2)
    game = games.make("river_endgame_holdem", bets=bets, **river)
    tree = games.build_public_tree(game)
    return game, tree, timing.average_policy(tree, solvers.cfr_plus(), num_iterations)

  return Spot(*solve([size for size in sizes if size != missing]), *solve(sizes))


def answer_all(spot: Spot, searcher: int, method: str, num_iterations: int) -> np.ndarray:
  """Returns the searcher's policy `[N, H]` with all sizes, off-tree bets answered by `method`."""
  whole, tree = spot.whole, spot.tree
  translated = translate(
    spot.coarse, tree, spot.policy, spot.fine, whole, player=searcher
  )  # exact on the tree, uniform for the other player
  if method == "translation":
    return translated
  places = Placer(whole, by_state=True).places(tree)
  back = {int(place): node for node, place in enumerate(places)}
  parent, kind = np.asarray(whole.parent), np.asarray(whole.kind)
  bets = [
    node
    for node in range(1, whole.num_nodes)
    if node not in back and int(parent[node]) in back and kind[parent[node]] == 1 - searcher
  ]
  if method == "bound":
    held = np.isin(parent, list(back)) & (kind[parent] == searcher)
    held[0] = False
    solved = solvers.solve(
      whole, algorithm=solvers.cfr_plus(), num_iterations=num_iterations,
      initial_policy=translated, locked=held,
    )  # fmt: skip
    return np.asarray(solved.average_policy)
  placer, parts = Placer(whole), []
  for bet in bets:
    decision = back[int(parent[bet])]
    if method in ("unsafe", "expensive"):
      parts.append(_whole_decision(spot, searcher, method, decision, bet, num_iterations))
      continue
    known = solvers.blueprint_values(spot.coarse, tree, spot.policy, searcher=searcher)
    promised = known.alternatives(decision)
    if method == "constant":
      promised = Alternatives(0 * promised.value)
    if method == "reversed":
      promised = Alternatives(promised.value[::-1])
    gadget = Maxmargin(searcher) if method == "maxmargin" else Resolve(searcher)
    below = games.build_public_tree(spot.fine, root=whole.history(bet)).astype(whole.dtype)
    solved = solvers.solve(
      below,
      algorithm=solvers.with_gadget(solvers.cfr_plus(), gadget),
      num_iterations=num_iterations,
      beliefs=known.beliefs[decision],
      alternatives=promised,
    )
    parts.append((placer.places(below, bet), solved.average_policy))
  return solvers.resolving.graft(whole, translated, parts, player=searcher)


def _whole_decision(spot: Spot, searcher: int, method: str, decision: int, bet: int, iterations):
  """Returns the answer to one bet by solving the decision that it was made at."""
  history = spot.tree.history(decision)
  chips = int(
    spot.fine.amounts(np.asarray(spot.whole.state)[None, spot.whole.parent[bet]])[
      0, spot.whole.action[bet] - 2
    ]
  )
  wider = solvers.answer_bet(
    spot.coarse, spot.tree, spot.policy, history, chips, whole_decision=True,
    gadget=None if method == "unsafe" else Resolve(searcher), num_iterations=iterations,
  )  # fmt: skip
  places = Placer(spot.whole, by_state=True).places(wider.tree)
  below = _below(spot.whole, bet)
  inside = np.where(np.isin(places, below), places, -1)
  return inside, wider.policy


def _below(tree: PublicTree, root: int) -> list[int]:
  """Returns the nodes below `root`, and it."""
  found = {root}
  for node, parent in enumerate(np.asarray(tree.parent).tolist()):
    if parent in found:
      found.add(node)
  return sorted(found)


def loss(spot: Spot, searcher: int, policy: np.ndarray) -> float:
  """Returns the other's gain over equilibrium by its best response, in chips."""
  found = solvers.best_response_values(spot.whole, policy)[1 - searcher]
  best = solvers.best_response_values(spot.whole, spot.policy_of_all)[1 - searcher]
  return float(found - best)


def main(
  iterations: int = 4096,
  board: str = "9hTdQsKhKd",
  ranks: str = "9TJQKA",
  suits: str = "shd",
  pot: int = 100,
  sizes: tuple[float, ...] = (0.5, 0.75, 1.0),
  missing: float = 0.75,
  methods: tuple[str, ...] = (*METHODS, *CONTROLS),
) -> None:
  """Measures every method for both searchers.

  Args:
    iterations: of each solve.
    board, ranks, suits: of the river.
    pot: of the river, in chips.
    sizes, missing: of bets, as shares of the pot; the one that the searcher's tree lacks.
    methods: which answers.
  """
  spot = make_spot(
    sizes=sizes, missing=missing, num_iterations=iterations, board=board,
    ranks=ranks, suits=suits, pot=pot, stack=10 * pot, big_blind=2,
  )  # fmt: skip
  error = float(solvers.exploitability(spot.whole, spot.policy_of_all))
  for searcher in (0, 1):
    for method in methods:
      policy = answer_all(spot, searcher, method, iterations)
      timing.say(
        "nested",
        board=board,
        hands=spot.whole.num_infostates,
        iterations=iterations,
        searcher=searcher,
        method=method,
        percent_of_pot=round(100 * loss(spot, searcher, policy) / pot, 4),
        equilibrium_error=round(100 * error / pot, 4),
      )


if __name__ == "__main__":
  timing.command(main)
