"""Hold'em as lines of betting, with the boards and hands of each round in columns."""

from games.poker.lines.lines import Follower, LineMap, Lines, expand_policy, make_lines
from games.poker.lines.rounding import round_up, shape_of, share_shapes

__all__ = [
  "Follower", "LineMap", "Lines", "expand_policy", "make_lines", "round_up", "shape_of",
  "share_shapes",
]  # fmt: skip
