"""Gadgets of safe subgame solving: what the opponent may have instead of the subgame."""
