"""Equilibrium-finding algorithms as pure functions of a problem and a state."""
