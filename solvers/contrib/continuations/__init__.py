"""Depth-limited solving with leaves of several values: what each continuation is worth there."""
