"""Poker notation: bet sizes such as `33%,75%,a / 2.5x,a`, and ranges of hands.

Ranges are written as poker players write them: `QQ+,AKs,A5s-A2s,T9o:0.5,AhKd`.
"""

import dataclasses
import itertools
import math
import re
import warnings
from typing import Annotated

import numpy as np

from games.arrays import as_share, check_fields, check_shape, checked, short
from games.poker.cards import Deck

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
  """A number of chips beyond a call, from 1 to a billion.

  Raises:
    ValueError: it is not such a number.
  """

  number: Annotated[int, (1, 1_000_000_000)]

  def __post_init__(self):
    check_fields(self)


@dataclasses.dataclass(frozen=True)
class Geometric:
  """The fraction of the pot that, bet and called so many times in a row, gets all chips in.

  Attributes:
    bets: how many bets, this one included; from 1 to 9.
    most: the largest fraction of the pot, from 0.01 to 1000; `ALL_IN` for any.

  Raises:
    ValueError: one is not such a number.
  """

  bets: Annotated[int, (1, 9)]
  most: float = ALL_IN

  def __post_init__(self):
    check_fields(self)
    if not 0.01 <= self.most <= 1000 and self.most != ALL_IN:
      raise ValueError(f"most={short(self.most)} of the pot must be from 0.01 to 1000")


Size = float | Times | Plus | Geometric
Sizes = tuple[tuple[tuple[Size, ...], ...], ...]


@checked
def parse_sizes(text: str, rounds: int, *, field: str = "bets", unit: int = 1) -> Sizes:
  """Returns the sizes that a string names, by round and by how many raises there have been."""
  # Commas separate sizes, `/` the first bet, raises and later ones, `|` rounds; what stands last
  # holds for what follows. `unit` is the chips of `1c`; of 100, chips may have two decimals.
  given = text.lower().split("|")
  if len(given) > rounds:
    raise ValueError(
      f"{field}={short(text)} is of {len(given)} rounds of betting, and the game has {rounds}"
    )
  found = []
  for index in range(rounds if re.search(r"(?<!\d)e", text.lower()) else len(given)):
    counts = given[min(index, len(given) - 1)].split("/")
    row = tuple(_sizes(part, rounds - index, field, text, unit) for part in counts)
    if any(isinstance(size, Times) for size in row[0]):
      raise ValueError(
        f"{field}={short(text)} has a multiple of the bet faced before '/', where nobody has "
        "bet; write the first bet as '33%', 'e' or 'a'"
      )
    found.append(row)
  return tuple(found)


def parse_donk(
  text: str, rounds: int, *, field: str = "donk", unit: int = 1
) -> tuple[tuple[Size, ...], ...]:
  """Returns the sizes of donk bets in each round after the first, from a string such as `33%|-`."""
  if rounds < 2:
    raise ValueError(f"{field}={short(text)} is about rounds after the first, and the game has one")
  if isinstance(text, str) and "/" in text:
    raise ValueError(f"{field}={short(text)} must hold first bets only, without '/'")
  # Geometric sizes count the rounds left from the second on, which are one fewer.
  return tuple(counts[0] for counts in parse_sizes(text, rounds - 1, field=field, unit=unit))


def _sizes(part: str, left: int, field: str, text: str, unit: int) -> tuple[Size, ...]:
  names = [name.strip() for name in part.split(",")]
  return () if names == ["-"] else tuple(_size(name, left, field, text, unit) for name in names)


def _size(name: str, left: int, field: str, text: str, unit: int) -> Size:
  decimals = r"(?:\.\d\d?)?" if unit == 100 else ""
  found = re.fullmatch(
    rf"{_NUMBER}\s*([%x])|([1-9]?)e(?:{_NUMBER}%)?|(a|all-?in)|(\d{{1,7}}{decimals})\s*c",
    name,
    re.ASCII,
  )
  if found is None:
    raise ValueError(
      f"{field}={short(text)} holds {short(name)}; a size must be {_FORMS} (all-in), or '-'"
    )
  number, kind, bets, most, all_in, chips = found.groups()
  if all_in:
    return ALL_IN
  try:
    if chips:
      return Plus(round(unit * float(chips)))
    if kind == "x":
      return Times(float(number))
    if kind is None:
      return Geometric(int(bets or left), float(most) / 100 if most else ALL_IN)
  except ValueError as error:
    raise ValueError(f"{field}={short(text)} holds {short(name)}; {error}") from None
  value = float(number)
  if not 0.1 <= value <= 100_000:
    raise ValueError(
      f"{field}={short(text)} holds {short(name)}; a share of the pot must be from 0.1% to 100000%"
    )
  return value / 100


