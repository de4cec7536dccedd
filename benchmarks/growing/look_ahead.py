"""Values of games of perfect information by full-width search, as alpha-beta finds them."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from games import TERMINAL, Game
from solvers import validation
from solvers.metrics.histories import check_perfect, payoff_of

_SOONER = 0.99  # what an end is worth a ply later, so that wins come soon and losses late


def look_ahead(game: Game, depth: int) -> Callable[[np.ndarray], np.ndarray]:
  """Returns values `[...]` to player 0 of states `[..., S]`, if both look `depth` plies ahead."""
  # What is neither won nor lost in as many plies counts 0. Alpha-beta has the same values by
  # looking at fewer states; these are looked at side by side, `num_actions ** depth` for each.
  check_perfect(game)
  plies = validation.check_integer("depth", depth, least=0)
  actions = jnp.arange(game.num_actions)

  def value(state: jax.Array) -> jax.Array:
    levels = [state[None]]
    for _ in range(plies):
      above = jnp.repeat(levels[-1], len(actions), axis=0)
      levels.append(game.next_states(above, jnp.tile(actions, len(levels[-1]))))
    found = jnp.zeros(len(levels[-1]))
    for states in reversed(levels):
      actor = game.actor(states)
      if states is not levels[-1]:
        below = _SOONER * found.reshape(len(states), -1)
        legal = game.legal_actions(states)
        best = jnp.where(legal, below, -jnp.inf).max(axis=1)
        least = jnp.where(legal, below, jnp.inf).min(axis=1)
        found = jnp.where(actor == 0, best, least)
      found = jnp.where(actor == TERMINAL, payoff_of(game, states), found)
    return found[0]

  every = jax.jit(lambda states: jax.lax.map(value, states))

  def values(states: np.ndarray) -> np.ndarray:
    rows = np.asarray(states)
    return np.asarray(every(rows.reshape(-1, rows.shape[-1])), float).reshape(rows.shape[:-1])

  return values
