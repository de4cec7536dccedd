"""Sweeps over lines of betting in rows, boards and each player's hands in columns."""
