"""Equilibrium finding on public trees, in pure JAX."""

from solvers.algorithm import Algorithm
from solvers.algorithms import (
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
from solvers.best_response import BestResponse, best_response
from solvers.cfr import CFR
from solvers.evaluate_policy import expected_values
from solvers.exact_leaf_values import ExactLeafValues, exact_leaf_values
from solvers.exploitability import best_response_values, exploitability, root_marginals
from solvers.fictitious_play import FictitiousPlay
from solvers.leaf_values import LeafBeliefs, LeafQuery, LeafValues
from solvers.registry import make_algorithm, registered_algorithms
from solvers.solve import Solution, solve
from solvers.solve_batch import default_batch_size, solve_batch

__all__ = [
  "CFR",
  "Algorithm",
  "BestResponse",
  "ExactLeafValues",
  "FictitiousPlay",
  "LeafBeliefs",
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
