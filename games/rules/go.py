"""Go on small boards."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.arrays import Positive, checked, short
from games.game import register
from games.perfect_information import Stones, by_letters, planes
from games.public_tree import TERMINAL

BOARDS = 8  # kept: no move may bring one of them back
_TO_MOVE, _PASSES, _MOVES = -3, -2, -1
BLACK, WHITE = 1, 2


class Go(Stones):
  """Go: area scoring, no suicide, and no move that repeats one of the last eight boards.

  Black is player 0. Action p places a stone on point p, row by row, and the last action passes. Two
  passes in a row, or `max_moves` moves, end the game; the larger area wins one point, White's with
  `komi` added, and equal ones split.

  A public state is the last eight boards, the newest first (0 empty, 1 black, 2 white), who moves,
  how many passes there were just now, and how many moves in all. Features are, for each board, the
  stones of who looks and then the other's; then whether that is Black, and whether the last move
  was a pass.

  Raises:
    ValueError: `size` is not an integer from 2 to 19, `komi` more than the board's points, or
      `max_moves` not positive.
  """

  name = "go"

  @checked
  def __init__(
    self,
    size: Annotated[int, (2, 19)] = 5,
    komi: float = 7.5,
    max_moves: Positive | None = None,
  ):
    if abs(komi) > size**2:
      raise ValueError(f"komi={short(komi)} must be a number, at most the points of the board")
    self.size, self.komi = int(size), komi
    self.max_moves = int(2 * size**2 if max_moves is None else max_moves)
    self.num_points = size**2
    self.num_actions = self.num_points + 1
    self._next_to = _next_to(size)
    self.columns, self.rows, points = by_letters(size)
    self.places = [*points, "pass"]
    self.text = (
      "Stones that have no free point next to their group are taken; X is black and begins. After "
      "two passes the larger area wins,\nof stones and of points that they alone surround; White "
      f"has {komi:g} points more. A point is named by its column and its row, such as a1."
    )

  def initial_state(self):
    return np.zeros(BOARDS * self.num_points + 3, np.int32)

  def turn(self, state):
    over = (state[_PASSES] >= 2) | (state[_MOVES] >= self.max_moves)
    return jnp.where(over, TERMINAL, state[_TO_MOVE])

  def legal(self, state):
    boards = self._boards(state)
    after, free = self._placed(boards[0], state[_TO_MOVE] + 1)
    seen = (after[:, None] == boards[None]).all(axis=2).any(axis=1)
    return jnp.append(free & ~seen, True)

  def after(self, state, action):
    boards = self._boards(state)
    after, _ = self._placed(boards[0], state[_TO_MOVE] + 1)
    passes = action == self.num_points
    board = jnp.where(passes, boards[0], after[jnp.minimum(action, self.num_points - 1)])
    counts = jnp.stack(
      [1 - state[_TO_MOVE], jnp.where(passes, state[_PASSES] + 1, 0), state[_MOVES] + 1]
    )
    return jnp.concatenate([board, boards[:-1].reshape(-1), counts]).astype(state.dtype)

  def area(self, state: jax.Array) -> jax.Array:
    """Returns how many points each player's stones are on or alone surround: `[P]`."""
    board = self._boards(state)[0]
    label = self._groups(board)
    member = label[None] == jnp.arange(self.num_points)[:, None]  # [group, point]
    stones = jnp.stack([board == BLACK, board == WHITE])  # [P, point]
    near = jnp.any(self._next_to[None] & stones[:, None], axis=2)
    touched = jnp.any(member[None] & near[:, None], axis=2)  # [P, group]
    own = stones | ((board == 0)[None] & touched[:, label])
    return (own & ~own[::-1]).sum(axis=1)

  def outcome(self, state):
    area = self.area(state)
    return jnp.sign((area[0] - area[1]).astype(float) - self.komi)

  def seen(self, state, player):
    boards = [planes(board, player) for board in self._boards(state)]
    black = jnp.full(1, 1.0 if player == 0 else 0.0)
    passed = (state[_PASSES, None] > 0).astype(float)
    return jnp.concatenate([*(x.astype(float) for x in boards), black, passed])

  def _boards(self, state: jax.Array) -> jax.Array:
    return state[:_TO_MOVE].reshape(BOARDS, self.num_points)

  def _groups(self, board: jax.Array) -> jax.Array:
    """Returns the lowest point of each point's group, stones or empty: `[n]`."""
    alike = self._next_to & (board[:, None] == board[None])

    def spread(loop):
      label, _ = loop
      near = jnp.where(alike, label[None], self.num_points).min(axis=1)
      new = jnp.minimum(label, near)
      new = new[new]  # so that long chains take few rounds
      return new, (new != label).any()

    return lax.while_loop(lambda loop: loop[1], spread, (jnp.arange(self.num_points), True))[0]

  def _placed(self, board: jax.Array, stone: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the board after a stone on each point, `[n, n]`, and where it may be put, `[n]`."""
    points = jnp.arange(self.num_points)
    label = self._groups(board)
    member = (label[None] == points[:, None]).astype(jnp.float32)
    empty = jnp.equal(board, 0)
    near = (self._next_to & empty[None]).astype(jnp.float32)
    liberty = jnp.matmul(member, near, precision=lax.Precision.HIGHEST) > 0  # [group, point]
    last = liberty.sum(axis=1) == 1
    other = board == 3 - stone
    # A group of the other's is taken by a stone on its last liberty.
    taken = (other & last[label])[None] & liberty[label].T  # [stone's point, point]
    safe = (board == stone) & ~last[label]
    breathes = (self._next_to & (empty | safe)[None]).any(axis=1) | taken.any(axis=1)
    after = jnp.where(taken, 0, board)
    after = jnp.where(jnp.eye(self.num_points, dtype=bool), stone, after)
    return after, empty & breathes

  def __repr__(self):
    return f"games.Go(size={self.size}, komi={self.komi}, max_moves={self.max_moves})"


def _next_to(size: int) -> np.ndarray:
  """Returns which points are neighbours: `[n, n]` bool."""
  row, column = np.divmod(np.arange(size**2), size)
  distance = np.abs(row[:, None] - row) + np.abs(column[:, None] - column)
  return distance == 1


register("go", Go)
