"""A spot: its board, ranges and bets, the memory that it takes, and a played hand read into one."""

import contextlib
import dataclasses
import functools
import io
import math
import re
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import tyro

from games.arrays import checked, short
from games.poker import RANKS, SUITS, BetSizes, Betting, Deck, Holdem
from games.poker.betting import MAX_CHIPS
from games.poker.cards import shares_card
from games.poker.dealing import place_among
from games.poker.lines.boards import enumerate_boards, find_alike, hand_classes
from games.poker.lines.lines import betting_lines
from games.poker.notation import parse_donk, parse_range, parse_sizes
from rebel_jax.checkpoints import files
from rebel_jax.config import ConfigError, allowed, in_config_errors
from rebel_jax.devices import memory

_BOARDS = (3, 4, 5)  # cards
PLAYERS = ("OOP", "IP")
TEXT = allowed.text("TEXT")


@dataclasses.dataclass(frozen=True)
class Spot:
  """A spot between two players; the one out of position (OOP, player 0) acts first.

  Attributes:
    board: three, four or five cards, such as `Td9d6hQc`.
    oop, ip: the players' ranges, strings for `games.poker.parse_range`.
    pot: chips in the pot. Where chips have decimals, big blinds say, a hundredth is the least.
    stack: chips that each player has left.
    bets: Bet sizes, then after / raises: 33% of the pot, 2.5x the bet, 100c chips more, e (at most
      half the pot: e50%) for geometric, a for all-in, - for none; | separates streets.
    oop_bets: Sizes of the player out of position, if they are others.
    ip_bets: Sizes of the player in position, if they are others.
    donk_bets: Sizes of a first bet into who bet last on the street before, with | between streets
      after the first; - for none.
    near_all_in: Bets of at least this percentage of the chips left become all-in.
    add_all_in: All-in is a move wherever the chips left are at most this percentage of the pot.
    merge: Of two sizes whose pots after a call differ by at most this percentage the one listed
      first is kept.
    min_bet: The smallest bet, in chips; None for the least.
    rake: Percentage of every pot that the house takes.
    rake_cap: The most that it takes, in chips.
    lock: Frequencies that a player's range, or hands in brackets, keep to, the rest solved around
      them, such as "bet 66: fold 0.6, call 0.3; check, check, * [AA,KdQd]: bet 66 1"; * is any
      card, and moves that are not named share what is left.
    ranks, suits: the deck.
  """

  board: str
  oop: str
  ip: str
  pot: Annotated[float, allowed.chips(0.02, MAX_CHIPS)]
  stack: Annotated[float, allowed.chips(0.01, MAX_CHIPS)]
  bets: Annotated[str, allowed.text("SIZES")] = "33%,75%,a / 2.5x,a"
  oop_bets: Annotated[str | None, allowed.optional(TEXT)] = None
  ip_bets: Annotated[str | None, allowed.optional(TEXT)] = None
  donk_bets: Annotated[str | None, allowed.optional(TEXT)] = None
  near_all_in: Annotated[float | None, allowed.optional(allowed.number(100))] = None
  add_all_in: Annotated[float | None, allowed.optional(allowed.number(100_000))] = None
  merge: Annotated[float | None, allowed.optional(allowed.number(100))] = None
  min_bet: Annotated[float | None, allowed.optional(allowed.chips(0.01, MAX_CHIPS))] = None
  rake: Annotated[float, allowed.number(50, zero=True)] = 0.0
  rake_cap: Annotated[float | None, allowed.optional(allowed.chips(0, MAX_CHIPS))] = None
  lock: Annotated[str | None, allowed.optional(TEXT)] = None
  ranks: Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress] = RANKS
  suits: Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress] = SUITS

  @property
  def unit(self) -> int:
    """Chips of `game` that make one of the spot's: 100 where some have decimals."""
    sizes = filter(None, (self.bets, self.oop_bets, self.ip_bets, self.donk_bets))
    decimals = (
      self.pot < 2
      or any(x and x % 1 for x in (self.pot, self.stack, self.min_bet, self.rake_cap))
      or re.search(r"\.\d+\s*c", " ".join(sizes).lower())
    )
    return 100 if decimals else 1

  @property
  def form(self) -> str:
    """The format of values in the spot's chips."""
    return ".2f" if self.unit > 1 else ".1f"

  @in_config_errors()
  def game(self) -> Holdem:
    """Returns the rules of the spot, with the hands of the ranges alone as infostates.

    Raises:
      ConfigError: a setting is not allowed, a range is not understood, the board leaves none of
        it, or every hand of one player shares a card with every hand of the other.
    """
    allowed.check(self)
    deck = Deck(self.ranks, self.suits)
    board = deck.parse(self.board, field="board")
    if len(board) not in _BOARDS:
      raise ValueError(f"board={short(self.board)} holds {len(board)} cards; a spot has 3, 4 or 5")
    deals = (1,) * (_BOARDS[-1] - len(board))
    numbers = self.pot, self.stack, self.min_bet or 1 / self.unit, self.rake_cap or 0
    pot, stack, least, cap = (round(self.unit * x) for x in numbers)
    if pot // 2 + stack > MAX_CHIPS:
      raise ValueError(
        f"stack={self.stack} and half of pot={self.pot} are more than {MAX_CHIPS // self.unit}"
      )
    rules = Betting(
      (pot // 2 + stack,) * 2,
      (pot // 2,) * 2,
      least,
      dead=pot % 2,
      rake=self.rake / 100,
      rake_cap=None if self.rake_cap is None else cap,
    )
    bets = self._bet_sizes(len(deals) + 1)
    whole = Holdem(deck=deck, board=board, deals=deals, rules=rules, bets=bets)
    ranges = {x: _weights(getattr(self, x), deck, field=x) for x in ("oop", "ip")}
    free = ~np.isin(deck.hole_cards(), board).any(axis=1)
    for field in (x for x, weights in ranges.items() if not weights[free].any()):
      raise ValueError(f"{field}={short(getattr(self, field))} holds no hand that the board leaves")
    beliefs = whole.beliefs(np.stack([*ranges.values()]))
    if not (~shares_card(*(whole.hole_cards[row > 0] for row in beliefs))).any():
      raise ValueError(
        f"oop={short(self.oop)} and ip={short(self.ip)} cannot both be held: all their hands share "
        "cards"
      )
    return whole.only(beliefs)

  @in_config_errors()
  def lock_parts(self, game: Holdem) -> list[tuple[str, np.ndarray, str]]:
    """Returns the line, the hands `[H]` and the frequencies of each part of the lock."""
    found, places = [], place_among(game.deck.hole_cards(), game.hole_cards)
    for part in filter(str.strip, (self.lock or "").split(";")):
      head, _, wanted = part.rpartition(":")
      line, bracket, hands = head.partition("[")
      every = np.ones(len(game.deck.hole_cards()))
      held = _weights(hands.rstrip("] "), game.deck, field="lock") if bracket else every
      found.append((line, held[places] > 0, wanted))
    return found

  def apart(self, game: Holdem) -> np.ndarray:
    """Returns the hands that parts of the lock tell from others: `[parts, H]`."""
    return np.array([own for _, own, _ in self.lock_parts(game)]).reshape(-1, game.num_infostates)

  def _bet_sizes(self, rounds: int) -> BetSizes:
    fields = {"bets": self.bets, "oop_bets": self.oop_bets, "ip_bets": self.ip_bets}
    sizes = {
      name: parse_sizes(x, rounds, field=name, unit=self.unit)
      for name, x in fields.items()
      if x is not None
    }
    shares: Any = {
      name: None if getattr(self, name) is None else getattr(self, name) / 100
      for name in ("near_all_in", "add_all_in", "merge")
    }
    first, second = (sizes.get(name, sizes["bets"]) for name in ("oop_bets", "ip_bets"))
    donk = None
    if self.donk_bets is not None:
      donk = parse_donk(self.donk_bets, rounds, field="donk_bets", unit=self.unit)
    return BetSizes(first, all_in=False, second=second, donk=donk, **shares)


def shown(number: int, unit: int) -> str:
  """Returns a number of chips as text, in those that `unit` of them make."""
  return f"{number / unit:.2f}".rstrip("0").rstrip(".") if unit > 1 else str(number)


# Reading a range takes longer than solving a river, and many boards share one range.
_weights = functools.lru_cache(maxsize=16)(parse_range)


_MOST_LINES = 1_000_000
# Bytes, as measured on a flop of 184 and 269 hands (docs/results/poker.md).
_OF_EDGE = 12, 10  # two tables, in 32 or 16 bits, and what is read at the end
_OF_START = 16  # of an edge, where a solve goes on: sums twice and the policy (14 on a turn)
_OF_COLUMN = 60  # of the last round: beliefs, strengths, places of sorted hands
_OF_ARRIVAL = 12  # a line that comes to the last round, and a column
_OF_PROGRAM = 0.3e9


@in_config_errors()
@checked
def measure(spot: Spot, half_tables: bool = False, begun: bool = False) -> tuple[str, float]:
  """Returns the size of a spot in words, and about how many GB a solve takes; it makes nothing."""
  game = spot.game()
  levels, _ = betting_lines(game, _MOST_LINES)
  beliefs = np.asarray(game.prior())
  alike = find_alike(game, np.concatenate([beliefs, spot.apart(game)]))
  boards = enumerate_boards(game, alike)
  widths = [
    [hand_classes(game, row > 0, own, alike).hand.size for row in beliefs] for own in boards
  ]
  # Entries of a table: moves by boards and hands, both players' together.
  edges = sum(x.size * widths[x.street][x.mover] for x in levels if x.mover is not None)
  arrivals = next(x.size for x in levels if x.street == len(boards) - 1)
  needed = (_OF_EDGE[half_tables] + _OF_START * begun) * edges
  needed += sum(widths[-1]) * (_OF_COLUMN + _OF_ARRIVAL * arrivals)
  words = f"{sum(x.size for x in levels):,} lines of betting, {len(boards[-1].cards):,} boards"
  return words, (needed + _OF_PROGRAM) / 1e9


@checked
def check_fits(
  spot: Spot, gigabytes: float | None = None, half_tables: bool = False, begun: bool = False
) -> str:
  """Returns the size of a spot in words, at most `gigabytes`, None for 3/4 of the machine's."""
  words, needed = measure(spot, half_tables, begun)
  limit = 0.75e-9 * (memory()[1] or math.inf) if gigabytes is None else gigabytes
  if needed > limit:
    raise ConfigError(
      f"board={spot.board!r} with these bets and ranges makes {words}, which "
      f"take about {needed:,.1f} GB to solve, and {limit:,.1f} are allowed; take fewer "
      "bet sizes, narrower ranges, a later street or more --memory"
    )
  return words


# Hands that were played: PHH files and PokerStars' text, by pokerkit.

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
