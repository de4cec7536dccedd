"""Equilibrium finding and depth-limited search on public trees."""

import importlib
from typing import Any

from games.node_info import NodeInfo, node_info
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.cfr import CFR
from solvers.algorithms.fictitious_play import FictitiousPlay
from solvers.algorithms.gadgets.continual_resolve import ContinualResolve
from solvers.algorithms.gadgets.distributional import Distributional
from solvers.algorithms.gadgets.gadget import Gadget
from solvers.algorithms.gadgets.maxmargin import Maxmargin
from solvers.algorithms.gadgets.resolve import Resolve
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
  with_gadget,
)
from solvers.algorithms.registry import make_algorithm, registered_algorithms
from solvers.exact_leaf_values import ExactLeafValues, exact_leaf_values
from solvers.growing.continual.policies import resolved_policies
from solvers.growing.gt_cfr import Grown, gt_cfr
from solvers.growing.settings import GTCFR
from solvers.growing.states import StateAnswer, StateFunction, StateQuery
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.metrics.aivat import (
  HandRecord,
  HandRecorder,
  ValueFunction,
  aivat,
  half_the_difference,
  node_values,
  zero_values,
)
from solvers.metrics.best_response import BestResponse, best_response
from solvers.metrics.equity import PotShares
from solvers.metrics.expected_values import expected_values, infostate_values
from solvers.metrics.exploitability import best_response_values, exploitability, root_marginals
from solvers.metrics.local_best_response import (
  LBRResult,
  LBRRules,
  LBRValue,
  Strategy,
  TreeStrategy,
  local_best_response,
  local_best_response_value,
)
from solvers.resolving.blueprint_values import BlueprintValues, blueprint_values
from solvers.resolving.graft import Placer, graft
from solvers.resolving.lock import lock
from solvers.resolving.off_tree import Widened, answer_bet
from solvers.resolving.refine import refine
from solvers.solve import Solution, default_batch_size, solve, solve_batch
from solvers.sweeps.constraints import Alternatives, Lock

__all__ = [
  "CFR",
  "GTCFR",
  "Algorithm",
  "Alternatives",
  "BestResponse",
  "BlueprintValues",
  "ContinualResolve",
  "Distributional",
  "ExactLeafValues",
  "FictitiousPlay",
  "Gadget",
  "Grown",
  "HandRecord",
  "HandRecorder",
  "LBRResult",
  "LBRRules",
  "LBRValue",
  "LeafQuery",
  "LeafValues",
  "Lock",
  "Maxmargin",
  "NodeInfo",
  "Placer",
  "PotShares",
  "Resolve",
  "Solution",
  "StateAnswer",
  "StateFunction",
  "StateQuery",
  "Strategy",
  "TreeStrategy",
  "ValueFunction",
  "Widened",
  "aivat",
  "answer_bet",
  "best_response",
  "best_response_values",
  "blueprint_values",
  "cfr_avg",
  "cfr_plus",
  "default_batch_size",
  "discounted_cfr",
  "exact_leaf_values",
  "expected_values",
  "exploitability",
  "fictitious_play",
  "graft",
  "gt_cfr",
  "half_the_difference",
  "infostate_values",
  "linear_cfr",
  "linear_fictitious_play",
  "linear_optimistic_fictitious_play",
  "local_best_response",
  "local_best_response_value",
  "lock",
  "make_algorithm",
  "node_info",
  "node_values",
  "predictive_cfr_plus",
  "refine",
  "registered_algorithms",
  "resolved_policies",
  "root_marginals",
  "solve",
  "solve_batch",
  "vanilla_cfr",
  "warm_started",
  "with_gadget",
  "zero_values",
]


def __getattr__(name: str) -> Any:
  """Imports `solvers.contrib` when it is asked for, and says which names stand there."""
  contrib = importlib.import_module("solvers.contrib")
  if name == "contrib":
    return contrib
  hint = "; it stands in solvers.contrib" if name in contrib.__all__ else ""
  raise AttributeError(f"module 'solvers' has no attribute {name!r}{hint}")
