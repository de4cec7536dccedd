"""Equilibrium finding and depth-limited search on public trees."""

import importlib
from typing import Any

from games.node_info import node_info
from solvers.algorithms.algorithm import Algorithm
from solvers.algorithms.cfr import CFR
from solvers.algorithms.gadgets import ContinualResolve, Distributional, Maxmargin, Resolve
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
from solvers.exact_leaf_values import exact_leaf_values
from solvers.growing.continual.policies import resolved_policies
from solvers.growing.gt_cfr import gt_cfr
from solvers.growing.settings import GTCFR
from solvers.growing.states import StateAnswer, StateFunction, StateQuery
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.metrics.expected_values import expected_values, infostate_values
from solvers.metrics.exploitability import (
  best_response,
  best_response_values,
  exploitability,
  root_marginals,
)
from solvers.resolving.blueprint_values import blueprint_values
from solvers.resolving.graft import Placer
from solvers.resolving.lock import lock
from solvers.resolving.off_tree import answer_bet
from solvers.resolving.refine import refine
from solvers.solve import Solution, solve, solve_batch
from solvers.sweeps.constraints import Alternatives

__all__ = [
  "CFR", "GTCFR", "Algorithm", "Alternatives", "ContinualResolve", "Distributional", "LeafQuery",
  "LeafValues", "Maxmargin", "Placer", "Resolve", "Solution", "StateAnswer", "StateFunction",
  "StateQuery", "answer_bet", "best_response", "best_response_values", "blueprint_values",
  "cfr_avg", "cfr_plus", "discounted_cfr", "exact_leaf_values", "expected_values",
  "exploitability", "fictitious_play", "gt_cfr", "infostate_values", "linear_cfr",
  "linear_fictitious_play", "linear_optimistic_fictitious_play", "lock", "make_algorithm",
  "node_info", "predictive_cfr_plus", "refine", "registered_algorithms", "resolved_policies",
  "root_marginals", "solve", "solve_batch", "vanilla_cfr", "warm_started", "with_gadget",
]  # fmt: skip


def __getattr__(name: str) -> Any:
  """Imports `solvers.contrib` at its first use, and names the new place of names that moved."""
  if name == "contrib":
    return importlib.import_module("solvers.contrib")
  doors = ("contrib", "metrics", "resolving", "growing", "search", "sweeps", "xla")
  names = {door: importlib.import_module(f"solvers.{door}").__all__ for door in doors}
  hint = "".join(f"; it stands in solvers.{door}" for door in doors if name in names[door])
  raise AttributeError(f"module 'solvers' has no attribute {name!r}{hint}")
