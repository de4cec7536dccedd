"""Regret minimisers for one infostate: triples of pure functions, one file a rule."""

from solvers.algorithms.regret_rules.discounted import DiscountedRegret
from solvers.algorithms.regret_rules.mirror_descent import MirrorDescent
from solvers.algorithms.regret_rules.predictive import PredictiveRegretPlus
from solvers.algorithms.regret_rules.rule import RegretRule, Siblings

__all__ = ["DiscountedRegret", "MirrorDescent", "PredictiveRegretPlus", "RegretRule", "Siblings"]
