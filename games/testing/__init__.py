"""The test that every game must pass: its rules and trees against all of its histories."""

from games.testing.histories import enumerate_histories
from games.testing.rules import check_game, check_public_tree, check_rules

__all__ = ["check_game", "check_public_tree", "check_rules", "enumerate_histories"]
