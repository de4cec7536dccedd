"""Compilation of programs for a CPU, and work spread over its cores."""

from solvers.xla.compiler_options import Programs, Work, work_of_solving, work_on_trees
from solvers.xla.cores import num_cores, run_ahead

__all__ = ["Programs", "Work", "num_cores", "run_ahead", "work_of_solving", "work_on_trees"]
