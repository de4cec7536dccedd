"""Searches of positions in games of perfect information, where each move is a search of its own."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.on_device.game import DeviceGame
from solvers.growing.insertion.search import gt_cfr_inserted
from solvers.growing.settings import GTCFR
from solvers.growing.states import StateFunction


class FoundPositions(NamedTuple):
  """What searches of `M` positions found.

  Attributes:
    policy: `[M, A]` the mover's average policy, zero where a move is not legal.
    values: `[M]` what player 0 is expected to win.
  """

  policy: jax.Array
  values: jax.Array


def position_key(key: jax.Array, state: jax.Array) -> jax.Array:
  """Returns the key of the search for the move in a position, of an agent whose own is `key`.

  It is another for every public state `[S]`, so that an agent of one key has one policy.
  """
  return lax.scan(lambda key, x: (jax.random.fold_in(key, x), None), key, state)[0]


@functools.partial(jax.jit, static_argnames=("game", "search", "network"))
def search_positions(
  game: DeviceGame,
  states: jax.Array,
  keys: jax.Array,
  *,
  search: GTCFR,
  network: StateFunction | None = None,
  params: Any = None,
) -> FoundPositions:
  """Searches positions side by side, each from nothing.

  Args:
    game: rules with one infostate a player; static.
    states: `[M, S]` public states.
    keys: `[M]` random keys.
    search: settings; static.
    network: values of leaves and priors of moves; None for zero and uniform. Static.
    params: passed on to `network`.
  """

  def one_of(state: jax.Array, key: jax.Array) -> FoundPositions:
    found = gt_cfr_inserted(
      game,
      search=search,
      key=key,
      network=network,
      params=params,
      root_state=state,
      beliefs=jnp.ones((2, 1)),
    )
    policy = jnp.where(game.legal_actions(state), found.policy_at()[:, 0], 0.0)
    return FoundPositions(policy, found.root_values[0, 0])

  return jax.vmap(one_of)(states, keys)