_HAND = re.compile(r"(.)(.)([so]?)(\+?)", re.IGNORECASE)
_CARDS = re.compile(r"(10|[2-9TJQKA])[shdc♠♥♦♣](10|[2-9TJQKA])[shdc♠♥♦♣]", re.IGNORECASE)
_EVERYTHING = "random"
_SUITED, _OFFSUIT = "s", "o"

# A hand without suits: places of its ranks in the grid, the higher one first, and s, o or nothing.
End = tuple[int, int, str]


@checked
def parse_range(text: str, deck: Deck | None = None, *, field: str = "range") -> np.ndarray:
  """Returns the weights of all pairs of hole cards that a range gives them.

  Hands are separated by commas or spaces: `AA`, `AKs` (suited), `AKo` (offsuit), `AK` (both), and
  `AhKd` (two cards). `JJ+` holds all higher pairs too, `KTo+` all kickers up to the queen, and
  `T9s+`, of neighbours, the same hands of higher ranks: `T9s`, `JTs`, `QJs`, `KQs` and `AKs`.
  `JJ-88` and `A5s-A2s` hold what lies between, and so does `T9s-65s`, step by step. `random` is
  every hand. `:0.5` after a hand is its weight, else it is 1. What is named again takes the later
  weight, and a warning says so where it had another: some programs take the earlier.

  Args:
    text: the range.
    deck: the cards there are; the whole deck by default.
    field: what errors call the range.

  Returns:
    `[C(n, 2)]` weights from 0 to 1, in the order of `deck.hole_cards()`.

  Raises:
    ValueError: a part is not understood, names no hand of the deck, or has no weight from 0 to 1.
  """
  deck = Deck() if deck is None else deck
  parts = [part for part in re.split(r"[,;\s]+", text) if part]
  if not parts:
    raise ValueError(f"{field}={short(text)} names no hand; write hands such as 'QQ+,AKs,T9o:0.5'")
  every = deck.hole_cards()
  weights = np.full(len(every), math.nan)  # until a part names the hand
  for part in parts:
    hands, colon, weight = part.partition(":")
    held = _held(hands, deck, every, field, part)
    if not held.any():
      raise ValueError(
        f"{field} holds {part!r}, which names no hand of the deck of ranks {deck.ranks!r} and "
        f"suits {deck.suits!r}"
      )
    new = as_share(weight) if colon else 1.0
    if math.isnan(new):
      raise ValueError(
        f"{field} holds {part!r}; a weight must be a number from 0 to 1, as in 'AA:0.5'"
      )
    if (twice := held & (weights != new) & ~np.isnan(weights)).any():
      warnings.warn(
        f"{field} holds {short(part)}, and before it another weight of "
        f"{deck.hand_name(every[twice][0])}; the later one counts",
        stacklevel=3,
      )
    weights[held] = new
  return np.nan_to_num(weights)


@checked
def format_range(weights: np.ndarray, deck: Deck | None = None) -> str:
  """Returns the shortest string for a range that `parse_range` reads as the same weights.

  Hands of one weight stand together, the highest weight first; no hand gives an empty string.

  Args:
    weights: `[C(n, 2)]` from 0 to 1, in the order of `deck.hole_cards()`.
    deck: the cards there are; the whole deck by default.

  Raises:
    ValueError: the shape is wrong, or a weight is not a number from 0 to 1.
  """
  deck = Deck() if deck is None else deck
  every = deck.hole_cards()
  weights = np.asarray(weights, float)
  check_shape("weights", weights, (len(every),), "(C(n, 2),)")
  wrong = weights[~((weights >= 0) & (weights <= 1))]
  if len(wrong):
    raise ValueError(f"weights hold {wrong[0]}; each must be a number from 0 to 1")
  if (weights == weights[0]).all() and weights[0] > 0:
    return _EVERYTHING + _suffix(weights[0])
  cell, parts = cells(deck, every), []
  for weight in sorted(set(weights[weights > 0].tolist()), reverse=True):
    number, like = np.zeros((2, *[len(deck.ranks)] * 2), int)
    np.add.at(number, cell, 1)
    np.add.at(like, cell, weights == weight)
    whole = (number == like) & (number > 0)
    alone = np.flatnonzero((weights == weight) & ~whole[cell])[::-1]
    names = _runs_of(whole, deck.ranks[::-1]) + [deck.hand_name(every[h]) for h in alone]
    parts += [name + _suffix(weight) for name in names]
  return ",".join(parts)


