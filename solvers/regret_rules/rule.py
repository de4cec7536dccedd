"""What a regret rule is."""

from typing import Any, Protocol

import jax


class RegretRule(Protocol):
  """A regret minimiser as a pair of pure functions, elementwise over edges `[n, H]`.

  Implementations are frozen dataclasses: equal settings are equal rules, so a jitted solver
  is compiled once for them.
  """

  def init(self, zeros: jax.Array) -> Any:
    """Returns the state before the first update; `zeros` gives shape and dtype."""
    ...

  def update(self, state: Any, regret: jax.Array, k: jax.Array) -> tuple[Any, jax.Array]:
    """Takes in a player's k-th instantaneous regrets (k = 1, 2, ...).

    Returns:
      The new state and the regrets whose positive parts the next policy is proportional to.
    """
    ...
