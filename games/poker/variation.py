"""Other spots like a given one: stacks, pots, bets and boards drawn at random.

ReBeL trains turn endgame hold'em on random stacks, bet sizes and boards, and measures it at one
spot (appendix C.2).
"""

import dataclasses
import functools
import re
from typing import Any

import numpy as np

from games.game import Variation

NAMES = ("stack", "pot", "bets", "board")


@dataclasses.dataclass(frozen=True)
class Ranges:
  """What a variant is drawn from; None leaves the game's own.

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


def vary_holdem(game: Any, how: dict[str, Any]) -> Variation:
  """Returns the variants of a game of hold'em.

  Args:
    game: the game.
    how: `stack` and `pot`, each `LOW-HIGH` in chips, drawn uniformly; `bets`, a spread for
      `BetSizes.perturbed`; `board`, `random` for as many cards of the deck as the game's has. What
      is not named stays as it is.

  Returns:
    The variants. Both players of one have equal stacks, if these vary. A network sees chips as
    fractions of the stack, so payoffs are counted such that all stacks are worth the same
    (`Holdem.chip`). Where boards vary all pairs of the deck are infostates (`Holdem.every_hand`).

  Raises:
    ValueError: a name is unknown or a value not allowed.
  """
  ranges = _read(game, how)
  base = game.replace(every_hand=True) if ranges.board else game
  return Variation(base, functools.partial(_draw, base, ranges))


def _draw(base: Any, ranges: Ranges, rng: np.random.Generator) -> Any:
  rules = base.rules
  changes: dict[str, Any] = {}
  if ranges.board:
    cards = rng.choice(base.deck.num_cards, len(base.board), replace=False)
    changes["board"] = tuple(sorted(cards.tolist()))
  if ranges.pot is not None:
    half = int(rng.integers(ranges.pot[0] // 2, ranges.pot[1] // 2 + 1))
    rules = dataclasses.replace(rules, paid=(half, half), dead=0)
  if ranges.stack is not None:
    stack = int(rng.integers(ranges.stack[0], ranges.stack[1] + 1))
    rules = dataclasses.replace(rules, stacks=(stack, stack))
    changes["chip"] = base.chip * base.rules.stack / stack
  if ranges.bets is not None:
    changes["bets"] = base.bets.perturbed(rng, ranges.bets)
  return base.replace(rules=rules, **changes)


def _read(game: Any, how: dict[str, Any]) -> Ranges:
  """Returns what `how` says.

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
      f"vary pot={how['pot']!r} must be from an even number of chips, at least 2, to another, and "
      "of a game that both players have paid the same for"
    )
  stacks = _range("stack", how["stack"]) if "stack" in how else None
  most = max(paid) if pot is None else pot[1] // 2
  least = stack if stacks is None else stacks[0]
  if least <= most:
    named = [f"{name}={how[name]!r}" for name in ("stack", "pot") if name in how]
    raise ValueError(
      f"vary {' and '.join(named) or 'without stack'} may leave nothing to bet: stacks must be "
      f"above what each player has put into the pot, at most {most} of at least {least}"
    )
  if "board" in how and (how["board"] != "random" or not game.board):
    raise ValueError(
      f"vary board={how['board']!r} must be 'random', in a game that starts with cards on the board"
    )
  return Ranges(stacks, pot, _spread(how["bets"]) if "bets" in how else None, "board" in how)


def _range(name: str, value: Any) -> tuple[int, int]:
  found = re.fullmatch(r"(\d{1,9})-(\d{1,9})", value) if isinstance(value, str) else None
  low, high = (int(found[1]), int(found[2])) if found else (1, 0)
  if low > high:
    raise ValueError(
      f"vary {name}={value!r} must be LOW-HIGH, two whole numbers of chips such as '3000-12000'"
    )
  return low, high


def _spread(value: Any) -> float:
  try:
    spread = float(value)
  except (TypeError, ValueError, OverflowError):
    spread = -1.0
  if isinstance(value, bool) or not 0 <= spread <= 1:
    raise ValueError(f"vary bets={value!r} must be a part of the pot, a number from 0 to 1")
  return spread
