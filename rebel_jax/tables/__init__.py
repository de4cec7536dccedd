"""Two-player no-limit hold'em against other people's programs, in chips and cards."""
