"""Monte Carlo CFR: traversals that visit a sample of a public tree, and deals of public cards."""

from solvers.contrib.sampling.mccfr import MCCFR, solve_sampled
from solvers.contrib.sampling.public_chance import solve_chance_sampled
from solvers.contrib.sampling.strategy import WalkedStrategy
from solvers.contrib.sampling.traversal import make_sampler, table_policy, traverse

__all__ = [
  "MCCFR", "WalkedStrategy", "make_sampler", "solve_chance_sampled", "solve_sampled",
  "table_policy", "traverse",
]  # fmt: skip
