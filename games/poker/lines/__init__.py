"""Hold'em as lines of betting, with the boards and hands of each round in columns."""

from games.poker.lines.expansion import Follower, expand_policy
from games.poker.lines.lines import LineMap, Lines, make_lines

__all__ = ["Follower", "LineMap", "Lines", "expand_policy", "make_lines"]
