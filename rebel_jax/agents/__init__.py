"""Agents that search and play, matches between them, and pictures of their hands."""
