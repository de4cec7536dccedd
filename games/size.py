"""Size of a public tree, counted before it is built."""

import itertools
from typing import Any

import jax
import numpy as np

from games.game import Game
from games.walk import walk

MAX_BYTES = 2**32
_MAX_DEPTH = 10_000  # levels; programs of so many are never compiled
_MAX_EDGES = 2**18  # that are looked at to tell how much too large a tree is
_TABLE_BYTES = 2**31  # of a level's legal actions, whatever a tree may take
_COLUMNS = 6  # numbers of a node, such as its parent, beside its public state


def check_max_bytes(max_bytes) -> int:
  """Returns `max_bytes` if it is a positive number of bytes."""
  number = isinstance(max_bytes, int | float | np.number) and not isinstance(max_bytes, bool)
  if not number or not max_bytes >= 1:
    raise ValueError(f"max_bytes={max_bytes!r} must be a positive number of bytes")
  return max_bytes


def check_size(
  game: Game,
  state: np.ndarray,
  depth: int | None = None,
  stage: int | None = None,
  *,
  max_bytes: float = MAX_BYTES,
) -> None:
  """Counts what a public tree would take, level by level, and refuses what is too much.

  Equal public states of a level have the same future, so each is followed once.

  Args:
    game: the rules.
    state: `[S]` public state of the root.
    depth: after how many public actions the tree is cut off; None for never.
    stage: nodes of other stages have no children; None if stages do not matter.
    max_bytes: of the nodes, each with a row of `[N, H]` and what building needs.

  Raises:
    ValueError: the tree would take more, or has no end.
  """

  def goes_on(states: np.ndarray) -> np.ndarray:
    here = np.ones(len(states), bool) if stage is None else game.stages(states) == stage
    table = here.sum() * game.num_actions * np.dtype(int).itemsize
    if table > max(max_bytes, _TABLE_BYTES):
      raise ValueError(
        f"game={game!r} has {game.num_actions} actions, too many to list at {here.sum()} nodes; "
        f"they take {table} bytes, and {max_bytes:.12g} are allowed (max_bytes, in code)"
      )
    return here

  times: Any = np.ones(1)
  nodes, width, edges, counted = 1.0, 0, 0, True
  levels = walk(game, state, merge="level", goes_on=goes_on)
  most = _MAX_DEPTH + 1 if depth is None else min(depth, _MAX_DEPTH + 1)
  for number, level in enumerate(itertools.islice(levels, most)):
    if not len(level.action):
      break
    if number == _MAX_DEPTH:
      raise ValueError(
        f"game={game!r} has not ended after {_MAX_DEPTH} public actions; a tree needs a depth"
      )
    width = width or _node_bytes(game, level.states[level.parent[:1]], level.action[:1])
    each = times[level.parent]
    nodes, edges, times = nodes + each.sum(), edges + len(each), np.bincount(level.child, each)
    if nodes * width > max_bytes and (edges > _MAX_EDGES or nodes > 1e300):
      counted = False
      break
  if not counted or nodes * width > max_bytes:
    raise ValueError(
      f"game={game!r} has a public tree of {'' if counted else 'more than '}{nodes:.12g} nodes, "
      f"or {nodes * width:.3g} bytes, and {max_bytes:.12g} are allowed: take a smaller game, "
      "cut its tree off at a depth, or raise max_bytes in code"
    )


def _node_bytes(game: Game, states: np.ndarray, actions: np.ndarray) -> int:
  """Returns the bytes of a node: its numbers, a row of `[N, H]`, what is possible there."""
  h, number = game.num_infostates, np.dtype(int).itemsize
  size = number * (states.shape[1] + _COLUMNS) + 2 * h
  size += h * jax.dtypes.canonicalize_dtype(float).itemsize
  changes = game.infostate_parents(states, actions) is not None
  return size + 2 * h * number * changes
