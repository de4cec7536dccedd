"""What games of perfect information have in common: one infostate a player, and no chance."""

import abc

import jax
import jax.numpy as jnp
import numpy as np

from games.public_tree import Array


class PerfectInformation(abc.ABC):
  """A `DeviceGame` in which both players see everything.

  A subclass says the rules; beliefs are one, and a value is a payoff times the other's reach. Two
  of the same representation are equal, so that what was compiled for one serves the other.
  """

  name: str
  num_infostates = 1
  num_actions: int
  num_hidden = 1
  deals = False
  largest_payoff = 1.0
  max_moves: int

  @property
  def num_children(self) -> int:
    return self.num_actions

  @abc.abstractmethod
  def initial_state(self) -> Array: ...

  @abc.abstractmethod
  def actor(self, state: jax.Array) -> jax.Array: ...

  @abc.abstractmethod
  def legal_actions(self, state: jax.Array) -> jax.Array: ...

  @abc.abstractmethod
  def next_state(self, state: jax.Array, action: jax.Array) -> jax.Array: ...

  @abc.abstractmethod
  def payoff(self, state: jax.Array) -> jax.Array:
    """Returns what player 0 wins in a terminal state: a scalar."""

  @abc.abstractmethod
  def features(self, state: jax.Array, player: int) -> jax.Array: ...

  def prior(self) -> np.ndarray:
    return np.ones((2, 1))

  def chance(self, state: jax.Array) -> jax.Array:
    del state
    return jnp.zeros(self.num_actions)

  def possible_after(self, state: jax.Array, action: jax.Array, possible: jax.Array) -> jax.Array:
    del state, action
    return possible

  def hidden_moves(self, state: jax.Array) -> None:
    del state

  def compatible_mass(self, state: jax.Array, reach: jax.Array, player: int) -> jax.Array:
    del state, player
    return reach

  def terminal_values(self, state: jax.Array, reach: jax.Array, player: int) -> jax.Array:
    won = self.payoff(state).astype(reach.dtype)
    return reach * (won if player == 0 else -won)

  def __eq__(self, other: object) -> bool:
    return type(self) is type(other) and repr(self) == repr(other)

  def __hash__(self) -> int:
    return hash((type(self), repr(self)))


def has_line(board: jax.Array, lines: np.ndarray, stone: int) -> jax.Array:
  """Says whether `board` `[n]` has only `stone` on one of `lines` `[m, k]` of its points."""
  return (jnp.asarray(board)[lines.astype(np.int32)] == stone).all(axis=1).any()


def planes(board: jax.Array, player: int) -> jax.Array:
  """Returns where `player`'s stones are (0's are 1, 1's are 2), then the other's: `[2 * n]`."""
  return jnp.concatenate([board == player + 1, board == 2 - player]).astype(float)
