"""A game's public states level by level, from a first one on."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from games.public_tree import TERMINAL


class Depth(NamedTuple):
  """Public states after as many actions, and the moves from them.

  Attributes:
    first: the number of the first state; those of earlier levels come before.
    states: `[n, S]`.
    kind: `[n]` who moves, or `TERMINAL`.
    parent: `[m]` the place in `states` that each move is made from.
    action: `[m]` the move.
    child: `[m]` the number of the state that it leads to.
    after: `[m, S]` that state.
  """

  first: int
  states: np.ndarray
  kind: np.ndarray
  parent: np.ndarray
  action: np.ndarray
  child: np.ndarray
  after: np.ndarray


def walk(
  game: Any,
  state: np.ndarray,
  *,
  merge: str = "",
  goes_on: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Iterator[Depth]:
  """Yields the levels below a public state, itself the first.

  Args:
    game: the rules.
    state: `[S]`.
    merge: `"level"` for equal states of a level as one, whose numbers then begin at zero in each
      level; `"game"` for equal states as one wherever they are; else each history has its own.
    goes_on: says below which of `[n, S]` states, not terminal, there are more; None for all.
  """
  newest, first = np.asarray(state)[None], 0
  seen = {newest[0].tobytes(): 0}
  while len(newest):
    kind = np.asarray(game.actor(newest))
    places = np.flatnonzero(kind != TERMINAL)
    if goes_on is not None:
      places = places[goes_on(newest[places])]
    parent, action = np.nonzero(game.legal_actions(newest[places]))
    parent = places[parent]
    after = np.asarray(game.next_states(newest[parent], action), newest.dtype)
    last = first + len(newest)
    if merge == "level":
      seen, last = {}, 0
    child, following = last + np.arange(len(after)), after
    if merge:
      keys = [row.tobytes() for row in after]
      child = np.array([seen.setdefault(key, len(seen)) for key in keys], int)
      numbers, rows = np.unique(child, return_index=True)
      following = after[rows[numbers >= last]]
    yield Depth(first, newest, kind, parent, action, child, after)
    newest, first = following, last
