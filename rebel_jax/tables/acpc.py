"""The text of the ACPC match protocol 2.0.0: states of a hand as lines, and back.

A line is `MATCHSTATE:position:hand:betting:cards`. Position 0 has the big blind and acts first in
all rounds but the first. `rN` raises to N chips of the whole hand, and `/` begins a round, both in
the betting and before the cards of the board; nothing else says that cards are due.
"""

import dataclasses
import re

from rebel_jax.tables.chips import Call, ChipTable, Deal, Event, Fold, Move, RaiseTo, TableRules

VERSION = "VERSION:2.0.0"
MAX_LINE = 10_000  # characters; a hand with every raise of the smallest size takes fewer
_TOKEN = re.compile(r"f|c|r\d{1,10}|/")


@dataclasses.dataclass(frozen=True)
class MatchState:
  """One line, its parts not read yet.

  Attributes:
    position: of who reads it.
    hand: the hand's number.
    betting: such as `cr300c/`.
    cards: such as `|AhKd/2s3s4s`, hole cards by position.
  """

  position: int
  hand: int
  betting: str
  cards: str

  def __str__(self) -> str:
    return f"MATCHSTATE:{self.position}:{self.hand}:{self.betting}:{self.cards}"


def parse_line(line: str) -> MatchState:
  """Splits a line of the dealer's, without its end.

  Raises:
    ValueError: it is not a state.
  """
  found = re.fullmatch(r"MATCHSTATE:([01]):(\d{1,18}):([^:]*):([^:]*)", line, re.ASCII)
  if found is None:
    raise ValueError(
      f"line={short(line)!r} must be MATCHSTATE:position:hand:betting:cards, the position 0 or 1"
    )
  return MatchState(int(found[1]), int(found[2]), found[3], found[4])


def parse_answer(line: str) -> tuple[MatchState, str]:
  """Splits a player's answer, a state and `:` and an action, without its end.

  Raises:
    ValueError: it is not an answer.
  """
  state, _, action = line.rpartition(":")
  if line.count(":") != 5:
    raise ValueError(f"line={short(line)!r} must be the state, a colon and an action")
  return parse_line(state), action


def read_table(state: MatchState, rules: TableRules) -> ChipTable:
  """Returns the hand that a state is of, every event checked.

  Raises:
    ValueError: an action is not legal there, or cards are missing, too many or not of the deck.
  """
  hands, *boards = state.cards.split("/")
  held = hands.split("|")
  if len(held) != 2:
    raise ValueError(f"cards={short(state.cards)!r} must begin with both hands, | between them")
  deck, table = rules.deck, ChipTable(rules)
  for position, text in enumerate(held):
    table.show(rules.seat_of(position), deck.parse(text) if text else None)
  reads = rules.seat_of(state.position)
  if table.hole_cards[reads] is None:
    raise ValueError(f"cards={short(state.cards)!r} lack the hand of position {state.position}")
  for token in _tokens(state.betting):
    if token == "/":
      if not table.due:
        raise ValueError(f"betting={short(state.betting)!r} has a / where a round is not over")
      if table.round >= len(boards):
        raise ValueError(f"cards={short(state.cards)!r} lack those after round {table.round + 1}")
      table.apply(Deal(deck.parse(boards[table.round])))
    else:
      table.apply(read_action(token))
  if table.due:
    raise ValueError(f"betting={short(state.betting)!r} must end with / where cards are due")
  if len(boards) > table.round:
    raise ValueError(f"cards={short(state.cards)!r} are more than the betting has rounds")
  return table


def read_action(text: str) -> Move:
  """Reads an action: `f`, `c` or `rN`.

  Raises:
    ValueError: it is none.
  """
  if text == "f":
    return Fold()
  if text == "c":
    return Call()
  if re.fullmatch(r"r\d{1,10}", text, re.ASCII):
    return RaiseTo(int(text[1:]))
  raise ValueError(f"action={short(text)!r} must be f, c or rN with N chips of the whole hand")


def write_action(move: Move) -> str:
  """Returns an action as text."""
  if isinstance(move, RaiseTo):
    return f"r{move.chips}"
  return "f" if isinstance(move, Fold) else "c"


def write_betting(events: list[Event]) -> str:
  """Returns the betting of a hand as text; a deal begins a round."""
  return "".join("/" if isinstance(event, Deal) else write_action(event) for event in events)


def write_cards(table: ChipTable, position: int | None = None) -> str:
  """Returns the cards that a position sees: the other's hand at a showdown alone; None: all."""
  rules, hands = table.rules, []
  for place in (0, 1):
    held = table.hole_cards[rules.seat_of(place)]
    shown = position in (None, place) or (table.is_over and table.folded is None)
    hands.append(rules.deck.names(held) if held is not None and shown else "")
  deals = [rules.deck.names(event.cards) for event in table.events if isinstance(event, Deal)]
  return "/".join(["|".join(hands), *deals])


def write_state(table: ChipTable, hand: int, position: int) -> MatchState:
  """Returns the state of a hand, where no cards are due, as a position sees it."""
  return MatchState(position, hand, write_betting(table.events), write_cards(table, position))


def write_log(table: ChipTable, hand: int, names: tuple[str, str]) -> str:
  """Returns a finished hand as a line of a match's log; `names` are those of seats 0 and 1."""
  rules, payoffs = table.rules, table.payoffs()
  seats = [rules.seat_of(position) for position in (0, 1)]
  values = "|".join(str(payoffs[seat]) for seat in seats)
  named = "|".join(names[seat] for seat in seats)
  return f"STATE:{hand}:{write_betting(table.events)}:{write_cards(table)}:{values}:{named}"


def _tokens(betting: str) -> list[str]:
  tokens = _TOKEN.findall(betting)
  if "".join(tokens) != betting:
    raise ValueError(f"betting={short(betting)!r} must be of f, c, rN and /")
  return tokens


def short(text: str) -> str:
  """Returns what an error shows of a text from outside."""
  return text if len(text) <= 80 else text[:77] + "..."
