"""Checkpoints of runs, and the networks that come with the package."""
