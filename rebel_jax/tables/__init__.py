"""Two-player no-limit hold'em against other programs, in chips and cards."""
