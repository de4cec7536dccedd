"""Exact values of small games of perfect information, by enumeration of their states."""

from typing import Any, NamedTuple

import numpy as np

from games.game import TERMINAL, Game, check_is_game
from games.walk import walk
from solvers import validation


class Minimax(NamedTuple):
  """What every state that play can reach is worth.

  Attributes:
    states: `[n, S]` public states, the first the game's own; a move leads to a later one.
    values: `[n]` what player 0 gets if both play without mistake.
    place: the place of a state, by its bytes as `np.int64`.
  """

  states: np.ndarray
  values: np.ndarray
  place: dict[bytes, int]

  def value_of(self, states: np.ndarray) -> np.ndarray:
    """Returns the values of `states` `[..., S]`; NaN for those that play does not reach."""
    rows = np.asarray(states, np.int64)
    flat = rows.reshape(-1, rows.shape[-1])
    found = [self.values[self.place[x]] if x in self.place else np.nan for x in map(_key, flat)]
    return np.array(found).reshape(rows.shape[:-1])


def minimax(game: Game, *, max_states: int = 1_000_000) -> Minimax:
  """Returns exact values of all states of a game of perfect information.

  Args:
    game: the rules, with one infostate a player and no chance.
    max_states: how many states are too many.

  Raises:
    TypeError: `game` is something else.
    ValueError: the game has chance, private information or more states.
  """
  check_perfect(game)
  most = validation.check_integer("max_states", max_states)
  levels = []
  for level in walk(game, game.initial_state(), merge="game"):
    if level.child.max(initial=0) >= most:
      raise ValueError(f"{game.name} has more than max_states={most} states")
    levels.append(level)
  states = np.concatenate([level.states for level in levels])
  values = np.zeros(len(states))
  for first, rows, kind, parent, _, child, _ in reversed(levels):
    best, least = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
    np.maximum.at(best, parent, values[child])
    np.minimum.at(least, parent, values[child])
    won = np.where(kind == 0, best, least)
    over = kind == TERMINAL
    won[over] = payoff_of(game, rows[over])
    values[first : first + len(rows)] = won
  return Minimax(states, values, {_key(state): i for i, state in enumerate(states)})


def check_perfect(game: Game) -> None:
  """Checks that a game is of perfect information and without chance.

  Raises:
    TypeError: `game` is no game.
    ValueError: the game has chance or private information.
  """
  check_is_game(game)
  if game.num_infostates > 1 or game.has_chance:
    raise ValueError(f"{game.name} is not of perfect information, or has chance")


def payoff_of(game: Game, states: Any) -> Any:
  """Returns the payoff of player 0 in terminal public states: `[n, S]` to `[n]`."""
  xp = states.__array_namespace__()
  return game.terminal_values(states, xp.ones((len(states), 1)), 0)[:, 0]


def _key(state: np.ndarray) -> bytes:
  return np.asarray(state, np.int64).tobytes()
