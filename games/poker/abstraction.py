"""Which bet sizes a tree holds: action abstractions as data.

Sizes are fractions of the pot after calling, by round and by how many raises the round has had.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from games.arrays import Rows, lookup
from games.poker import betting
from games.poker.betting import Betting

Sizes = tuple[tuple[tuple[float, ...], ...], ...]
_MAX_FRACTION = 1000


@dataclasses.dataclass(frozen=True)
class BetSizes:
  """An action abstraction.

  A fraction of the pot counts in whole thousandths m of it, the nearest. It raises to
  `highest + 2 * highest * m / 1000` chips, half a chip rounded up, where `highest` is what a call
  would put in; the arithmetic is that of integers. Sizes below the legal minimum become the
  minimum, sizes at or above the stack are left to the all-in bet, and of equal sizes one is kept.

  Attributes:
    fractions: for each round, for each number of raises before, the fractions of the pot; the
      last entry holds for what follows. `(((0.5, 1.0), (0.75,)),)` says in every round: half the
      pot or the pot at first, then three quarters.
    all_in: whether all one's chips may go in too.
    max_raises: raises that a round may have; None for any number.

  Raises:
    ValueError: a fraction is not a number from 0.001 to 1000, or there is no bet at all.
  """

  fractions: Sizes
  all_in: bool = True
  max_raises: int | None = None

  def __post_init__(self):
    rounds = self.fractions
    nested = isinstance(rounds, tuple) and all(
      isinstance(counts, tuple) and all(isinstance(sizes, tuple) for sizes in counts)
      for counts in rounds
    )
    if not nested:
      raise ValueError(
        f"fractions={rounds!r} must be tuples: of rounds, of numbers of raises, of pot fractions"
      )
    for size in (size for counts in rounds for sizes in counts for size in sizes):
      number = isinstance(size, int | float | np.number) and not isinstance(size, bool)
      if not number or not 0.0005 <= size <= _MAX_FRACTION:
        raise ValueError(
          f"fractions hold {size!r}; a bet is a fraction of the pot from 0.001 to {_MAX_FRACTION}"
        )
    limit = self.max_raises
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
      raise ValueError(f"max_raises={limit!r} must be a whole number, or None for any number")
    sized = rounds and all(counts and counts[0] for counts in rounds)
    if (not sized and not self.all_in) or limit == 0:
      raise ValueError(
        f"fractions={rounds!r} with all_in={self.all_in} and max_raises={limit} leave a round "
        "without any bet; give each a fraction of the pot, or allow all-in"
      )

  @property
  def num_slots(self) -> int:
    """How many sizes the longest list holds."""
    return max((len(sizes) for counts in self.fractions for sizes in counts), default=0)

  @functools.cached_property
  def thousandths(self) -> np.ndarray:
    """`[rounds, raises, num_slots]` thousandths of the pot, 0 where there is no such size."""
    most = max((len(counts) for counts in self.fractions), default=0)
    table = np.zeros((max(len(self.fractions), 1), max(most, 1), self.num_slots), int)
    for round_index, counts in enumerate(self.fractions):
      for raises in range(most if counts else 0):
        sizes = counts[min(raises, len(counts) - 1)]
        table[round_index, raises, : len(sizes)] = np.floor(1000 * np.array(sizes) + 0.5)
    return table

  def amounts(self, rules: Betting, states: Rows) -> Rows:
    """Returns what each size raises to: `[n, num_slots + 1]` chips, all-in last, -1 where none.

    The bets of a row differ, and each is legal.
    """
    xp: Any = states.__array_namespace__()
    may = rules.may_raise(states)
    if self.max_raises is not None:
      may &= states[:, betting.RAISES] < self.max_raises
    rounds, raises, _ = self.thousandths.shape
    key = (
      xp.minimum(states[:, betting.ROUND], rounds - 1),
      xp.minimum(states[:, betting.RAISES], raises - 1),
    )
    # More than this many times 500 chips are all-in, and their product need not fit.
    reach = rules.stack // np.maximum(self.thousandths, 1) + 1
    thousandths, reach = lookup(self.thousandths, *key), lookup(reach, *key)
    highest, least = rules.highest(states), rules.least_raise(states)
    whole, rest = highest // 500, highest % 500
    amounts: list[Any] = []
    for slot in range(self.num_slots):
      size = thousandths[:, slot]
      more = xp.minimum(whole, reach[:, slot]) * size + (rest * size + 250) // 500
      to = xp.maximum(highest + more, least)
      fits = may & (size > 0) & (to < rules.stack)
      for other in amounts:
        fits &= to != other
      amounts.append(xp.where(fits, to, -1))
    amounts.append(xp.where(may & self.all_in, rules.stack, -1))
    return xp.stack(amounts, axis=1)

  def perturbed(self, rng: np.random.Generator, spread: float = 0.1) -> "BetSizes":
    """Returns sizes each moved by up to `spread` of the pot (ReBeL, appendices C.2 and D)."""

    def move(size: float) -> float:
      return min(max(size + float(rng.uniform(-spread, spread)), 0.01), _MAX_FRACTION)

    fractions = tuple(
      tuple(tuple(move(size) for size in sizes) for sizes in counts) for counts in self.fractions
    )
    return dataclasses.replace(self, fractions=fractions)


# Appendix C.2: half the pot, the pot or all-in first, then three quarters or all-in.
TEH = BetSizes((((0.5, 1.0), (0.75,)),))
# The thesis's experiments on Libratus's endgames, section 3.1: later raises are pot or all-in.
LIBRATUS_ENDGAMES = BetSizes((((0.5, 1.0), (1.0,)),))
# Appendix D has at most eight actions at a decision, of sizes that it does not print: these are
# ours, within that number (fold, call, up to five sizes, all-in).
HUNL = BetSizes((((0.33, 0.5, 0.75, 1.0, 2.0), (0.5, 1.0, 2.0), (1.0,)),))
PRESETS = {"teh": TEH, "libratus_endgames": LIBRATUS_ENDGAMES, "hunl": HUNL}


def make_bet_sizes(sizes: "str | Sequence | BetSizes") -> BetSizes:
  """Returns an abstraction from a preset's name, a list of fractions, or an abstraction.

  Raises:
    ValueError: the name is unknown, or a fraction is not positive.
  """
  if isinstance(sizes, BetSizes):
    return sizes
  if isinstance(sizes, str):
    if sizes not in PRESETS:
      raise ValueError(f"bets={sizes!r} is unknown; known: {', '.join(PRESETS)}, or fractions")
    return PRESETS[sizes]
  if not isinstance(sizes, tuple | list):
    raise ValueError(f"bets={sizes!r} must be a preset's name, fractions of the pot, or BetSizes")
  return BetSizes(((tuple(sizes),),))


def map_bet(fraction: float, sizes: Sequence[float]) -> np.ndarray:
  """Maps a bet that the tree does not hold to those it does, at random.

  The pseudo-harmonic mapping (Ganzfried and Sandholm 2013): between neighbours a < b the bet x is
  taken for a with probability (b - x)(1 + a) / ((b - a)(1 + x)). Smaller than all or larger than
  all, it is taken for the nearest.

  Args:
    fraction: of the pot that was bet.
    sizes: fractions that the tree holds, increasing; 0 for a check or call is one of them if
      a bet may be taken for that.

  Returns:
    `[len(sizes)]` probabilities.

  Raises:
    ValueError: `sizes` is empty or not increasing, or the bet is negative.
  """
  known = np.asarray(sizes, float)
  if known.size == 0 or (np.diff(known) <= 0).any() or (known < 0).any():
    raise ValueError(f"sizes={list(sizes)!r} must be increasing fractions of the pot, at least one")
  if not fraction >= 0:
    raise ValueError(f"fraction={fraction!r} of the pot must not be negative")
  chances = np.zeros(len(known))
  above = int(np.searchsorted(known, fraction))
  if above == 0 or above == len(known):
    chances[min(above, len(known) - 1)] = 1.0
    return chances
  a, b = known[above - 1], known[above]
  chances[above - 1] = (b - fraction) * (1 + a) / ((b - a) * (1 + fraction))
  chances[above] = 1 - chances[above - 1]
  return chances
