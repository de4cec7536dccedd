"""Equilibrium finding and depth-limited search on public trees."""

import importlib
from typing import Any

from games.tabulate import node_info
from solvers.algorithms.cfr import CFR, Algorithm
from solvers.algorithms.gadgets import ContinualResolve, Maxmargin, Resolve
from solvers.algorithms.named import (
  cfr_avg,
  cfr_plus,
  discounted_cfr,
  fictitious_play,
  linear_cfr,
  linear_fictitious_play,
  linear_optimistic_fictitious_play,
  make_algorithm,
  predictive_cfr_plus,
  registered_algorithms,
  vanilla_cfr,
  warm_started,
  with_gadget,
)
from solvers.exact_leaf_values import exact_leaf_values
from solvers.growing.continual.grounds import resolved_policies
from solvers.growing.gt_cfr import gt_cfr
from solvers.growing.states import GTCFR, StateAnswer, StateFunction, StateQuery
from solvers.leaf_values import LeafQuery, LeafValues
from solvers.metrics.policies import (
  best_response,
  best_response_values,
  expected_values,
  exploitability,
  root_marginals,
)
from solvers.resolving import Placer, answer_bet, blueprint_values, lock, refine
from solvers.solve import Solution, solve, solve_batch
from solvers.sweeps.problem import Alternatives

__all__ = [
  "CFR", "GTCFR", "Algorithm", "Alternatives", "ContinualResolve", "LeafQuery",
  "LeafValues", "Maxmargin", "Placer", "Resolve", "Solution", "StateAnswer", "StateFunction",
  "StateQuery", "answer_bet", "best_response", "best_response_values", "blueprint_values",
  "cfr_avg", "cfr_plus", "discounted_cfr", "exact_leaf_values", "expected_values",
  "exploitability", "fictitious_play", "gt_cfr", "linear_cfr",
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
