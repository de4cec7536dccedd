"""Exploitability of the agent that searches with a trained network."""
