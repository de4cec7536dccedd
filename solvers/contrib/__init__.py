"""Further chapters of the thesis (3, 4, 6), local best response, and values of infostates."""

from solvers.contrib.continuations.extended import Extended, with_continuations
from solvers.contrib.continuations.pair_values import pair_values
from solvers.contrib.continuations.policies import biased_policy, grown_continuations, leaf_tables
from solvers.contrib.continuations.round_search import search_rounds
from solvers.contrib.distributional import Distributional
from solvers.contrib.infostate_values import infostate_values
from solvers.contrib.local_best_response import (
  LBRResult,
  LBRRules,
  LBRValue,
  Strategy,
  TreeStrategy,
  local_best_response,
  local_best_response_value,
  local_response,
)
from solvers.contrib.parameters.affine_trees import AffineTrees, affine_trees
from solvers.contrib.parameters.optimise import Optimum, optimise
from solvers.contrib.parameters.transfer import Transferable, solve_affine, transfer_weight
from solvers.contrib.substitute_start import substitute_started
from solvers.contrib.warm_start_length import warm_start_length

__all__ = [
  "AffineTrees", "Distributional", "Extended", "LBRResult", "LBRRules", "LBRValue", "Optimum",
  "Strategy", "Transferable", "TreeStrategy", "affine_trees", "biased_policy",
  "grown_continuations", "infostate_values", "leaf_tables", "local_best_response",
  "local_best_response_value", "local_response", "optimise", "pair_values", "search_rounds",
  "solve_affine", "substitute_started", "transfer_weight", "warm_start_length",
  "with_continuations",
]  # fmt: skip
