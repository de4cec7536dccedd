"""Solving parts of a game anew, and putting the solutions into a policy of the whole."""
