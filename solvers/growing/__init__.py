"""Growing-tree CFR: searches that add nodes, chains of them, and their stores."""

from solvers.growing.continual.chain import (
  ChainSearch,
  Found,
  Ground,
  How,
  Left,
  PublicState,
  Standing,
  alone,
  beginning,
  deal,
  follow_action,
  longest_wait,
  next_starts,
  play_on,
  search_each,
)  # fmt: skip
from solvers.growing.continual.grounds import (
  RulesGround,
  TreeGround,
  history_policies,
  search_decisions,
  tree_ground,
)
from solvers.leaf_values import seat_of

__all__ = [
  "ChainSearch", "Found", "Ground", "How", "Left", "PublicState", "RulesGround", "Standing",
  "TreeGround", "alone", "beginning", "deal", "follow_action", "history_policies", "longest_wait",
  "next_starts", "play_on", "search_decisions", "search_each", "seat_of", "tree_ground",
]  # fmt: skip
