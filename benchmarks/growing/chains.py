"""Exploitability of continual re-solving by what a search starts from (Player of Games' chains).

Each decision's search is of the whole rest of the game, so that only the solver and the re-solving
err, beside one solve of the whole game. With `--simulations` trees grow, from leaves worth nothing.
An update is of both players: two of the project's iterations.
"""

import numpy as np

import games
import solvers
from benchmarks import timing
from solvers import GTCFR

# The chain, the share of those who follow, and whether players take turns; a mix of 0 is no gadget.
CHAINS = (
  ("own", 0.2, False),
  ("own", 0.5, True),
  ("own", 1.0, False),
  ("own", 0.0, False),
  ("single", 0.2, False),
  ("single", 1.0, False),
)


def plain(tree: games.PublicTree, updates: int, alternating: bool) -> float:
  """Returns the exploitability of the solver's average policy of the whole game."""
  algorithm = solvers.cfr_plus(averaging=1.0, alternating=alternating)
  return float(solvers.exploitability(tree, timing.average_policy(tree, algorithm, 2 * updates)))


def chained(
  rules: games.Game, tree: games.PublicTree, search: GTCFR, chain: str, seeds: int
) -> list[float]:
  """Returns the exploitability of the agent for each seed."""
  policies = solvers.resolved_policies(
    rules,
    tree,
    search=search,
    chain=chain,  # type: ignore[arg-type]  # one of `CHAINS`
    seeds=tuple(range(seeds)),
  )
  return [float(solvers.exploitability(tree, policy)) for policy in policies]


def main(
  game: str = "leduc_poker",
  updates: tuple[int, ...] = (30, 100, 300),
  simulations: tuple[int, ...] = (),
  seeds: int = 4,
) -> None:
  """Measures chains that search all of the rest of a game, or with `simulations` growing ones.

  Args:
    game: as it is registered.
    updates: of both players, of each search.
    simulations: of each search that grows.
    seeds: of searches that grow.
  """
  rules = games.make(game)
  tree = games.build_public_tree(rules)
  for number in updates if not simulations else ():
    base = {alternating: plain(tree, number, alternating) for alternating in (False, True)}
    for chain, mix, alternating in CHAINS:
      search = GTCFR(simulations=0, updates=number, whole=True, mix=mix, alternating=alternating)
      (error,) = chained(rules, tree, search, chain, 1)
      show(
        game,
        updates=number,
        chain=chain,
        mix=mix,
        alternating=alternating,
        exploitability=error,
        plain=base[alternating],
      )
  for number in simulations:
    errors = chained(rules, tree, GTCFR(simulations=number), "own", seeds)
    show(
      game,
      simulations=number,
      per_update=1,
      seeds=seeds,
      exploitability_mean=float(np.mean(errors)),
      exploitability_min=min(errors),
      exploitability_max=max(errors),
    )


def show(game: str, **figures) -> None:
  """Prints a line."""
  rounded = {k: round(v, 5) if isinstance(v, float) else v for k, v in figures.items()}
  timing.say("chains", game=game, **rounded)


if __name__ == "__main__":
  timing.command(main)
