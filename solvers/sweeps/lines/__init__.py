"""Sweeps over lines of betting: rows are lines, columns boards and hands, a list for each player."""
