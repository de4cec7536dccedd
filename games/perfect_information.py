"""Games of perfect information, by rules of one public state on JAX's arrays."""

import abc
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.game import NamedInFull
from games.public_tree import PLAYER_0, PLAYER_1, TERMINAL, Array

_FEW, _MANY = 16, 512  # rows of numpy's that are asked about at once: few programs are compiled
_MARKS = np.array([".", "X", "O"])  # nothing, player 0's stone and player 1's
_LETTERS = "abcdefghjklmnopqrstuvwxyz"  # no i, which looks like a one or an l


class PerfectInformation(NamedInFull):
  """A game in which both players see everything and chance has no part.

  A subclass says the rules of one public state `[S]`, in functions that JAX can trace: `turn`,
  `legal`, `after`, `outcome` and `seen`. Methods of states map them over rows.
  """

  num_infostates = 1
  written = False
  largest_payoff = 1.0
  max_moves: int

  @abc.abstractmethod
  def turn(self, state: jax.Array) -> Any:
    """Returns who moves: 0, 1 or `TERMINAL`."""

  @abc.abstractmethod
  def legal(self, state: jax.Array) -> jax.Array:
    """Returns which actions exist: `[A]` bool; meaningless where the game is over."""

  @abc.abstractmethod
  def after(self, state: jax.Array, action: jax.Array) -> jax.Array:
    """Returns the state after an action: `[S]`; any state where it is not legal."""

  @abc.abstractmethod
  def outcome(self, state: jax.Array) -> Any:
    """Returns the payoff of player 0 in a terminal state: a scalar."""

  @abc.abstractmethod
  def seen(self, state: jax.Array, player: int) -> jax.Array:
    """Returns the state as `player` sees it: `[F]`."""

  def actor(self, states):
    return _of_each(self, "turn", states)

  def legal_actions(self, states):
    return _of_each(self, "legal", states)

  def next_states(self, states, actions):
    return _of_each(self, "after", states, actions).astype(states.dtype)

  def payoff_scale(self, states):
    return _of_each(self, "outcome", states).astype(float)

  def features(self, states, player):
    return _of_each(self, "seen", states, player=player).astype(float)


@functools.partial(jax.jit, static_argnames=("game", "rule", "player"), inline=True)
def _mapped(game: PerfectInformation, rule: str, *rows: Any, **player: int) -> jax.Array:
  return jax.vmap(functools.partial(getattr(game, rule), **player))(*rows)


def _of_each(game: PerfectInformation, rule: str, *rows: Any, **player: int) -> Any:
  """Returns a rule's answers for `rows` `[n, ...]`, in arrays of their kind."""
  if not isinstance(rows[0], np.ndarray):
    return _mapped(game, rule, *rows, **player)
  number, start, found = len(rows[0]), 0, []
  while start < max(number, 1):
    block = 1 if number == 1 else _FEW if number - start < _MANY else _MANY
    some = (np.resize(x[start : start + block], (block, *x.shape[1:])) for x in rows)
    found.append(np.asarray(_mapped(game, rule, *some, **player)))
    start += block
  return np.concatenate(found)[:number]


class Stones(PerfectInformation):
  """A game of stones on a board of squares, and its readable words.

  A public state begins with the board, row by row from above: 0 for none, 1 for player 0's stone
  and 2 for player 1's.
  """

  columns: Sequence[str]  # names, from the left
  rows: Sequence[str]  # names, from above
  places: Sequence[str]  # names of all actions

  def board(self, state: Array) -> Array:
    """Returns the stones as they lie: `[rows, columns]`."""
    size = len(self.rows), len(self.columns)
    return state[: size[0] * size[1]].reshape(size)

  def action_name(self, action: int) -> str:
    return self.places[action]

  def situation(self, history: Sequence[int]) -> str:
    side, wide = (max(map(len, names)) for names in (self.rows, self.columns))
    lines = [
      " ".join([name.rjust(side), *(mark.rjust(wide) for mark in marks)])
      for name, marks in zip(self.rows, _MARKS[self.board(self.state_after(history))])
    ]
    below = " ".join([" " * side, *(name.rjust(wide) for name in self.columns)])
    return "\n  ".join([*lines, below])


class InLine(Stones):
  """Stones of which a line of one player's wins a point; a public state is the board alone."""

  lines: np.ndarray  # [m, k] the places of each line

  def initial_state(self):
    return np.zeros(self.max_moves, np.int32)

  def turn(self, state):
    stones = (state > 0).sum()
    over = self.won(state).any() | (stones == self.max_moves)
    return jnp.where(over, TERMINAL, jnp.where(stones % 2 == 0, PLAYER_0, PLAYER_1))

  def won(self, state: jax.Array) -> jax.Array:
    """Says which players have a line: `[P]`."""
    marks = jnp.asarray(state)[self.lines]
    return jnp.stack([(marks == stone).all(axis=1).any() for stone in (1, 2)])

  def outcome(self, state):
    first, second = self.won(state).astype(int)
    return first - second

  def seen(self, state, player):
    return planes(state, player)

  def put(self, state: jax.Array, place: Any) -> jax.Array:
    """Returns the board with a stone of the player to move at a place: `[n]`."""
    return state.at[place].set(((state > 0).sum() % 2 + 1).astype(state.dtype))


def by_letters(size: int) -> tuple[list[str], list[str], list[str]]:
  """Returns names of a square board's columns, rows from above, and places, such as `b2`."""
  columns = list(_LETTERS[:size])
  rows = [str(number) for number in range(size, 0, -1)]
  return columns, rows, [column + row for row in rows for column in columns]


def lines_of(width: int, height: int, length: int) -> np.ndarray:
  """Returns the places of every line of `length` on the board: `[m, length]`."""
  ways, places = ((0, 1), (1, 0), (1, 1), (1, -1)), itertools.product(range(height), range(width))
  way, place = np.array(list(itertools.product(ways, places))).swapaxes(0, 1)[..., None]
  row, column = (place + way * np.arange(length)).swapaxes(0, 1)
  fits = (row[:, -1] < height) & (column[:, -1] >= 0) & (column[:, -1] < width)
  return (row * width + column)[fits].astype(np.int32)


def planes(board: jax.Array, player: int) -> jax.Array:
  """Returns masks of `player`'s stones (0's are 1, 1's are 2), then of the other's: `[2 * n]`."""
  return jnp.concatenate([board == player + 1, board == 2 - player]).astype(float)
