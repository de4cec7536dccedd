"""How large a spot is before it is solved, and whether it fits."""

import os
from typing import NamedTuple

import jax
import numpy as np

from games.game import CHANCE
from games.poker import Holdem
from games.poker.lines.betting_lines import betting_lines
from games.poker.lines.boards import enumerate_boards, hand_classes, moved_hands
from games.poker.lines.symmetry import suit_permutations
from rebel_jax.config.allowed import ConfigError

_MOST_LINES = 1_000_000
# Bytes, as measured on a flop of 184 and 269 hands (docs/results/poker.md).
_OF_EDGE = 12  # two tables, and the policy at the end
_OF_COLUMN = 60  # of the last round: beliefs, strengths, places of sorted hands
_OF_ARRIVAL = 12  # a line that comes to the last round, and a column
_OF_PROGRAM = 0.3e9


class Size(NamedTuple):
  """How large a spot is.

  Attributes:
    lines: lines of betting.
    boards: of the last round, of those that suits take to each other one.
    edges: entries of a table: moves by boards and hands, both players' together.
    gigabytes: about what a solve takes.
  """

  lines: int
  boards: int
  edges: int
  gigabytes: float

  def sentence(self) -> str:
    """Says how large it is."""
    return f"{self.lines:,} lines of betting, {self.boards:,} boards"


def count_lines(game: Holdem) -> int:
  """Returns how many lines of betting there are, cards left out.

  Raises:
    ConfigError: there are more than a million.
  """
  rows, total = game.initial_state()[None], 0
  while len(rows):
    total += len(rows)
    if total > _MOST_LINES:
      raise ConfigError(f"bets make more than {_MOST_LINES} lines of betting; allow fewer sizes")
    legal = game.legal_actions(rows)
    dealt = legal[:, game.first_deal :]
    deals = (np.asarray(game.actor(rows)) == CHANCE) & dealt.any(axis=1)
    moves = legal.copy()
    moves[deals] = np.arange(legal.shape[1]) == legal[deals].argmax(axis=1)[:, None]
    row, action = np.nonzero(moves)
    rows = game.next_states(rows[row], action)
  return total


def measure(game: Holdem) -> Size:
  """Returns how large a spot is with the ranges of its prior; nothing of that size is made.

  Raises:
    ConfigError: there are more than a million lines of betting.
  """
  count_lines(game)
  levels, _ = betting_lines(game)
  beliefs = np.asarray(game.prior())
  permutations = suit_permutations(game, beliefs)
  moved, boards = moved_hands(game, permutations), enumerate_boards(game, permutations)
  widths = [
    [hand_classes(game, row > 0, own, moved).hand.size for row in beliefs] for own in boards
  ]
  edges = sum(x.size * widths[x.street][x.mover] for x in levels if x.mover is not None)
  last = len(boards) - 1
  arrivals = next(x.size for x in levels if x.street == last)
  needed = _OF_EDGE * edges + sum(widths[last]) * (_OF_COLUMN + _OF_ARRIVAL * arrivals)
  lines = sum(level.size for level in levels)
  return Size(lines, len(boards[last].cards), edges, (needed + _OF_PROGRAM) / 1e9)


def machine_gigabytes() -> float:
  """Returns the memory of the device that solves, in GB."""
  stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
  if stats and "bytes_limit" in stats:
    return stats["bytes_limit"] / 1e9
  return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def check_fits(game: Holdem, gigabytes: float | None = None) -> Size:
  """Returns how large a spot is.

  Args:
    game: the rules.
    gigabytes: how much memory it may take; None for three quarters of the machine's.

  Raises:
    ConfigError: it takes more.
  """
  size = measure(game)
  allowed = 0.75 * machine_gigabytes() if gigabytes is None else gigabytes
  if size.gigabytes > allowed:
    raise ConfigError(
      f"board of {len(game.board)} cards with these bets and ranges makes {size.sentence()}, which "
      f"take about {size.gigabytes:,.1f} GB to solve, and {allowed:,.1f} are allowed; take fewer "
      "bet sizes, narrower ranges, a later street or more --memory"
    )
  return size
