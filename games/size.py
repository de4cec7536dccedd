"""How large a public tree is, counted before it is built."""

import jax
import numpy as np

from games.game import TERMINAL, Game

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
  states, times = np.asarray(state)[None], np.ones(1)
  nodes, width, level, edges, counted = 1.0, 0, 0, 0, True
  while depth is None or level < depth:
    goes_on = game.actor(states) != TERMINAL
    if stage is not None:
      goes_on &= game.stages(states) == stage
    states, times = states[goes_on], times[goes_on]
    if len(states) == 0:
      break
    if level == _MAX_DEPTH:
      raise ValueError(
        f"game={game!r} has not ended after {_MAX_DEPTH} public actions; a tree needs a depth"
      )
    table = len(states) * game.num_actions * np.dtype(int).itemsize
    if table > max(max_bytes, _TABLE_BYTES):
      raise ValueError(
        f"game={game!r} has {game.num_actions} actions, too many to list at {len(states)} nodes; "
        f"max_bytes={max_bytes:.12g} must be raised to {table}"
      )
    parent, action = np.nonzero(game.legal_actions(states))
    width = width or _node_bytes(game, states[parent[:1]], action[:1])
    nodes, edges, level = nodes + times[parent].sum(), edges + len(parent), level + 1
    if nodes * width > max_bytes and (edges > _MAX_EDGES or nodes > 1e300):
      counted = False
      break
    states, times = _merge(game.next_states(states[parent], action), times[parent])
  if not counted or nodes * width > max_bytes:
    raise ValueError(
      f"game={game!r} has a public tree of {'' if counted else 'more than '}{nodes:.12g} nodes, "
      f"or {nodes * width:.3g} bytes; max_bytes={max_bytes:.12g} must be raised, or the tree cut "
      "off at a depth"
    )


def _node_bytes(game: Game, states: np.ndarray, actions: np.ndarray) -> int:
  """Returns the bytes of a node: its numbers, a row of `[N, H]`, what is possible there."""
  h, number = game.num_infostates, np.dtype(int).itemsize
  size = number * (states.shape[1] + _COLUMNS) + 2 * h
  size += h * jax.dtypes.canonicalize_dtype(float).itemsize
  changes = game.infostate_parents(states, actions) is not None
  return size + 2 * h * number * changes


def _merge(states: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the different `states` `[n, S]` and how often each comes."""
  rows = np.ascontiguousarray(states)
  keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
  _, first, which = np.unique(keys, return_index=True, return_inverse=True)
  return rows[first], np.bincount(which.ravel(), times)
