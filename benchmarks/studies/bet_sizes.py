"""The best size of a bet (thesis, section 4.2): grids, optimisers, and regrets carried over.

leduc      41 second bets, and optima from three starts
narrowing  the thesis's Algorithm 3 on the same
transfer   bets of 2 and 4 as the start for 2.1 and 4.1
river      what a river is worth by the size of the bet
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import tyro

import games
import solvers
from benchmarks import figures, timing
from games.poker import BetSizes
from solvers import contrib

SECOND = 1  # the thesis's Player 1, who maximises, acts second here
GRID = np.arange(3.0, 13.01, 0.25)
STARTS = (3.0, 6.0, 12.0)
STARTS_OF_BOTH = ((2.0, 4.0), (4.0, 2.0), (4.0, 8.0))
_LIMITS = (0.5, 14.0)


def leduc(*, both: bool) -> contrib.AffineTrees:
  """Returns Leduc poker as a function of its second bet, or of both; the first is then 2."""

  def build(*bets: float) -> games.PublicTree:
    first, second = bets if both else (2.0, *bets)
    return games.build_public_tree(games.make("leduc_poker", bets=((first,), (second,))))

  return contrib.affine_trees(build, (2.0, 4.0) if both else (4.0,))


def worth(trees: games.PublicTree, policies: jax.Array, player: int) -> np.ndarray:
  """Returns `player`'s expected payoff in each of stacked trees under its policy: `[B]`."""
  values = jax.vmap(lambda tree, policy: solvers.expected_values(tree, policy)[player])
  marginals = jax.vmap(lambda tree: solvers.root_marginals(tree, tree.prior)[player])
  return np.asarray((marginals(trees) * values(trees, policies)).sum(axis=1), float)


def measure_leduc(iterations: int = 4_096) -> Iterator[dict[str, Any]]:
  """Yields the grid's best second bet, and optima of one bet and of both."""
  trees = leduc(both=False)
  stacked = jax.vmap(trees.at)(jnp.asarray(GRID)[:, None])
  solved = solvers.solve_batch(
    stacked, algorithm=solvers.discounted_cfr(), num_iterations=iterations
  )
  values = worth(stacked, solved.average_policy, SECOND)
  best = int(values.argmax())
  yield {
    "method": "grid",
    "best": [GRID[best]],
    "value": float(values[best]),
    "values": values.tolist(),
  }
  cases: list[tuple[contrib.AffineTrees, tuple[float, ...]]] = [(trees, (x,)) for x in STARTS]
  cases += [(leduc(both=True), start) for start in STARTS_OF_BOTH]
  for family, start in cases:
    found = contrib.optimise(
      family, player=SECOND, bounds=[_LIMITS] * len(start), start=start, num_iterations=iterations
    )
    yield _row("envelope", start, found.parameters, found.value)


def _row(method: str, start, parameters, value, **more: Any) -> dict[str, Any]:
  best = np.asarray(parameters, float).round(3).tolist()
  return {"method": method, "start": list(start), "best": best, "value": float(value), **more}


def narrow(
  trees: contrib.AffineTrees,
  start: Sequence[float],
  *,
  player: int,
  steps: int,
  iterations: int = 100,
  rate: float = 50.0,
  power: float = 0.75,
) -> tuple[np.ndarray, float, int]:
  """Optimises by Algorithm 3 of the thesis: parameters, mean value, each player's iterations."""
  # K = `iterations`, alpha = `rate`, l(s) = s^`power`. Two games lie around each parameter, closer
  # at each step. Differences of their values are the gradient, and what was learned of each is
  # carried to its next place.
  theta, total = np.array(start, float), 0
  points: dict[tuple[int, int], contrib.Transferable] = {}
  values: dict[tuple[int, int], float] = {}
  for s in range(1, steps + 1):
    gradient = np.zeros(len(theta))
    for d in range(len(theta)):
      for side in (-1, 1):
        place = theta.copy()
        place[d] = max(place[d] + side * s**-0.25, _LIMITS[0])
        known = points.get((d, side))
        weight, done = 1.0, 0.0
        if known is not None:
          weight = float(contrib.transfer_weight(trees, place, known))
          done = weight * float(known.iterations)
        number = max(1, int(np.ceil(s * iterations - done)))
        solved = contrib.solve_affine(
          trees, place, num_iterations=2 * number, start=known, weight=weight
        )
        points[d, side], total = solved, total + number
        tree = trees.at(place)
        chips = solvers.expected_values(tree, solved.average_policy)[player]
        values[d, side] = float((solvers.root_marginals(tree, tree.prior)[player] * chips).sum())
      gradient[d] = (values[d, 1] - values[d, -1]) / (2 * s**-0.25)
    theta = np.clip(theta + rate / s**power * gradient, *_LIMITS)
  return theta, float(np.mean(list(values.values()))), total


