"""Random stacks, pots, bets and boards of each hand of self-play.

ReBeL trains hold'em on random stacks and bet sizes, turn endgame hold'em on random boards too, and
measures it at one spot (appendices C.1 and C.2). All that a hand starts with is in its first public
state, so hands differ in nothing but that.
"""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import short
from games.poker import betting

NAMES = ("stack", "pot", "bets", "board")


@dataclasses.dataclass(frozen=True)
class Fresh:
  """What every hand is drawn from; None leaves the game's own.

  Attributes:
    stack: least and greatest number of chips of each player before the hand.
    pot: least and greatest number of chips in the pot at the start, half from each player.
    bets: by how much of the pot each bet size moves at most.
    board: whether other cards lie at the start.
  """

  stack: tuple[int, int] | None = None
  pot: tuple[int, int] | None = None
  bets: float | None = None
  board: bool = False


FIXED = Fresh()


def read_fresh(game: Any, how: dict[str, Any]) -> Fresh:
  """Returns the arguments of `Holdem.vary`.

  Args:
    game: the game.
    how: `stack` and `pot`, each `LOW-HIGH` in chips, drawn uniformly; `bets`, by how much of the
      pot each size moves at most; `board`, `random` for as many cards of the deck as the game's
      has. What is not named stays as it is.

  Raises:
    ValueError: a name is unknown or a value not allowed.
  """
  for name in how:
    if name not in NAMES:
      raise ValueError(f"vary={name!r} is unknown for {game.name}; known: {', '.join(NAMES)}")
  paid, stack = game.rules.paid, game.rules.stack
  pot = _range("pot", how["pot"]) if "pot" in how else None
  if pot is not None and (pot[0] % 2 or pot[1] % 2 or pot[0] < 2 or paid[0] != paid[1]):
    raise ValueError(
      f"vary pot={short(how['pot'])} must be from an even number of chips, at least 2, to "
      "another, and of a game that both players have paid the same for"
    )
  stacks = _range("stack", how["stack"]) if "stack" in how else None
  most = max(paid) if pot is None else pot[1] // 2
  least = stack if stacks is None else stacks[0]
  if least <= most:
    named = [f"{name}={short(how[name])}" for name in ("stack", "pot") if name in how]
    raise ValueError(
      f"vary {' and '.join(named) or 'without stack'} may leave nothing to bet: stacks must be "
      f"above what each player has put into the pot, at most {most} of at least {least}"
    )
  if "board" in how and (how["board"] != "random" or not game.board):
    raise ValueError(
      f"vary board={short(how['board'])} must be 'random', in a game that starts with cards "
      "on the board"
    )
  bets = _spread(how["bets"]) if "bets" in how else None
  if bets is not None and not game.bets.thousandths.any():
    raise ValueError(f"vary bets={short(how['bets'])} needs bets that are fractions of the pot")
  return Fresh(stacks, pot, bets, "board" in how)


def draw_states(game: Any, key: jax.Array, number: int) -> jax.Array:
  """Draws the first public states of hands: `[number, S]`, by what of them is `Holdem.fresh`.

  Args:
    game: the game.
    key: consumed.
    number: of hands.
  """
  fresh, keys = game.fresh, jax.random.split(key, 5)
  start = jnp.asarray(game.initial_state(), jnp.int32)
  states = jnp.tile(start, (number, 1))
  if fresh.pot is not None:
    half = jax.random.randint(keys[0], (number,), fresh.pot[0] // 2, fresh.pot[1] // 2 + 1)
    for column in (betting.PAID_0, betting.PAID_1, betting.START):
      states = states.at[:, column].set(half.astype(states.dtype))
  if fresh.stack is not None:
    stack = jax.random.randint(keys[1], (number,), fresh.stack[0], fresh.stack[1] + 1)
    states = states.at[:, betting.STACK].set(stack.astype(states.dtype))
  if fresh.board:
    order = jax.vmap(lambda k: jax.random.permutation(k, game.deck.num_cards))
    board = jnp.sort(order(jax.random.split(keys[2], number))[:, : len(game.board)], axis=1)
    first = betting.NUM_COLUMNS
    states = states.at[:, first : first + board.shape[1]].set(board.astype(states.dtype))
  if fresh.bets is not None:
    sizes = np.asarray(game.bets.thousandths.reshape(-1), np.int32)
    most = round(1000 * fresh.bets)
    moved = sizes + jax.random.randint(keys[3], (number, len(sizes)), -most, most + 1)
    columns = game.size_columns
    states = states.at[:, columns].set(
      jnp.where(sizes > 0, jnp.maximum(moved, 10), 0).astype(states.dtype)
    )
  if game.flops is not None:
    draw = jax.random.randint(keys[4], (number,), 0, np.iinfo(np.int32).max)
    states = states.at[:, -1].set(draw.astype(states.dtype))
  return states


def size_columns_at(game: Any, state: np.ndarray) -> dict[int, int]:
  """Returns the columns of a public state `[S]` with the bet sizes of its decision, by slot.

  Of a game whose states hold them (`Fresh.bets`).
  """
  table = game.bets.thousandths
  players, rounds, raises, _ = table.shape
  key = (
    min(int(state[betting.ACTOR]), players - 1),
    min(int(state[betting.ROUND]), rounds - 1),
    min(int(state[betting.RAISES]), raises - 1),
  )
  first = game.size_columns.start + int(np.ravel_multi_index((*key, 0), table.shape))
  return {slot: first + slot for slot in np.flatnonzero(table[key]).tolist()}


def _range(name: str, value: Any) -> tuple[int, int]:
  found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", value) if isinstance(value, str) else None
  low, high = (int(found[1]), int(found[2])) if found else (1, 0)
  if low > high:
    raise ValueError(
      f"vary {name}={short(value)} must be LOW-HIGH, two whole numbers of chips, such as "
      "'3000-12000'"
    )
  return low, high


def _spread(value: Any) -> float:
  try:
    spread = float(value)
  except (TypeError, ValueError, OverflowError):
    spread = -1.0
  if isinstance(value, bool) or not 0 <= spread <= 1:
    raise ValueError(f"vary bets={short(value)} must be a part of the pot, a number from 0 to 1")
  return spread
