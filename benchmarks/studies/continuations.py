"""Leaves of several values: what more continuations gain (Figure 5.8), and Pluribus's search.

`values`: a game is cut off after its first round of betting, and the top's policy completed as well
as can be; `loss` is player 0's against equilibrium. `search`: all decisions of Leduc poker are
searched, from the start of the round or from the decision; `exploitability` is of the whole.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

import games
import solvers
from benchmarks import timing
from games import Game, PublicTree
from solvers import contrib

KS = (1, 2, 4, 8)
BIAS = 5.0  # Pluribus's
_MOST_INFOSTATES = 256  # a hidden choice multiplies them, and time is their square


class Cut(NamedTuple):
  """A game cut off after its first round, and a blueprint of the whole."""

  tree: PublicTree
  top: PublicTree
  places: np.ndarray  # `[n]` nodes of `top` in `tree`
  blueprint: np.ndarray  # `[N, H]`
  value: float  # player 1's in equilibrium

  @property
  def leaves(self) -> np.ndarray:
    return self.places[np.asarray(self.top.leaf_nodes)]


def solve(tree: PublicTree, num_iterations: int, **settings) -> np.ndarray:
  return timing.average_policy(tree, solvers.cfr_plus(), num_iterations, **settings)


def make_cut(game: Game, blueprint: int, num_iterations: int) -> Cut:
  """Cuts a game off and solves it, a blueprint with `blueprint` updates and a referee."""
  tree, top = games.build_public_tree(game), games.build_public_tree(game, depth="stage")
  places = solvers.Placer(tree).places(top)
  best = solve(tree, 4 * num_iterations)
  return Cut(
    tree, top, places, solve(tree, blueprint), float(solvers.best_response_values(tree, best)[1])
  )


def grow(cut: Cut, player: int, count: int, num_iterations: int) -> list[np.ndarray]:
  return contrib.grown_continuations(
    cut.tree, cut.top, cut.blueprint, chooser=player, count=count, num_iterations=num_iterations
  )


def biased(tree: PublicTree, policy: np.ndarray) -> list[np.ndarray]:
  """Returns the blueprint and its biases towards folding, calling and raising."""
  # 0 folds, 1 checks or calls, others raise; chance's are no moves.
  raises = range(2, int(np.max(tree.action)) + 1)
  factors = [{0: BIAS}, {1: BIAS}, dict.fromkeys(raises, BIAS)]
  return [policy, *(np.asarray(contrib.biased_policy(tree, policy, x)) for x in factors)]


def loss_of_top(
  cut: Cut, first: Sequence[np.ndarray], second: Sequence[np.ndarray], num_iterations: int
) -> float:
  """Returns player 0's loss by the depth-limited solution, followed by the best it allows."""
  tables = contrib.leaf_tables(cut.tree, cut.leaves, first, second)
  extended = contrib.with_continuations(cut.top, tables)
  policy = np.array(cut.blueprint)
  policy[cut.places] = extended.of_top(solve(extended.tree, num_iterations))
  movers = np.asarray(cut.tree.kind)[np.maximum(cut.tree.parent, 0)]
  held = np.isin(np.arange(cut.tree.num_nodes), cut.places[1:]) & (movers == 0)
  done = solve(cut.tree, 2 * num_iterations, initial_policy=policy, locked=held)
  return float(solvers.best_response_values(cut.tree, done)[1]) - cut.value


def study_values(name: str, game: Game, blueprint: int, num_iterations: int) -> None:
  """Prints what k continuations of the opponent, and of both players, leave to lose."""
  cut = make_cut(game, blueprint, num_iterations)
  grown = [grow(cut, player, max(KS), num_iterations) for player in (0, 1)]
  for choosers in ("opponent", "both"):
    for k in KS:
      own = k if choosers == "both" else 1
      if own * cut.tree.num_infostates > _MOST_INFOSTATES or (choosers == "both" and k == 1):
        continue
      lost = loss_of_top(cut, grown[0][:own], grown[1][:k], num_iterations)
      timing.say(
        "continuations",
        study="values",
        game=name,
        blueprint_updates=blueprint,
        iterations=num_iterations,
        choosers=choosers,
        values=k,
        loss=round(lost, 4),
      )


def study_search(blueprint: int, num_iterations: int) -> None:
  """Prints how exploitable searches of all decisions of Leduc poker are together."""
  game = games.make("leduc_poker")
  cut = make_cut(game, blueprint, num_iterations)
  sets = {
    "blueprint": [[cut.blueprint]] * 2,
    "biased": [biased(cut.tree, cut.blueprint)] * 2,
    "grown": [grow(cut, player, 4, num_iterations) for player in (0, 1)],
  }
  for name, (first, second) in sets.items():
    for start, frozen in (("round", "hand"), ("round", "all"), ("decision", None)):
      policy = contrib.search_rounds(
        game, cut.tree, first, second, start=start, frozen=frozen or "all",
        num_iterations=num_iterations,
      )  # fmt: skip
      timing.say(
        "continuations",
        study="search",
        game="leduc_poker",
        blueprint_updates=blueprint,
        blueprint_exploitability=round(float(solvers.exploitability(cut.tree, cut.blueprint)), 4),
        iterations=num_iterations,
        continuations=name,
        start=start,
        frozen=frozen,
        exploitability=round(float(solvers.exploitability(cut.tree, policy)), 4),
      )


def turn() -> Game:
  """Returns a turn endgame of a deck of 24 cards, whose trees have tables of pairs of hands."""
  dense = type("Dense", (games.TurnEndgame,), {"hands": lambda self: None})
  return dense(
    ranks="9TJQKA", suits="shdc", board="9hTdQsKh", pot=100, stack=400, big_blind=2, bets=(1.0,)
  )


def main(iterations: int = 1024, blueprint: int = 30) -> None:
  """Studies values of leaves, and searches of all decisions.

  Args:
    iterations: of each solve.
    blueprint: updates of the blueprint.
  """
  with jax.enable_x64(True):
    study_values("leduc_poker", games.make("leduc_poker"), blueprint, iterations)
    study_values("turn_endgame_holdem", turn(), blueprint, iterations)
    study_search(blueprint, iterations)


if __name__ == "__main__":
  timing.command(main)
