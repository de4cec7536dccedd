"""Continual re-solving: searches that start from what the last one left, many side by side."""
