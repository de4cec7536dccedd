"""How large a spot's tree is before it is built, and whether it fits."""

import os

import jax
import numpy as np

from games.game import CHANCE
from games.poker import Holdem
from rebel_jax.config.allowed import ConfigError

_ARRAYS = 32  # of nodes by hands that a solve holds at its peak, as measured on a turn
_MOST_ROWS = 1_000_000


def count_nodes(game: Holdem) -> int:
  """Returns how many public nodes the whole tree of `game` has.

  Cards are dealt once for all: what follows one card is as large as what follows another.

  Raises:
    ConfigError: there are more than a million lines of betting.
  """
  rows, times, total = game.initial_state()[None], np.ones(1), 0.0
  while len(rows):
    total += times.sum()
    if len(rows) > _MOST_ROWS:
      raise ConfigError(f"bets make more than {_MOST_ROWS} lines of betting; allow fewer sizes")
    legal = game.legal_actions(rows)
    dealt = legal[:, game.first_deal :]
    deals = (np.asarray(game.actor(rows)) == CHANCE) & dealt.any(axis=1)
    times = np.where(deals, times * np.maximum(dealt.sum(axis=1), 1), times)
    moves = legal.copy()
    moves[deals] = np.arange(legal.shape[1]) == legal[deals].argmax(axis=1)[:, None]
    row, action = np.nonzero(moves)
    rows, times = game.next_states(rows[row], action), times[row]
  return int(total)


def machine_gigabytes() -> float:
  """Returns the memory of the device that solves, in GB."""
  stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
  if stats and "bytes_limit" in stats:
    return stats["bytes_limit"] / 1e9
  return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def check_fits(game: Holdem, gigabytes: float | None = None) -> tuple[int, float]:
  """Returns the number of nodes, and about how many GB a solve takes.

  Args:
    game: the rules.
    gigabytes: how many it may take; None for three quarters of the machine's.

  Raises:
    ConfigError: it takes more.
  """
  nodes = count_nodes(game)
  needed = nodes * game.num_infostates * 4 * _ARRAYS / 1e9
  allowed = 0.75 * machine_gigabytes() if gigabytes is None else gigabytes
  if needed > allowed:
    raise ConfigError(
      f"board of {len(game.board)} cards with these bets makes a tree of {nodes:,} nodes, which "
      f"takes about {needed:,.0f} GB to solve, and {allowed:,.0f} are allowed; take fewer bet "
      "sizes, a later street or more --memory"
    )
  return nodes, needed
