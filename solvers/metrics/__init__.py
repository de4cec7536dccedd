"""Metrics of policies and of play; `solvers` has those of policies on trees too."""

from solvers.metrics.aivat import (
  HandRecord,
  HandRecorder,
  PotShares,
  ValueFunction,
  aivat,
  half_the_difference,
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
from solvers.metrics.local_best_response import (
  LBRResult,
  LBRRules,
  Strategy,
  local_best_response,
  milli_big_blinds,
)  # fmt: skip
from solvers.metrics.policies import BestResponse, check_whole

__all__ = [
  "BestResponse", "HandRecord", "HandRecorder", "LBRResult", "LBRRules", "Minimax",
  "PotShares", "Strategy", "ValueFunction", "aivat", "check_whole",
  "exploitability_in", "half_the_difference", "local_best_response",
  "milli_big_blinds", "minimax", "node_values", "payoff_of", "public_histories", "zero_values",
]  # fmt: skip
