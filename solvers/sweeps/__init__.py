"""Problems, and the sweeps of reach and values that algorithms are made of."""

from games.pairs import compatible_mass
from solvers.sweeps.levels import Levels, join_levels, split_levels
from solvers.sweeps.lines.parts import Part, PartedProblem, make_parted_problem
from solvers.sweeps.lines.problem import LinesProblem, make_lines_problem
from solvers.sweeps.pairs import root_mass
from solvers.sweeps.problem import Problem, TreeProblem, choose, make_problem, per_unit_of_mass
from solvers.sweeps.showdowns import Showdowns, make_showdowns, showdown_values

__all__ = [
  "Levels", "LinesProblem", "Part", "PartedProblem", "Problem", "Showdowns",
  "TreeProblem", "choose", "compatible_mass", "join_levels", "make_lines_problem",
  "make_parted_problem", "make_problem", "make_showdowns", "per_unit_of_mass", "root_mass",
  "showdown_values", "split_levels",
]  # fmt: skip
