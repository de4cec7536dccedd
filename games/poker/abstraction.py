"""Action abstractions: the bet sizes of a tree, as data.

Sizes are fractions of the pot after calling, by round and by how many raises the round has had.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from games.arrays import (
  Count,
  Rows,
  Share,
  check_fields,
  check_shape,
  checked,
  integers,
  lookup,
  short,
  xp,
)
from games.poker import betting
from games.poker.betting import Betting
from games.poker.notation import (
  ALL_IN,
  Geometric,
  Plus,
  Size,
  Sizes,
  Times,
  parse_donk,
  parse_sizes,
)

_MAX_FRACTION = 1000
_POT, _TIMES, _GEOMETRIC, _PLUS, _ALL_IN = range(1, 6)  # kinds of sizes; 0 is none
_MOST_PLUS = 1_000_000  # that geometric sizes are tabulated for


@dataclasses.dataclass(frozen=True)
class BetSizes:
  """An action abstraction.

  A fraction of the pot after calling counts in whole thousandths m of it, the nearest. It raises to
  `highest + pot * m / 1000` chips, half a chip rounded up, where `highest` is what a call would put
  in; the arithmetic is that of integers. Sizes below the legal minimum become the minimum, sizes at
  or above the stack are all-in, and of equal sizes one is kept.

  Attributes:
    fractions: for each round, for each number of raises before, the fractions of the pot; the
      last entry holds for what follows. `(((0.5, 1.0), (0.75,)),)` says in every round: half the
      pot or the pot at first, then three quarters. `ALL_IN`, `Times`, `Plus` and `Geometric` too.
    all_in: whether all one's chips may go in everywhere, as a move of its own after the others.
    max_raises: raises that a round may have; None for any number.
    all_in_after: raises in a round after which all-in is the only raise; None for any number.
    near_all_in: bets of at least this share of the player's chips become all-in; None for none.
    add_all_in: all-in is a move where the chips left are at most so many pots; None for nowhere.
    merge: of two sizes whose pots after a call differ by at most this share of the larger pot the
      one that is listed first is kept; None for all.
    second: player 1's `fractions`; None if they are the same.
    donk: for each round after the first, the sizes of who acts first into a player who bet last on
      the round before, the last entry for what follows; none for no bet. None if these are as
      others.

  Raises:
    ValueError: a fraction is not a number from 0.001 to 1000, or a setting is out of range.
  """

  fractions: Sizes
  all_in: bool = True
  max_raises: Count | None = None
  all_in_after: Count | None = None
  near_all_in: Share | None = None
  second: Sizes | None = None
  donk: tuple[tuple[Size, ...], ...] | None = None
  add_all_in: Annotated[float, (0.001, _MAX_FRACTION)] | None = None
  merge: Share | None = None

  def __post_init__(self):
    for rounds in (*self._players, (self.donk or (),)):
      _check_sizes(rounds)
    check_fields(self)
    if self.near_all_in == 0:
      raise ValueError("near_all_in=0 must be a share of the chips, above 0 and at most 1")

  @classmethod
  @checked
  def parse(
    cls, text: str, second: str | None = None, *, rounds: int = 1, donk: str | None = None
  ) -> "BetSizes":
    """Reads sizes such as `33%,75%,a / 2.5x,a`: first bets, then raises.

    Args:
      text: sizes separated by commas: `33%` of the pot after calling, `2.5x` the bet faced, `100c`
        chips beyond a call, `e` (or `2e`) for the fraction that gets all chips in with as many bets
        as there are rounds left (or two), at most half the pot as `2e50%`, `a` for all-in, `-` for
        no bet. `/` stands between first bets, raises and later
        raises, `|` between rounds; what stands last holds for what follows.
      second: player 1's sizes; None if they are the same.
      rounds: rounds of betting that the game has.
      donk: sizes of donk bets for each round after the first, as of first bets; None if these are
        as others.

    Raises:
      ValueError: a size is not understood.
    """
    other = None if second is None else parse_sizes(second, rounds)
    leads = None if donk is None else parse_donk(donk, rounds)
    return cls(parse_sizes(text, rounds), all_in=False, second=other, donk=leads)

  @property
  def _players(self) -> list[Sizes]:
    return [self.fractions] if self.second is None else [self.fractions, self.second]

  @property
  def num_slots(self) -> int:
    """How many sizes the longest list holds."""
    lists = [sizes for rounds in self._players for counts in rounds for sizes in counts]
    return max(map(len, [*lists, *(self.donk or ())]), default=0)

  @functools.cached_property
  def _table(self) -> tuple[np.ndarray, np.ndarray]:
    """Kinds of sizes, 0 for none, and amounts: `[players or 1, rounds, raises, num_slots]` each."""
    # Thousandths or chips; of a geometric size the bets plus ten times the thousandths that it may
    # be.
    return _tabulated(self._players, self.num_slots)

  @functools.cached_property
  def _rows(self) -> tuple[np.ndarray, ...]:
    """As `_table`, and donk bets of each round after the first below: `[rows, num_slots]` each."""
    donk = _tabulated([tuple((sizes,) for sizes in self.donk or ())], self.num_slots)
    both = [[x.reshape(math.prod(x.shape[:3]), -1) for x in y] for y in (self._table, donk)]
    return tuple(np.concatenate(x) for x in zip(*both))

  @property
  def kinds(self) -> np.ndarray:
    """`[players or 1, rounds, raises, num_slots]` 0 for none, 1 for a fraction of the pot."""
    return self._table[0]

  @property
  def thousandths(self) -> np.ndarray:
    """`[rows, num_slots]` thousandths of the pot, 0 for other sizes; `row` numbers decisions."""
    kinds, amounts = self._table
    return np.where(kinds == _POT, amounts, 0).reshape(math.prod(kinds.shape[:3]), -1)

  def row(self, actor: Any, street: Any, raises: Any) -> Any:
    """Returns which row of `thousandths` decisions have: of players, rounds and raises before."""
    row: Any = 0
    for place, number in zip((actor, street, raises), self.kinds.shape):
      row = row * number + xp.minimum(place, number - 1)
    return row

  @checked
  def apart(self, rounds: int) -> "BetSizes":
    """Returns the same sizes listed for each player, each of `rounds` and each number of raises.

    Then each decision's `thousandths` are its own, and may be changed alone.

    Raises:
      ValueError: these are none, or too many.
    """
    limits = [most for most in (self.max_raises, self.all_in_after) if most is not None]
    raises = max(self.kinds.shape[2], min(limits, default=0))
    if not 1 <= rounds * raises <= 100_000:
      raise ValueError(
        f"rounds={short(rounds)}, each of {raises} numbers of raises, must make 1 to 100000 "
        "lists of sizes"
      )

    def listed(sizes: Sizes) -> Sizes:
      counts = [sizes[min(row, len(sizes) - 1)] if sizes else () for row in range(rounds)]
      return tuple(
        tuple(row[min(count, len(row) - 1)] if row else () for count in range(raises))
        for row in counts
      )

    first, second = listed(self._players[0]), listed(self._players[-1])
    return dataclasses.replace(self, fractions=first, second=second)

  @checked
  def amounts(self, rules: Betting, states: Rows, fractions: Rows | None = None) -> Rows:
    """Returns the amount of each size: `[n, num_slots + 1]` chips, all-in last, -1 where none.

    The bets of a row differ, and each is legal.

    Args:
      rules: of betting.
      states: `[n, NUM_COLUMNS or more]`.
      fractions: `[n, size of thousandths]` for each state its own `thousandths`, flat; None for
        those of the abstraction.

    Raises:
      TypeError: states are not lists of integers.
      ValueError: one is of another shape.
    """
    states = integers("states", states, -(2**31), 2**31 - 1, ndim=2)
    check_shape(
      "states",
      states[:, : betting.NUM_COLUMNS],
      (len(states), betting.NUM_COLUMNS),
      "(n, columns or more)",
    )
    may, highest, least, stack = (
      column[:, None]
      for column in (
        rules.may_raise(states),
        rules.highest(states),
        rules.least_raise(states),
        states[:, betting.STACK],
      )
    )
    if self.max_raises is not None:
      may &= states[:, betting.RAISES, None] < self.max_raises
    all_kinds, all_amounts = self._rows
    row = self.row(*(states[:, x] for x in (betting.ACTOR, betting.ROUND, betting.RAISES)))
    last = len(self.thousandths)
    if self.donk is not None:
      leads, street = rules.leads(states), states[:, betting.ROUND] - 1
      row = xp.where(leads, last + xp.clip(street, 0, len(all_kinds) - last - 1), row)
      may &= ~leads[:, None] | lookup(all_kinds.any(axis=1), row)[:, None]
    kinds, sizes = lookup(all_kinds, row), lookup(all_amounts, row)
    if fractions is not None:
      check_shape(
        "fractions", fractions, (len(states), all_kinds[:last].size), "(n, size of thousandths)"
      )
      own = xp.asarray(fractions).reshape(len(states), last, self.num_slots)
      own = xp.take_along_axis(own, xp.minimum(row, last - 1)[:, None, None], axis=1)[:, 0]
      sizes = xp.where((kinds == _POT) & (row < last)[:, None], own, sizes)
    # More than this many times 1000 chips are all-in, and their product need not fit.
    most = stack // xp.maximum(sizes, 1) + 1
    if self.all_in_after is not None:
      kinds = xp.where(states[:, betting.RAISES, None] < self.all_in_after, kinds, 0)
    every = may & self.all_in
    if self.add_all_in is not None:
      share: Any = int(np.floor(1000 * self.add_all_in + 0.5))
      every |= may & (_of_pot(rules, highest, share, rules.stack * 1000 // share + 1) >= stack)
    to, there = xp.broadcast_to(stack, kinds.shape), may & (kinds > 0)
    if (all_kinds == _POT).any():
      to = xp.where(kinds == _POT, _of_pot(rules, highest, sizes, most), to)
    if (all_kinds == _TIMES).any():
      began = states[:, betting.START, None]
      faced = highest - began
      there &= (kinds != _TIMES) | (faced > 0)
      multiple = began + _product(faced // 1000, faced % 1000, sizes, most)
      to = xp.where(kinds == _TIMES, multiple, to)
    for amount in np.unique(all_amounts[all_kinds == _GEOMETRIC]).tolist():
      of = rules.stack, rules.dead, amount % 10
      grown = (  # a device's powers are not exact; NumPy needs no table
        _grown(highest, *of)
        if isinstance(highest, np.ndarray)
        else lookup(_geometric(*of), highest)
      )
      if capped := amount // 10:
        cap = rules.stack * 1000 // capped + 1
        grown = xp.minimum(grown, _of_pot(rules, highest, capped, cap))
      to = xp.where((kinds == _GEOMETRIC) & (sizes == amount), grown, to)
    if (all_kinds == _PLUS).any():
      to = xp.where(kinds == _PLUS, highest + xp.minimum(sizes, stack - highest), to)
    to = self._rounded_up(states, xp.clip(to, least, stack))
    there &= (to < stack) | ~every
    amounts: list[Any] = []
    for slot in range(self.num_slots):
      kept = there[:, slot]
      for other in amounts:
        kept = kept & ~self._same(rules, to[:, slot], other)
      amounts.append(xp.where(kept, to[:, slot], -1))
    amounts.append(xp.where(every, stack, -1)[:, 0])
    return xp.stack(amounts, axis=1)

  def _same(self, rules: Betting, to: Any, other: Any) -> Any:
    """Says whether a bet is another, -1 for none, or close to it."""
    if self.merge is None:
      return to == other
    pot = to + other + abs(to - other) + rules.dead  # the larger
    share = int(np.floor(1000 * self.merge + 0.5))
    limit = _product(pot // 1000, pot % 1000, share, pot // 1000 + 1)
    return (other >= 0) & (2 * abs(to - other) <= limit)

  def _rounded_up(self, states: Rows, to: Rows) -> Rows:
    """Returns `to` `[n, bets]` with bets of nearly all chips as all-in."""
    if self.near_all_in is None:
      return to
    first, stack = states[:, betting.ACTOR, None] == 0, states[:, betting.STACK, None]
    chips = stack - xp.where(
      first, states[:, betting.PAID_0, None], states[:, betting.PAID_1, None]
    )
    kept = 1000 - int(np.floor(1000 * self.near_all_in + 0.5))
    may_keep = chips // 1000 * kept + chips % 1000 * kept // 1000
    return xp.where(stack - to <= may_keep, stack, to)


def _check_sizes(rounds: Any) -> None:
  """Checks that a player's sizes are allowed, in tuples of tuples."""
  nested = isinstance(rounds, tuple) and all(
    isinstance(counts, tuple) and all(isinstance(sizes, tuple) for sizes in counts)
    for counts in rounds
  )
  if not nested:
    raise ValueError(
      f"fractions={short(rounds)} must be tuples: of rounds, of numbers of raises, of pot fractions"
    )
  flat = [size for counts in rounds for sizes in counts for size in sizes]
  for size in (x for x in flat if not isinstance(x, Times | Plus | Geometric)):
    number = isinstance(size, int | float | np.number) and not isinstance(size, bool)
    if not number or not (0.0005 <= size <= _MAX_FRACTION or size == ALL_IN):
      raise ValueError(
        f"fractions hold {short(size)}; a bet is a fraction of the pot from 0.001 to "
        f"{_MAX_FRACTION}"
      )