def measure_narrowing(steps: int = 300) -> Iterator[dict[str, Any]]:
  """Yields optima of the second bet by the thesis's Algorithm 3."""
  trees = leduc(both=False)
  for start in STARTS:
    theta, value, total = narrow(trees, (start,), player=SECOND, steps=steps)
    yield _row("narrowing", (start,), theta, value, steps=steps, iterations=2 * total)


def measure_transfer(iterations: int = 4_096) -> Iterator[dict[str, Any]]:
  """Yields exploitability at bets of 2.1 and 4.1 after few iterations from those at 2 and 4."""
  trees, there = leduc(both=True), (2.1, 4.1)
  known = contrib.solve_affine(trees, (2.0, 4.0), num_iterations=iterations)
  cases: dict[str, Any] = {"scratch": None, "bound": "bound", "potential": "potential", "all": 1.0}
  for name, weight in cases.items():
    for more in (2, 20, 200, 2_000, 20_000):
      solved = contrib.solve_affine(
        trees, there, num_iterations=more, start=None if weight is None else known,
        weight="bound" if weight is None else weight,
      )  # fmt: skip
      error = solvers.exploitability(trees.at(there), solved.average_policy)
      weighed = float(solved.weight)
      yield {"weight": name, "is": weighed, "iterations": more, "exploitability": float(error)}


def measure_river(
  iterations: int = 4_096, board: str = "3s7hTdKs2c", pot: int = 1_000
) -> Iterator[dict[str, Any]]:
  """Yields what the first to act wins, by the size of both players' first bet; raises are pots."""
  sizes = np.round(np.geomspace(0.2, 4.0, 14), 2)
  spots = [
    games.make(
      "river_endgame_holdem", board=board, pot=pot, stack=20 * pot,
      big_blind=2, bets=BetSizes((((float(size),), (1.0,)),), all_in=False, max_raises=2),
    )
    for size in sizes
  ]  # fmt: skip
  trees = games.stack_trees([games.build_public_tree(spot) for spot in spots])
  solved = solvers.solve_batch(trees, algorithm=solvers.discounted_cfr(), num_iterations=iterations)
  for size, chips in zip(sizes, worth(trees, solved.average_policy, 0)):
    yield {"size": float(size), "percent_of_pot": round(100 * chips / pot, 4)}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
  """Draws value against size."""
  with figures.panels(1, path, size=(7, 4)) as (_, (axes,)):
    if "size" in rows[0]:
      axes.plot(*zip(*((row["size"], row["percent_of_pot"]) for row in rows)), "o-", markersize=3)
      pots = "the first to act wins, % of the pot"
      axes.set(xlabel="the bet, in pots", ylabel=pots, xscale="log")
    else:
      grid, *found = rows
      axes.plot(GRID, grid["values"], "o-", markersize=3)
      for row in found:
        if len(row["best"]) == 1:
          axes.axvline(row["best"][0], color="C1", linewidth=0.8)
      axes.set(xlabel="second bet, chips", ylabel="value to the second to act, chips")


def main(
  part: tyro.conf.Positional[Literal["leduc", "narrowing", "transfer", "river"]],
  iterations: int | None = None,
  steps: int | None = None,
  board: str | None = None,
  pot: int | None = None,
  picture: Path | None = None,
) -> None:
  """Measure sizes of bets.

  Args:
    part: What to measure.
    iterations: Updates of each solve, of transfer before the sizes change; None for 4,096.
    steps: Steps of narrowing; None for 300.
    board: Of river; None for 3s7hTdKs2c.
    pot: Of river, in chips; None for 1,000.
    picture: Where leduc's or river's picture goes.
  """
  parts: dict[str, Any] = {
    "leduc": measure_leduc,
    "narrowing": measure_narrowing,
    "transfer": measure_transfer,
    "river": measure_river,
  }
  timing.given(part, ("picture",) if part in ("leduc", "river") else (), picture=picture)
  rows = []
  for row in timing.run_part(parts, part, iterations=iterations, steps=steps, board=board, pot=pot):
    rows.append(row)
    timing.say(f"bet_sizes.{part}", **row)
  if picture is not None:
    draw(rows, picture)


if __name__ == "__main__":
  timing.command(main)
