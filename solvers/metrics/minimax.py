"""Exact values of small games of perfect information, by enumeration of their states."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import TERMINAL
from games.on_device.game import DeviceGame, check_device_game
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


def minimax(game: DeviceGame, *, max_states: int = 1_000_000) -> Minimax:
  """Returns exact values of all states of a game of perfect information.

  Args:
    game: rules on JAX's arrays, with one infostate a player and no chance.
    max_states: how many states are too many.

  Raises:
    TypeError: `game` is something else.
    ValueError: the game has chance, private information or more states.
  """
  check_perfect(game)
  most = validation.check_integer("max_states", max_states)
  actions = jnp.arange(game.num_actions)

  @jax.jit
  @jax.vmap
  def ask(state):
    after = jax.vmap(game.next_state, (None, 0))(state, actions)
    return game.actor(state), game.legal_actions(state), payoff_of(game, state), after

  first = np.asarray(game.initial_state())
  states, place = [first], {_key(first): 0}
  levels: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # actors, payoffs, children
  start = 0
  while start < len(states):
    rows = np.stack(states[start:])
    padded = np.concatenate([rows, np.repeat(rows[-1:], _padding(len(rows)), axis=0)])
    actor, legal, payoff, after = (np.asarray(x)[: len(rows)] for x in ask(padded))
    legal = legal & (actor != TERMINAL)[:, None]
    start = len(states)
    children = np.full(legal.shape, -1)
    for i, action in zip(*np.nonzero(legal)):
      number = place.setdefault(_key(after[i, action]), len(states))
      if number == len(states):
        states.append(after[i, action])
      children[i, action] = number
    if len(states) > most:
      raise ValueError(f"{game.name} has more than max_states={max_states} states")
    levels.append((actor, payoff, children))

  values = np.zeros(len(states))
  stop = len(states)
  for actor, payoff, children in reversed(levels):
    below = values[np.maximum(children, 0)]
    best = np.where(children >= 0, below, -np.inf).max(axis=1)
    least = np.where(children >= 0, below, np.inf).min(axis=1)
    won = np.where(actor == TERMINAL, payoff, np.where(actor == 0, best, least))
    values[stop - len(actor) : stop] = won
    stop -= len(actor)
  return Minimax(np.stack(states), values, place)


def check_perfect(game: DeviceGame) -> None:
  """Checks that a game is of perfect information and without chance.

  Raises:
    TypeError: `game` is not rules on JAX's arrays.
    ValueError: the game has chance or private information.
  """
  check_device_game(game)
  if game.num_infostates > 1 or game.deals:
    raise ValueError(f"{game.name} is not of perfect information, or has chance")


def payoff_of(game: DeviceGame, state: jax.Array) -> jax.Array:
  """Returns what player 0 gets in a public state where the game is over."""
  return game.terminal_values(state, jnp.ones(1), 0)[0]


def _key(state: np.ndarray) -> bytes:
  return np.asarray(state, np.int64).tobytes()


def _padding(number: int) -> int:
  """Returns how many rows fill a level up to a power of two, so that few programs are compiled."""
  return (1 << (number - 1).bit_length()) - number