def _tabulated(players: Sequence[Sizes], num_slots: int) -> tuple[np.ndarray, np.ndarray]:
  """Returns kinds and amounts of players' sizes, `[players, rounds, raises, num_slots]` each."""
  rounds = max(1, *map(len, players))
  raises = max((len(counts) for sizes in players for counts in sizes), default=0)
  kinds = np.zeros((len(players), rounds, max(raises, 1), num_slots), int)
  amounts = np.zeros_like(kinds)
  for player, row, count in np.ndindex(kinds.shape[:3]):
    counts = players[player][min(row, len(players[player]) - 1)] if players[player] else ()
    sizes = counts[min(count, len(counts) - 1)] if counts else ()
    for slot, size in enumerate(sizes):
      kinds[player, row, count, slot], amounts[player, row, count, slot] = _kind_of(size)
  return kinds, amounts


def _kind_of(size: Size) -> tuple[int, int]:
  if isinstance(size, Geometric):
    capped = 0 if size.most == ALL_IN else int(np.floor(1000 * size.most + 0.5))
    return _GEOMETRIC, size.bets + 10 * capped
  if isinstance(size, Plus):
    return _PLUS, size.number
  if isinstance(size, Times):
    return _TIMES, int(np.floor(1000 * size.factor + 0.5))
  return (_ALL_IN, 0) if size == ALL_IN else (_POT, int(np.floor(1000 * size + 0.5)))


