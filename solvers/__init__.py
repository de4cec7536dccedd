"""Equilibrium finding and depth-limited search on public trees."""

from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.cfr import CFR
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.algorithms.named import (
  cfr_avg,
  cfr_plus,
  discounted_cfr,
  fictitious_play,
  linear_cfr,
  linear_fictitious_play,
  linear_optimistic_fictitious_play,
  predictive_cfr_plus,
  vanilla_cfr,
  warm_started,
)
from solvers.algorithms.registry import make_algorithm, registered_algorithms
from solvers.exact_leaf_values import ExactLeafValues, exact_leaf_values
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.metrics.best_response import BestResponse, best_response
from solvers.metrics.expected_values import expected_values
from solvers.metrics.exploitability import best_response_values, exploitability
from solvers.solve import Solution, solve
from solvers.solve_batch import default_batch_size, solve_batch
from solvers.sweeps.pairs import root_marginals

__all__ = [
  "CFR",
  "Algorithm",
  "BestResponse",
  "ExactLeafValues",
  "FictitiousPlay",
  "LeafQuery",
  "LeafValues",
  "Solution",
  "best_response",
  "best_response_values",
  "cfr_avg",
  "cfr_plus",
  "default_batch_size",
  "discounted_cfr",
  "exact_leaf_values",
  "expected_values",
  "exploitability",
  "fictitious_play",
  "linear_cfr",
  "linear_fictitious_play",
  "linear_optimistic_fictitious_play",
  "make_algorithm",
  "predictive_cfr_plus",
  "registered_algorithms",
  "root_marginals",
  "solve",
  "solve_batch",
  "vanilla_cfr",
  "warm_started",
]
