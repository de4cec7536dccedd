"""Bet sizes as poker players write them: `33%,75%,a / 2.5x,a`."""

import dataclasses
import math
import re

from games.arguments import check_fields, is_whole, short

ALL_IN = math.inf  # as a fraction of the pot: all one's chips
_FORMS = (
  "'33%' of the pot, '2.5x' the bet faced, '100c' chips more, 'e' or '2e' (all chips in over so "
  "many bets; '2e150%' at most so much of the pot), 'a'"
)
_NUMBER = r"(\d+\.?\d*|\.\d+)"


@dataclasses.dataclass(frozen=True)
class Times:
  """A raise to a multiple of the bet faced, both counted from the start of the round.

  Attributes:
    factor: the multiple, above 1, at most 1000.

  Raises:
    ValueError: it is not such a number.
  """

  factor: float

  def __post_init__(self):
    check_fields(self)
    if not 1 < self.factor <= 1000:
      raise ValueError(f"factor={short(self.factor)} of a raise must be above 1 and at most 1000")


@dataclasses.dataclass(frozen=True)
class Plus:
  """A number of chips beyond a call, from 1 to a million.

  Raises:
    ValueError: it is not such a number.
  """

  number: int

  def __post_init__(self):
    if not is_whole(self.number, 1, 1_000_000):
      raise ValueError(f"number={short(self.number)} of chips must be whole, from 1 to 1000000")


@dataclasses.dataclass(frozen=True)
class Geometric:
  """The fraction of the pot that, bet and called so many times in a row, gets all chips in.

  Attributes:
    bets: how many bets, this one included; from 1 to 9.
    most: the largest fraction of the pot, from 0.01 to 1000; `ALL_IN` for any.

  Raises:
    ValueError: one is not such a number.
  """

  bets: int
  most: float = ALL_IN

  def __post_init__(self):
    check_fields(self)
    if not is_whole(self.bets, 1, 9):
      raise ValueError(
        f"bets={short(self.bets)} of a geometric size must be a whole number from 1 to 9"
      )
    if not 0.01 <= self.most <= 1000 and self.most != ALL_IN:
      raise ValueError(f"most={short(self.most)} of the pot must be from 0.01 to 1000")


Size = float | Times | Plus | Geometric
Sizes = tuple[tuple[tuple[Size, ...], ...], ...]


def parse_sizes(text: str, rounds: int, *, field: str = "bets") -> Sizes:
  """Returns the sizes that a string names, by round and by how many raises there have been.

  Sizes are separated by commas, the first bet from raises, and these from later ones, by `/`, and
  rounds by `|`; what stands last holds for what follows. `-` stands for no bet.

  Args:
    text: the sizes.
    rounds: rounds of betting that the game has, for `e`: all chips in with the last of them.
    field: what errors call the string.

  Raises:
    ValueError: a size is not understood, or is a multiple of a bet where nobody has bet.
  """
  if not isinstance(text, str):
    raise ValueError(f"{field}={short(text)} must be a string of bet sizes: {_FORMS}")
  given = text.lower().split("|")
  if len(given) > rounds:
    raise ValueError(
      f"{field}={short(text)} is of {len(given)} rounds of betting, and the game has {rounds}"
    )
  found = []
  for index in range(rounds if re.search(r"(?<!\d)e", text.lower()) else len(given)):
    counts = given[min(index, len(given) - 1)].split("/")
    row = tuple(_sizes(part, rounds - index, field, text) for part in counts)
    if any(isinstance(size, Times) for size in row[0]):
      raise ValueError(
        f"{field}={short(text)} has a multiple of the bet faced before '/', where nobody has "
        "bet; write the first bet as '33%', 'e' or 'a'"
      )
    found.append(row)
  return tuple(found)


def parse_donk(text: str, rounds: int, *, field: str = "donk") -> tuple[tuple[Size, ...], ...]:
  """Returns the sizes of donk bets in each round after the first, from a string such as `33%|-`.

  Raises:
    ValueError: a size is not understood, or there are raises, or no round after the first.
  """
  if rounds < 2:
    raise ValueError(f"{field}={short(text)} is about rounds after the first, and the game has one")
  if isinstance(text, str) and "/" in text:
    raise ValueError(f"{field}={short(text)} must hold first bets only, without '/'")
  # Geometric sizes count the rounds left from the second on, which are one fewer.
  return tuple(counts[0] for counts in parse_sizes(text, rounds - 1, field=field))


def _sizes(part: str, left: int, field: str, text: str) -> tuple[Size, ...]:
  names = [name.strip() for name in part.split(",")]
  return () if names == ["-"] else tuple(_size(name, left, field, text) for name in names)


def _size(name: str, left: int, field: str, text: str) -> Size:
  found = re.fullmatch(
    _NUMBER + r"\s*([%x])|([1-9]?)e(?:" + _NUMBER + r"%)?|(a|all-?in)|(\d{1,7})\s*c", name, re.ASCII
  )
  if found is None:
    raise ValueError(
      f"{field}={short(text)} holds {short(name)}; a size must be {_FORMS} (all-in), or '-'"
    )
  number, unit, bets, most, all_in, chips = found.groups()
  if all_in:
    return ALL_IN
  try:
    if chips:
      return Plus(int(chips))
    if unit is None:
      return Geometric(int(bets or left), float(most) / 100 if most else ALL_IN)
  except ValueError as error:
    raise ValueError(f"{field}={short(text)} holds {short(name)}; {error}") from None
  value = float(number)
  if unit == "x":
    if not 1 < value <= 1000:
      raise ValueError(
        f"{field}={short(text)} holds {short(name)}; a multiple of the bet faced must be above "
        "1x and at most 1000x"
      )
    return Times(value)
  if not 0.1 <= value <= 100_000:
    raise ValueError(
      f"{field}={short(text)} holds {short(name)}; a share of the pot must be from 0.1% to 100000%"
    )
  return value / 100
