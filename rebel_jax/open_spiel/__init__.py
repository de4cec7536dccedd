"""The bridge to OpenSpiel, both ways; needs the extra `rebel-jax[open-spiel]`.

`to_tabular_policy` hands a policy of ours to OpenSpiel, whose own exploitability can then judge
it, and `from_tabular_policy` takes one of OpenSpiel's. `from_game` turns a two-player zero-sum
OpenSpiel game into a `games.Game` and its public tree, for every solver here.
"""

try:
  import pyspiel as _pyspiel  # noqa: F401
except ImportError as error:
  raise ImportError(
    "rebel_jax.open_spiel needs OpenSpiel: pip install 'rebel-jax[open-spiel]'"
  ) from error

from rebel_jax.open_spiel.factored_game import OpenSpielGame, from_game
from rebel_jax.open_spiel.policies import (
  from_tabular_policy,
  load_game,
  register_open_spiel,
  to_tabular_policy,
)

__all__ = [
  "OpenSpielGame",
  "from_game",
  "from_tabular_policy",
  "load_game",
  "register_open_spiel",
  "to_tabular_policy",
]
