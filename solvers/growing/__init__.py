"""Growing-tree CFR: searches that add to a tree what is worth looking at (Player of Games)."""
