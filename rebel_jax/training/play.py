"""The protocol of self-play: what the training loop asks of ReBeL's and of Player of Games'."""

from typing import Any, Protocol

import jax

from rebel_jax.training.self_play import Played
from solvers.xla.compiler_options import Work


class Play(Protocol):
  """Settings of self-play on one device; static, and compared by value."""

  def init(self, table: Any, key: jax.Array) -> Any:
    """Returns lanes that all begin a game, in what `table` holds of it."""
    ...

  def step(self, table: Any, lanes: Any, params: dict[str, Any], key: jax.Array) -> Played:
    """Searches once in every lane, and goes on."""
    ...

  def work(self, table: Any) -> Work:
    """Returns what a step spends its time on, on a CPU."""
    ...
