"""Iterations that a policy stands for, judged by a short run (thesis, section 3.2.3)."""

from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.algorithms.cfr import Algorithm
from solvers.metrics.policies import exploitability
from solvers.solve import solve


@validation.checked
def warm_start_length(
  tree: PublicTree, policy: Array, *, algorithm: Algorithm, probe: validation.Positive = 10
) -> int:
  """Returns how many iterations of each player make `algorithm` about as good as `policy`.

  Exploitability is taken to fall as one over the number of iterations. That fits vanilla and Linear
  CFR; CFR+ and DCFR fall faster where they run long, so that a good policy is taken for too many.

  Args:
    tree, policy: without leaves, and `[N, H]` on it.
    algorithm: that is to be started.
    probe: iterations of each player that the rate is measured by.

  Raises:
    ValueError: as `solve` and `exploitability`.
  """
  validation.check_policy("policy", tree, policy)
  started = solve(tree, algorithm=algorithm, num_iterations=2 * probe)
  rate = probe * float(exploitability(tree, started.average_policy))
  reached = float(exploitability(tree, policy))
  return max(1, round(rate / reached)) if reached > 0 else probe
