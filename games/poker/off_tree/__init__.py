"""Bets that a tree does not hold: what they are taken for, and which are missed most."""
