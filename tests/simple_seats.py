"""Simple opponents at tables in chips, by short names."""

import functools

from rebel_jax.tables.players import SimpleSeat

AlwaysCall, AlwaysFold, EquityThreshold, PotManiac, Uniform = (
  functools.partial(SimpleSeat, name)
  for name in ("always_call", "always_fold", "equity_threshold", "pot_maniac", "uniform")
)
