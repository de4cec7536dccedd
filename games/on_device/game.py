"""What rules must answer about one public state for a search to make its tree on the device.

A `Game` answers for batches, and its tree is built beforehand. Where no tree of the whole game can
be, a search asks these rules about the states that it comes to, from inside its compiled loop.
"""

from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np

from games.public_tree import Array


@runtime_checkable
class DeviceGame(Protocol):
  """A two-player zero-sum game as functions of one public state, on JAX's arrays.

  Every function can be traced; callers map them over states by `jax.vmap`. A public state is an
  array `[S]` of integers. Players are 0 and 1, and payoffs are in the game's own units.

  Letters: `S` integers a state, `A` actions, `H` infostates of a player (the larger of the two),
  `M` hidden moves of an infostate, `F` features, `P = 2` players.

  Rules may also have `longest_wait`, how many public actions there are at most from one decision of
  a player to its next, `words`, the `games.game.Words` that people at a table read, and
  `orders_infostates`, as `games.Game` has it.

  Attributes:
    name: the game's.
    num_infostates: H.
    num_actions: A; players' public actions and chance outcomes share the numbering.
    num_hidden: M; 1 where all moves are seen, and then nobody asks for `hidden_moves`.
    deals: whether chance ever moves.
    largest_payoff: the most that a player can win.
    max_moves: public actions, chance outcomes included, in the longest game.
  """

  name: str
  num_infostates: int
  num_actions: int
  num_hidden: int
  deals: bool
  largest_payoff: float
  max_moves: int

  @property
  def num_children(self) -> int:
    """The most public actions that are legal in one state."""
    ...

  # Public states.

  def initial_state(self) -> Array:
    """Returns the public state before the first public action: `[S]`."""
    ...

  def actor(self, state: jax.Array) -> jax.Array:
    """Returns who moves: 0, 1, `CHANCE` or `TERMINAL`."""
    ...

  def legal_actions(self, state: jax.Array) -> jax.Array:
    """Returns which public actions exist: `[A]` bool; meaningless where the game is over."""
    ...

  def next_state(self, state: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the public state after an action: `[S]`; any state where it is not legal."""
    ...

  # Private information.

  def prior(self) -> np.ndarray:
    """Returns beliefs before the first public action, `[P, H]`, rows sum to one."""
    ...

  def chance(self, state: jax.Array) -> jax.Array:
    """Returns how likely chance takes each action where both infostates allow it: `[A]`."""
    ...

  def possible_after(self, state: jax.Array, action: jax.Array, possible: jax.Array) -> jax.Array:
    """Returns which infostates the rules allow after an action: `[P, H]` bool, as `possible`."""
    ...

  def hidden_moves(self, state: jax.Array) -> tuple[jax.Array, jax.Array] | None:
    """Returns what the mover can do unseen, or None where all moves are seen.

    Two arrays `[H, M]`: the infostate that move m leads to from infostate h, -1 where there is no
    such move, and the public action that the other player sees. Several infostates may lead to one.
    """
    ...

  def compatible_mass(self, state: jax.Array, reach: jax.Array, player: int) -> jax.Array:
    """Returns the mass of the opponent's `reach` that `player`'s infostates may meet: `[H]`."""
    ...

  def terminal_values(self, state: jax.Array, reach: jax.Array, player: int) -> jax.Array:
    """Returns `player`'s counterfactual values `[H]` at a terminal state, linear in `reach` `[H]`.

    `reach` is the opponent's, beliefs and chance included. So a fold, a showdown or a win each say
    it in their own way, and no table of pairs is needed.
    """
    ...

  # What a network sees.

  def features(self, state: jax.Array, player: int) -> jax.Array:
    """Returns the public state as `player` sees it: `[F]`, float."""
    ...


def check_device_game(game: Any) -> None:
  """Checks that `game` has what a `DeviceGame` has.

  Raises:
    TypeError: it lacks something.
  """
  if isinstance(game, type) or not isinstance(game, DeviceGame):
    raise TypeError(
      f"game={game!r} must be rules on JAX's arrays (games.DeviceGame), such as games.TicTacToe() "
      "or games.table_game(game)"
    )
