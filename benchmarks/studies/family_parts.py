"""The parts of `benchmarks.studies.family`: one function each, which yields a row a curve."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import games
import solvers
from benchmarks import timing
from benchmarks.studies import depth_limited as depth_limited_solving
from benchmarks.studies import safe_search as rock_paper_scissors
from benchmarks.studies.curves import checkpoints, curve, jittered_priors
from games import PublicTree
from games.public_tree import Array
from solvers.algorithms.cfr import Algorithm
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem

TABULAR: dict[str, Algorithm] = {
  "FP": solvers.fictitious_play(),
  "linear FP": solvers.linear_fictitious_play(),
  "FLOP": solvers.linear_optimistic_fictitious_play(),
  "vanilla CFR": solvers.vanilla_cfr(),
  "Linear CFR": solvers.linear_cfr(),
  "CFR+": solvers.cfr_plus(),
  "DCFR": solvers.discounted_cfr(),
  "PCFR+": solvers.predictive_cfr_plus(),
}

DISCOUNTS: dict[str, Algorithm] = {
  "vanilla CFR": solvers.vanilla_cfr(),
  "CFR+, linear average": solvers.cfr_plus(averaging=1),
  "CFR+, quadratic average": solvers.cfr_plus(),
  "DCFR (1, 1, 1), Linear CFR": solvers.linear_cfr(),
  "DCFR (1.5, 0, 2)": solvers.discounted_cfr(),
  "DCFR (1.5, -inf, 2)": solvers.discounted_cfr(1.5, -math.inf, 2),
  "DCFR (1.5, 0.5, 2)": solvers.discounted_cfr(1.5, 0.5, 2),
}

RULES: dict[str, Algorithm] = {
  "DCFR": solvers.discounted_cfr(),
  "CFR+": solvers.cfr_plus(),
  "PCFR+": solvers.predictive_cfr_plus(),
  "SAPCFR+": solvers.make_algorithm("asymmetric_predictive_cfr_plus"),
  "PDCFR+": solvers.make_algorithm("predictive_discounted_cfr_plus"),
  "HS-DCFR(30)": solvers.make_algorithm("scheduled_discounted_cfr"),
  "HS-DCFR(15)": solvers.make_algorithm("scheduled_discounted_cfr(gamma=15)"),
  "HS-PCFR+(30)": solvers.make_algorithm("scheduled_predictive_cfr_plus"),
  "MMD, last policy": solvers.make_algorithm("magnetic_mirror_descent"),
}

DEPTH_LIMITED: dict[str, Algorithm] = {
  "CFR-D": solvers.linear_cfr(),
  "CFR-AVG, sound": solvers.cfr_avg(solvers.linear_cfr(), sound=True),
  "CFR-AVG, modified": solvers.cfr_avg(solvers.linear_cfr()),
  "CFR-D, uniform": solvers.vanilla_cfr(),
  "CFR-AVG, sound, uniform": solvers.cfr_avg(solvers.vanilla_cfr(), sound=True),
  "CFR-AVG, modified, uniform": solvers.cfr_avg(solvers.vanilla_cfr()),
  "linear FP": solvers.linear_fictitious_play(),
  "FLOP": solvers.linear_optimistic_fictitious_play(),
}
# Public actions from the start to the leaves, chance included; 2 in other games.
DEPTHS = {"leduc": 3}

Row = dict[str, Any]


def make_row(
  part: str,
  game: str,
  algorithm: str,
  curves: Sequence[np.ndarray],
  at: Sequence[int],
  *,
  x: str = "iterations",
  **others: Any,
) -> Row:
  """Returns the row of one curve of several runs, each `[K]`: their median, best and worst.

  They are exploitability `at` so many `x`, to four significant digits.
  """
  row: Row = {"benchmark": "family", **timing.environment(), "part": part}
  row |= {"game": game, "algorithm": algorithm, **others, "x": x, x: [int(i) for i in at]}
  for name, of_runs in (("exploitability", np.median), ("low", np.min), ("high", np.max)):
    row[name] = [float(f"{y:.4g}") for y in of_runs(np.stack(curves), axis=0)]
  return row


def whole_games(
  part: str, algorithms: dict[str, Algorithm], names: Sequence[str], iterations: int, runs: int
) -> Iterator[Row]:
  """Curves of algorithms on whole games, over priors that differ in the last bit."""
  points, runs_to = checkpoints(iterations), [checkpoints(iterations)]
  if part == "rules":  # some know how long a run is: each point is a run of its own
    points = points[::4]
    runs_to = [[point] for point in points]
  for name in names:
    tree = games.build_public_tree(timing.make_game(name))
    for label, algorithm in algorithms.items():
      curves = [
        np.concatenate([curve(tree, algorithm, x, prior=p) for x in runs_to])
        for p in jittered_priors(tree, runs)
      ]
      precision = str(np.dtype(tree.dtype))
      yield make_row(part, name, label, curves, points, precision=precision, runs=runs)


def depth_limited(
  algorithms: dict[str, Algorithm],
  names: Sequence[str],
  iterations: int,
  runs: int,
  iterations_below: int,
) -> Iterator[Row]:
  """Depth-limited solving with exact leaf values, by both scores of `depth_limited.measure`."""
  points = checkpoints(iterations)
  for name in names:
    game, depth = timing.make_game(name), DEPTHS.get(name, 2)
    priors = jittered_priors(games.build_public_tree(game, depth=depth), runs)
    for label, algorithm in algorithms.items():
      solved = [
        list(
          depth_limited_solving.measure(
            game,
            depth=depth,
            algorithm=algorithm,
            checkpoints=points,
            prior=prior,
            num_iterations_below=iterations_below,
            num_iterations_to_complete=1024,
          )
        )
        for prior in priors
      ]
      for score in ("exploitability", "exploitability_of_top"):
        curves = [np.array([getattr(point, score) for point in run]) for run in solved]
        of = "whole policy" if score == "exploitability" else "top, completed"
        settings: Row = {"score": of, "depth": depth, "iterations_below": iterations_below}
        yield make_row("depth_limited", name, label, curves, points, **settings, runs=runs)


def noisy(tree: PublicTree, policy: Array, share: float, seed: int) -> np.ndarray:
  """Mixes random moves into a policy `[N, H]`: a stand-in for what a policy network answers.

  In each infostate a distribution is drawn evenly from all and played with probability `share`.
  """
  parents = np.asarray(tree.parent)
  weights = np.random.default_rng(seed).exponential(size=policy.shape)
  total = np.zeros(policy.shape)
  np.add.at(total, parents[1:], weights[1:])
  random = weights / np.where(total > 0, total, 1.0)[parents]
  players = np.isin(np.asarray(tree.kind)[parents], (0, 1))
  players[0] = False
  mixed = (1 - share) * np.asarray(policy) + share * random
  return np.where(players[:, None], mixed, np.asarray(policy)).astype(tree.dtype)


def warm_start(names: Sequence[str], iterations: int, runs: int) -> Iterator[Row]:
  """Linear CFR from good, middling and bad policies, warm and cold (appendix J)."""
  points = checkpoints(iterations, first=2)
  cold = solvers.linear_cfr()
  warm = solvers.warm_started(cold)
  for name in names:
    tree = games.build_public_tree(timing.make_game(name))
    best = timing.average_policy(tree, solvers.discounted_cfr(), 4096)
    short = timing.average_policy(tree, cold, 32)
    noise = [noisy(tree, best, 0.1, i) for i in range(runs)]
    starts: dict[str, tuple[Algorithm, Sequence[Any]]] = {
      "cold": (cold, [even(tree)] * runs),
      "warm, from an equilibrium with noise": (warm, noise),
      "warm, from 32 iterations": (warm, [short] * runs),
      "warm, from the uniform policy": (warm, [even(tree)] * runs),
      "cold, first policy an equilibrium with noise": (cold, noise),
    }
    priors = jittered_priors(tree, runs)
    for label, (algorithm, policies) in starts.items():
      scores, curves = [], []
      for prior, policy in zip(priors, policies):
        scores.append(float(solvers.exploitability(tree, policy)))
        curves.append(curve(tree, algorithm, points, prior=prior, initial_policy=policy))
      settings: Row = {"exploitability_of_start": float(f"{np.median(scores):.4g}"), "runs": runs}
      yield make_row("warm_start", name, label, curves, points, **settings)


def even(tree: PublicTree) -> jax.Array:
  """Returns the policy `[N, H]` that takes every move equally often."""
  return join_levels(make_problem(tree, tree.prior).uniform_policy())


def safe_search(playthroughs: int, iterations: int, runs: int) -> Iterator[Row]:
  """Safe and unsafe search in modified rock-paper-scissors; see `benchmarks.studies.safe_search`.

  Safe search against the number of playthroughs that are averaged, over runs with other random
  numbers; unsafe search, which is the same in every playthrough, against its iterations.
  """
  agent = rock_paper_scissors.make_agent()

  def measure(count: int, length: int, seed: int, unsafe: bool) -> float:
    policy = rock_paper_scissors.play(agent, count, length, seed=seed, unsafe=unsafe)
    return float(solvers.exploitability(agent.tree, policy))

  counts = [4**k for k in range(20) if 4**k <= playthroughs]
  curves = [np.array([measure(n, iterations, i, False) for n in counts]) for i in range(runs)]
  start = ("safe_search", "rock_paper_scissors")
  others: dict[str, Any] = {"iterations": iterations, "runs": runs}
  yield make_row(*start, "safe search", curves, counts, x="playthroughs", **others)
  lengths = checkpoints(iterations, first=16)[::2]
  curves = [np.array([measure(1, n, 0, True) for n in lengths])]
  yield make_row(*start, "unsafe search", curves, lengths, playthroughs=1, runs=1)
