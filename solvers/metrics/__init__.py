"""Metrics of policies and of play; `solvers` has those of policies on trees too."""

import importlib
from typing import TYPE_CHECKING, Any

from solvers.metrics.aivat import (
  HandRecord,
  HandRecorder,
  PotShares,
  ValueFunction,
  aivat,
  half_the_difference,
  milli_big_blinds,
  node_values,
  zero_values,
)  # fmt: skip
from solvers.metrics.histories import (
  Minimax,
  exploitability_in,
  minimax,
  payoff_of,
  public_histories,
)
from solvers.metrics.policies import BestResponse, check_whole

__all__ = [
  "BestResponse", "HandRecord", "HandRecorder", "Minimax", "PotShares", "ValueFunction", "aivat",
  "check_whole", "exploitability_in", "half_the_difference", "milli_big_blinds", "minimax",
  "node_values", "payoff_of", "public_histories", "zero_values",
]  # fmt: skip

if not TYPE_CHECKING:  # which would take any name for one of the package

  def __getattr__(name: str) -> Any:
    """Imports names of local best response, now of `solvers.contrib`, at their first use."""
    if name in ("LBRResult", "LBRRules", "Strategy", "local_best_response"):
      return getattr(importlib.import_module("solvers.contrib"), name)
    raise AttributeError(f"module 'solvers.metrics' has no attribute {name!r}")
