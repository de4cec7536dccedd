"""A hand that was played, read into a spot: PHH files and PokerStars' text, by pokerkit."""

import contextlib
import io
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from rebel_jax.checkpoints import files
from rebel_jax.config.allowed import ConfigError, in_config_errors
from rebel_jax.spots.spot import shown

STREETS = ("flop", "turn", "river")


class History(NamedTuple):
  """A hand from a street on; `line` as `SolvedSpot.find` reads it, `stack` the shorter player's."""

  board: str
  pot: float
  stack: float
  line: str


def read_history(path: str, street: str | None = None) -> History:
  """Returns the first hand of a file from a street on, None for the last one with betting."""
  with in_config_errors(
    "history needs pokerkit: pip install 'rebel-jax[histories]'", ImportError, reason=False
  ):
    from pokerkit import HandHistory
  name = f"history={path!r}"
  with (
    files.reading(name, "a hand of no-limit hold'em"),
    contextlib.redirect_stderr(io.StringIO()),  # where pokerkit prints tracebacks
    warnings.catch_warnings(action="ignore"),
  ):
    text = files.read_bytes(Path(path)).decode("utf-8-sig")
    stars = "PokerStars" in text.partition("\n")[0]
    hand: Any = next(HandHistory.from_pokerstars(text)) if stars else HandHistory.loads(text)
    if hand.variant != "NT":
      raise ValueError(f"its variant is {hand.variant!r}")
    seen = _streets(hand)
  wanted = street or next(reversed(seen), "street")
  if wanted not in seen:
    raise ConfigError(f"{name} has no {wanted} that two players with chips see")
  return seen[wanted]


def _streets(hand: Any) -> dict[str, History]:
  """Returns the hand from each street on that two players with chips see."""
  bets = (Decimal(x.split()[2]) for x in hand.actions if " cbr " in x)
  chips = *hand.starting_stacks, *hand.blinds_or_straddles, *hand.antes, *bets
  unit = 100 if any(x % 1 for x in chips) else 1
  starts: dict[str, tuple[int, History]] = {}
  words: list[str] = []
  deepest, faced = 0, False
  for state, action in hand.state_actions:
    who, what, amount = [*(action or "").split("#")[0].split(), "", "", ""][:3]
    if (who, what) == ("d", "db"):
      board = "".join(map(repr, state.get_board_cards(0)))
      left = [unit * state.stacks[i] for i in state.player_indices if state.statuses[i]]
      deepest, faced = round(min(left)), False
      words += [] if len(board) == 6 else [board[-2:]]
      if len(left) == 2 and deepest > 0:
        starts[STREETS[len(board) // 2 - 3]] = (
          len(words),
          History(board, round(unit * state.total_pot_amount) / unit, deepest / unit, ""),
        )
    elif starts and what in ("f", "cc"):
      words.append("fold" if what == "f" else "call" if faced else "check")
    elif starts and what == "cbr":
      words.append(
        ("raise " if faced else "bet ") + shown(min(round(unit * Decimal(amount)), deepest), unit)
      )
      faced = True
  return {street: x._replace(line=", ".join(words[at:])) for street, (at, x) in starts.items()}
