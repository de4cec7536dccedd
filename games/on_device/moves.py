"""What the mover of a public state can do, seen or not, in one form for all games on the device."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from games.on_device.game import DeviceGame


class DeviceMoves(NamedTuple):
  """The moves of a state's mover, by infostate: `[M, H]` each, -1 where there is no such move.

  Attributes:
    leads_to: the infostate that the mover holds afterwards.
    action: the public action that the other player sees.
  """

  leads_to: jax.Array
  action: jax.Array


def num_moves(game: DeviceGame) -> int:
  """Returns M: hidden moves where there are some, else public actions.

  Rules may say as `num_player_actions` that the players' are the first ones.
  """
  if game.num_hidden > 1:
    return game.num_hidden
  return getattr(game, "num_player_actions", game.num_actions)


def moves_of(game: DeviceGame, state: jax.Array, possible: jax.Array) -> DeviceMoves:
  """Returns what the mover can do at `state` `[S]`; meaningless where nobody moves.

  Where all moves are seen, move m is public action m and leaves the infostate as it was.

  Args:
    game: the rules.
    state: a public state.
    possible: `[P, H]` bool, which infostates the rules allow there.
  """
  held = jnp.arange(game.num_infostates)
  player = jnp.clip(game.actor(state), 0, 1)
  found = game.hidden_moves(state) if game.num_hidden > 1 else None
  if found is not None:
    leads_to, action = (jnp.asarray(x).T for x in found)
    there = (leads_to >= 0) & possible[player][None]
  else:
    actions = jnp.arange(num_moves(game))
    after = jax.vmap(game.possible_after, (None, 0, None))(state, actions, possible)
    there = game.legal_actions(state)[: len(actions), None] & after[:, player]
    leads_to = jnp.broadcast_to(held, there.shape)
    action = jnp.broadcast_to(actions[:, None], there.shape)
  return DeviceMoves(jnp.where(there, leads_to, -1), jnp.where(there, action, -1))