def _product(whole: Rows, rest: Rows, thousandths: Rows, most: Rows) -> Rows:
  """Returns `(1000 * whole + rest) * thousandths / 1000`, half a chip rounded up."""
  return xp.minimum(whole, most) * thousandths + (rest * thousandths + 500) // 1000


def _of_pot(rules: Betting, highest: Rows, thousandths: Rows, most: Rows) -> Rows:
  half = highest + rules.dead // 2  # of the pot after calling, which itself need not fit
  rest = 2 * (half % 500) + rules.dead % 2
  return highest + _product(half // 500, rest, thousandths, most)


@functools.lru_cache(maxsize=64)
def _geometric(stack: int, dead: int, bets: int) -> np.ndarray:
  """Returns `_grown` by `highest` from 0 to the stack: `[stack + 1]`."""
  if stack > _MOST_PLUS:
    raise ValueError(
      f"stacks of {stack} chips are too many for geometric sizes, which go up to {_MOST_PLUS}; "
      "count in larger chips"
    )
  return _grown(np.arange(stack + 1), stack, dead, bets)


def _grown(highest: np.ndarray, stack: int, dead: int, bets: int) -> np.ndarray:
  """Returns the amount of a geometric bet where both have put in `highest`."""
  pot = np.maximum(2.0 * highest + dead, 1.0)
  grown = pot * ((2 * stack + dead) / pot) ** (1 / bets)
  return np.floor((grown - dead) / 2 + 0.5).astype(int)


# ReBeL, appendix C.2: half the pot, the pot or all-in first, then three quarters or all-in.
TEH = BetSizes((((0.5, 1.0), (0.75,)),))
# Libratus's endgames (thesis, section 3.1.3): as there, but later raises are the pot or all-in.
LIBRATUS_ENDGAMES = BetSizes((((0.5, 1.0), (1.0,)),))
# ReBeL's appendix D allows eight actions at a decision and does not print the sizes: these are
# ours, within that number (fold, call, up to five sizes, all-in).
HUNL = BetSizes((((0.33, 0.5, 0.75, 1.0, 2.0), (0.5, 1.0, 2.0), (1.0,)),), all_in_after=4)
# As little as makes sense, for CPUs: the pot or all-in.
HUNL_SMALL = BetSizes((((1.0,),),), all_in_after=2)
PRESETS = {
  "teh": TEH,
  "libratus_endgames": LIBRATUS_ENDGAMES,
  "hunl": HUNL,
  "hunl_small": HUNL_SMALL,
}


@checked
def make_bet_sizes(sizes: "str | Sequence | BetSizes", *, rounds: int = 1) -> BetSizes:
  """Returns an abstraction from a preset's name, one string or two, fractions, or itself."""
  if isinstance(sizes, BetSizes):
    return sizes
  if isinstance(sizes, str):
    if sizes in PRESETS:
      return PRESETS[sizes]
    if re.fullmatch(r"[A-Za-z]\w+", sizes):
      raise ValueError(
        f"bets={short(sizes)} is unknown; known: {', '.join(PRESETS)}, sizes such as "
        "'33%,75%,a / 2.5x', or fractions"
      )
    return BetSizes.parse(sizes, rounds=rounds)
  if len(sizes) == 2 and all(isinstance(x, str) for x in sizes):
    return BetSizes.parse(*sizes, rounds=rounds)
  return BetSizes(((tuple[Any, ...](sizes),),))


@checked
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
    ValueError: `sizes` is empty, not increasing or not finite, or the bet is negative.
  """
  known = np.asarray(sizes, float)
  if known.size == 0 or not ((np.diff(known) > 0).all() and 0 <= known[0] <= known[-1] < np.inf):
    raise ValueError(
      f"sizes={short(sizes)} must be increasing finite fractions of the pot, at least one; all-in "
      "is the fraction that the chips behind are"
    )
  if not fraction >= 0:
    raise ValueError(f"fraction={short(fraction)} of the pot must not be negative")
  chances = np.zeros(len(known))
  above = int(np.searchsorted(known, fraction))
  if above == 0 or above == len(known):
    chances[min(above, len(known) - 1)] = 1.0
    return chances
  a, b = known[above - 1], known[above]
  chances[above - 1] = (b - fraction) * (1 + a) / ((b - a) * (1 + fraction))
  chances[above] = 1 - chances[above - 1]
  return chances
