"""Poker notation: ranges of hands and bet sizes as strings."""
