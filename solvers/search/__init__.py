"""Depth-limited search: subgames, batches of searches, and the play that they lead to."""
