"""Further chapters of the thesis, beside equilibrium finding and search.

Payoffs that depend on parameters and regrets carried over between games (chapters 3 and 4), leaves
of several values (chapter 6), and warm starts that stand for a long run (section 3.2). Local best
response of small games, which is one of all games in `solvers.metrics`, and values of infostates
from those of beliefs (ReBeL, theorem 1).
"""

from solvers.contrib.continuations.extended import Extended, with_continuations
from solvers.contrib.continuations.pair_values import pair_values
from solvers.contrib.continuations.policies import biased_policy, grown_continuations, leaf_tables
from solvers.contrib.continuations.round_search import search_rounds
from solvers.contrib.infostate_values import infostate_values
from solvers.contrib.local_best_response import (
  LBRValue,
  TreeStrategy,
  local_best_response_value,
)
from solvers.contrib.parameters.affine_trees import AffineTrees, affine_trees
from solvers.contrib.parameters.optimise import Optimum, optimise
from solvers.contrib.parameters.transfer import Transferable, solve_affine, transfer_weight
from solvers.contrib.substitute_start import substitute_started
from solvers.contrib.warm_start_length import warm_start_length

__all__ = [
  "AffineTrees",
  "Extended",
  "LBRValue",
  "Optimum",
  "Transferable",
  "TreeStrategy",
  "affine_trees",
  "biased_policy",
  "grown_continuations",
  "infostate_values",
  "leaf_tables",
  "local_best_response_value",
  "optimise",
  "pair_values",
  "search_rounds",
  "solve_affine",
  "substitute_started",
  "transfer_weight",
  "warm_start_length",
  "with_continuations",
]
