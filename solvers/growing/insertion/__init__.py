"""Growing-tree CFR on trees that a game's own rules make."""
