"""Regret minimisers for one infostate: pairs of pure functions, one file a rule."""

from solvers.regret_rules.discounted import DiscountedRegret
from solvers.regret_rules.predictive import PredictiveRegretPlus
from solvers.regret_rules.rule import RegretRule

__all__ = ["DiscountedRegret", "PredictiveRegretPlus", "RegretRule"]
