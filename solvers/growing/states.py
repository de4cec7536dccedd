"""Questions to a value-and-policy network about public belief states, and its answers."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class StateQuery(NamedTuple):
  """A question about `R` public belief states, each from the seat of whom moves there.

  Where chance moves it is player 0's.

  Attributes:
    features: `[R, F]` the public states as the mover sees them; None with `encoded`.
    beliefs: `[R, P, H]` the mover's first; rows sum to one.
    encoded: None, or rows of the function's own `encode` of the features.
  """

  features: jax.Array | None  # [R, F]
  beliefs: jax.Array  # [R, P, H]
  encoded: Any = None


class StateAnswer(NamedTuple):
  """What a network thinks of `R` public belief states (Player of Games, section 3.1).

  Attributes:
    values: `[R, P, H]` expected payoffs of both players' infostates, the mover's first.
    logits: `[R, A, H]` of the mover's policy: for each public action, and the infostate that it
      leads the mover to. Moves from one infostate share a softmax.
  """

  values: jax.Array  # [R, P, H]
  logits: jax.Array  # [R, A, H]


# (params, query) -> answer
StateFunction = Callable[[Any, StateQuery], StateAnswer]