def _suffix(weight: float) -> str:
  return "" if weight == 1 else f":{float(weight)!r}"


@checked
def cells(deck: Deck, hole_cards: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns row and column of each hand of `hole_cards` `[H, 2]` in the range grid, each `[H]`.

  It has a row and a column for each rank, aces first: pairs on the diagonal, suited hands above.
  """
  count = len(deck.suits)
  place = len(deck.ranks) - 1 - hole_cards // count
  low, high = place.max(axis=1), place.min(axis=1)
  suited = (hole_cards % count)[:, 0] == (hole_cards % count)[:, 1]
  return np.where(suited, high, low), np.where(suited, low, high)


def _held(text: str, deck: Deck, every: np.ndarray, field: str, part: str) -> np.ndarray:
  """Says which pairs of cards a part without its weight names: `[C(n, 2)]`."""
  if text.lower() == _EVERYTHING:
    return np.ones(len(every), bool)
  if _CARDS.fullmatch(text):
    cards = sorted(deck.parse(text, field=field))
    return (every == cards).all(axis=1)
  ends, grid = [_read(hand, deck) for hand in text.split("-", 1)], None
  if all(ends) and not ("-" in text and "+" in text):
    grid = _between(deck, ends[0][0], ends[-1][-1])
  if grid is None:
    raise ValueError(
      f"{field} holds {part!r}, which is not understood; write hands of the ranks {deck.ranks!r} "
      "as in 'QQ+', 'AKs', 'KTo+', 'JJ-88', 'A5s-A2s', 'AhKd', 'T9o:0.5' or 'random'"
    )
  return grid[cells(deck, every)]


def _read(text: str, deck: Deck) -> list[End]:
  """Returns a hand and, with a plus, the last of its line; none if it is no hand."""
  found = _HAND.fullmatch(text.replace("10", "T"))
  if found is None:
    return []
  high, low = sorted(deck.ranks[::-1].find(found[i].upper()) for i in (1, 2))
  letter, gap = found[3].lower(), low - high
  if high < 0 or (not gap and letter):
    return []
  # Pairs and neighbours rise together, else kickers do.
  last = (0, gap, letter) if gap <= 1 else (high, high + 1, letter)
  return [(high, low, letter), last] if found[4] else [(high, low, letter)]


def _between(deck: Deck, one: End, other: End) -> np.ndarray | None:
  """Returns the cells from one hand to another, `[R, R]`; None if no line joins them."""
  (high, low, letter), (high_2, low_2, letter_2) = sorted((one, other))
  pairs = high == low, high_2 == low_2
  if letter != letter_2 or pairs[0] != pairs[1] or high_2 - high not in (0, low_2 - low):
    return None
  grid = np.zeros((len(deck.ranks),) * 2, bool)
  lows = np.arange(low, low_2 + 1)
  highs = lows - low + high if high_2 > high else np.full(len(lows), high)
  grid[highs, lows] = letter != _OFFSUIT
  grid[lows, highs] |= letter != _SUITED
  return grid


def _runs_of(grid: np.ndarray, ranks: str) -> list[str]:
  """Returns names that together hold the cells of a grid and no others, pairs first."""
  names = _names(np.diag(grid), ranks)
  for high, rank in enumerate(ranks):
    suited, offsuit = grid[high, high + 1 :], grid[high + 1 :, high]
    both = suited & offsuit
    ways = []
    for shared in (both, np.zeros_like(both)):
      way = _names(shared, ranks[high + 1 :], rank)
      for letter, held in ((_SUITED, suited), (_OFFSUIT, offsuit)):
        way += _names(held & ~shared, ranks[high + 1 :], rank, letter)
      ways.append(way)
    names += min(ways, key=lambda way: len(",".join(way)))
  return names


def _names(held: np.ndarray, ranks: str, high: str = "", letter: str = "") -> list[str]:
  """Returns a name for each run of pairs, or of kickers of a `high` card."""
  hands, names = [(high or rank) + rank + letter for rank in ranks], []
  steps = enumerate(np.flatnonzero(held).tolist())
  for _, group in itertools.groupby(steps, key=lambda step: step[1] - step[0]):
    run = [hands[place] for _, place in group]
    line = f"{run[-1]}+" if run[0] == hands[0] else f"{run[0]}-{run[-1]}"
    names.append(line if len(run) > 1 else run[0])
  return names
