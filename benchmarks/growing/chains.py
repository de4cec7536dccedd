"""Which search continual re-solving may start from: Player of Games' chains, measured exactly.

`python -m benchmarks.growing.chains` prints one JSON line for each chain and number of updates: the
exploitability of an agent that searches all of what is left at every decision, so that only the
solver and the re-solving err, beside that of one solve of the whole game. With `--simulations`
trees grow instead, from leaves worth nothing, which says what a network must add.

An update is of both players: two of the project's iterations.
"""

import argparse
import sys

import numpy as np

import games
import solvers
from benchmarks import timing
from rebel_jax import flags
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
  solved = solvers.solve(tree, algorithm=algorithm, num_iterations=2 * updates)
  return float(solvers.exploitability(tree, solved.average_policy))


def chained(
  game: games.Game, tree: games.PublicTree, search: GTCFR, chain: str, seeds: int
) -> list[float]:
  """Returns the exploitability of the agent for each seed."""
  policies = solvers.resolved_policies(
    game, tree, search=search, chain=chain, seeds=tuple(range(seeds))
  )
  return [float(solvers.exploitability(tree, policy)) for policy in policies]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--game", default="leduc_poker")
  parser.add_argument("--updates", type=int, nargs="+", default=[30, 100, 300])
  parser.add_argument("--simulations", type=int, nargs="+", default=[])
  parser.add_argument("--seeds", type=int, default=4, help="of searches that grow")
  options = parser.parse_args()
  game = games.make(options.game)
  tree = games.build_public_tree(game)
  for updates in options.updates if not options.simulations else ():
    base = {alternating: plain(tree, updates, alternating) for alternating in (False, True)}
    for chain, mix, alternating in CHAINS:
      search = GTCFR(simulations=0, updates=updates, whole=True, mix=mix, alternating=alternating)
      (error,) = chained(game, tree, search, chain, 1)
      show(
        options.game,
        updates=updates,
        chain=chain,
        mix=mix,
        alternating=alternating,
        exploitability=error,
        plain=base[alternating],
      )
  for simulations in options.simulations:
    errors = chained(game, tree, GTCFR(simulations=simulations), "own", options.seeds)
    show(
      options.game,
      simulations=simulations,
      per_update=1,
      seeds=options.seeds,
      exploitability_mean=float(np.mean(errors)),
      exploitability_min=min(errors),
      exploitability_max=max(errors),
    )


def show(game: str, **figures) -> None:
  """Prints a line."""
  rounded = {k: round(v, 5) if isinstance(v, float) else v for k, v in figures.items()}
  timing.say({"benchmark": "chains", **timing.environment(), "game": game, **rounded})


if __name__ == "__main__":
  sys.exit(flags.command(main))
