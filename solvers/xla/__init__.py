"""Compilation of programs for a CPU, and work spread over its cores."""

from solvers.xla.compiler_options import (
  Programs,
  Work,
  return_memory,
  work_of_solving,
  work_on_trees,
)
from solvers.xla.cores import num_cores, run_ahead

__all__ = [
  "Programs",
  "Work",
  "num_cores",
  "return_memory",
  "run_ahead",
  "work_of_solving",
  "work_on_trees",
]
