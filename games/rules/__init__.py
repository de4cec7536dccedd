"""Rules of games, one a file; those of hold'em are in `games.poker`."""
