"""How poker players write: ranges of hands and bet sizes as strings."""
