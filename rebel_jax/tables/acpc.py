"""The ACPC match protocol 2.0.0: states of a hand as lines, a player over TCP, and a dealer.

A line is `MATCHSTATE:position:hand:betting:cards`, in which position 0 has the big blind, `rN`
raises to N chips of the whole hand, and `/` begins a round.
"""

import contextlib
import functools
import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from games.arrays import Player, checked, short
from games.poker.holdem import Holdem
from rebel_jax.config import in_config_errors
from rebel_jax.tables.chips import (
  ChipMatchResult,
  ChipPlayer,
  ChipTable,
  Deal,
  Dialect,
  Event,
  Hand,
  Move,
  hands_of,
  next_deal,
  seat_of,
  summarise_chips,
)

T = TypeVar("T")

MAX_LINE = 10_000  # characters; a hand with every raise of the smallest size takes fewer
MOST_HANDS = 2**24  # of a match
_MAX_SENTENCE = 600  # characters


class TableError(ValueError):
  """The other program is absent, gone, too slow, or breaks the protocol."""

  def __init__(self, sentence: str):
    shown = (char if char.isprintable() else ascii(char)[1:-1] for char in sentence)
    super().__init__("".join(shown)[:_MAX_SENTENCE])


def within(seconds: float, call: Callable[[], T]) -> T:
  """Returns the result of `call`; raises a TimeoutError after `seconds`, and the call goes on."""
  done: Future[T] = Future()

  def run() -> None:
    try:
      done.set_result(call())
    except BaseException as error:
      done.set_exception(error)

  threading.Thread(target=run, daemon=True).start()
  return done.result(seconds)


class LineStream:
  """Lines to and from the program at the other end of a connection, called `name` in errors."""

  def __init__(self, connection: socket.socket, name: str, timeout: float):
    self.name, self._connection, self._timeout = name, connection, timeout
    self._rest = b""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

  def send(self, line: str) -> None:
    self._connection.settimeout(self._timeout)
    with in_config_errors(f"{self.name} does not take what it is sent", OSError, raises=TableError):
      self._connection.sendall(line.encode("ascii") + b"\r\n")

  def read(self) -> str | None:
    """Returns the next line that is no comment, without space at its end; None where none comes."""
    end = time.monotonic() + self._timeout
    while (text := self.next()) is None:
      if not self.receive(end):
        return None
    return text

  def next(self) -> str | None:
    """Returns the next such line of the bytes received; None where none is whole."""
    while b"\n" in self._rest or len(self._rest) > MAX_LINE:
      line, _, self._rest = self._rest.partition(b"\n")
      if len(line) > MAX_LINE:
        raise TableError(f"{self.name} sent a line of more than {MAX_LINE} characters")
      text = line.decode("ascii", errors="backslashreplace").rstrip()
      if text and text[0] not in "#;":
        return text
    return None

  def receive(self, end: float) -> bool:
    """Waits for more, until `time.monotonic()` is `end`; returns whether there is any."""
    try:
      self._connection.settimeout(max(end - time.monotonic(), 0))
      more = self._connection.recv(65_536)
    except (TimeoutError, BlockingIOError):
      raise TableError(f"{self.name} gave no answer in timeout={self._timeout:g} seconds") from None
    except OSError as error:
      raise TableError(f"the connection to {self.name} broke: {error}") from None
    if not more and self._rest.strip():
      raise TableError(f"{self.name} closed the connection within a line")
    self._rest += more
    return bool(more)


VERSION = "VERSION:2.0.0"
DIALECT = Dialect("c", "c", "r", of_round=False)


@checked
def read_state(line: str, rules: Holdem) -> tuple[int, int, ChipTable]:
  """Returns number, reader's seat and table of the hand that a line is of, every event checked."""
  found = re.fullmatch(r"MATCHSTATE:([01]):(\d{1,18}):([^:]*):([^:]*)", line, re.ASCII)
  if found is None:
    raise ValueError(
      f"line={short(line)} must be MATCHSTATE:position:hand:betting:cards, the position 0 or 1"
    )
  position, number, text, cards = found.groups()
  hands, *boards = cards.split("/")
  held = hands.split("|")
  if len(held) != 2:
    raise ValueError(f"cards={short(cards)} must begin with both hands, | between them")
  deck, table, seat = rules.deck, ChipTable(rules), seat_of(rules, int(position))
  for place, hand in enumerate(held):
    table.show(seat_of(rules, place), deck.parse(hand) if hand else None)
  if table.hole_cards[seat] is None:
    raise ValueError(f"cards={short(cards)} lack the hand of position {position}")
  board = deck.parse("".join(boards))
  DIALECT.read_betting(table, "betting", text, board)
  if [len(deck.parse(x)) for x in boards] != list(rules.deals[: text.count("/")]):
    raise ValueError(f"cards={short(cards)} must have a / and cards for each / of the betting")
  return int(number), seat, table


@checked
def write_cards(table: ChipTable, position: Player | None = None) -> str:
  """Returns the cards that a position sees: the other's hand at a showdown alone; None: all."""
  rules, hands = table.rules, []
  for place in (0, 1):
    held = table.hole_cards[seat_of(rules, place)]
    shown = position in (None, place) or (table.is_over and table.turn.folded is None)
    hands.append(rules.deck.names(held) if held is not None and shown else "")
  deals = [rules.deck.names(event.cards) for event in table.events if isinstance(event, Deal)]
  return "/".join(["|".join(hands), *deals])


@checked
def write_state(table: ChipTable, hand: int, position: int) -> str:
  """Returns the line of a hand, where no cards are due, as a position sees it."""
  betting = DIALECT.write_betting(table)
  return f"MATCHSTATE:{position}:{hand}:{betting}:{write_cards(table, position)}"


@checked
def write_log(table: ChipTable, hand: int, names: tuple[str, str]) -> str:
  """Returns a finished hand as a line of a match's log; `names` are those of seats 0 and 1."""
  rules, payoffs = table.rules, table.payoffs()
  seats = [seat_of(rules, position) for position in (0, 1)]
  values = "|".join(str(payoffs[seat]) for seat in seats)
  named = "|".join(names[seat] for seat in seats)
  return f"STATE:{hand}:{DIALECT.write_betting(table)}:{write_cards(table)}:{values}:{named}"


_PAUSE = 0.1  # seconds between attempts to connect


class HandFollower:
  """Tells a player of hands what is new in each state of them."""

  @checked
  def __init__(self, player: ChipPlayer, rules: Holdem):
    self.player, self.rules = player, rules
    self.table: ChipTable | None = None
    self._hand: object = None
    self._awaited: list[Event] = []  # the player's own move, where it has made one

  def follow(self, hand: object, seat: int, table: ChipTable) -> bool:
    """Takes the state of a hand, and returns whether it is the player's turn."""
    seen: list[Event] = []
    if self.table is not None and hand == self._hand:
      seen, held = self.table.events, self.table.hole_cards[seat]
      after = [*seen, *self._awaited]
      goes_on = table.events[: len(after)] == after and len(table.events) > len(seen)
      if not goes_on or table.hole_cards[seat] != held:
        raise ValueError(f"hand={short(hand)} does not go on from where it was")
    elif self.table is not None and not self.table.is_over:
      raise ValueError(f"hand={short(hand)} begins before the one before has ended")
    else:
      held = table.hole_cards[seat]
      assert held is not None
      self.player.start(seat, held)
    self.table, self._hand, self._awaited = table, hand, []
    for event in table.events[len(seen) :]:
      self.player.observe(event)
    return table.turn.actor == seat

  def act(self) -> Move:
    """Returns the player's move, with which the hand must go on."""
    move = self.player.act()
    self._awaited = [move]
    return move


@checked
def play_acpc(
  player: ChipPlayer,
  rules: Holdem,
  host: str,
  port: int,
  *,
  timeout: float = 600.0,
  connect_timeout: float = 10.0,
  log: Callable[[int], None] = lambda chips: None,
) -> list[int]:
  """Plays until the dealer closes the connection; returns the chips won in each hand."""
  where = f"{host}:{port}"
  connection = _connect(host, port, where, connect_timeout)
  chips: list[int] = []
  follower = HandFollower(player, rules)
  with connection:
    lines = LineStream(connection, f"the dealer at {where}", timeout)
    lines.send(VERSION)
    while len(chips) < MOST_HANDS and (line := lines.read()) is not None:
      with in_config_errors(f"the dealer sent {short(line)}", ValueError, raises=TableError):
        hand, seat, table = read_state(line, rules)
        turn = follower.follow(hand, seat, table)
        won = [table.payoffs()[seat]] if table.is_over else []
      for number in won:
        chips.append(number)
        log(number)
      if turn:
        lines.send(f"{line}:{DIALECT.write(table.turn, follower.act())}")
  if follower.table is not None and not follower.table.is_over:
    raise TableError(
      f"the dealer at {where} closed the connection in the hand after {len(chips)} others"
    )
  return chips


def _connect(host: str, port: int, where: str, timeout: float) -> socket.socket:
  """Returns a connection, tried again until the other program listens."""
  end = time.monotonic() + timeout
  while True:
    left = max(end - time.monotonic(), 1e-3)
    try:
      return within(left, functools.partial(socket.create_connection, (host, port), left))
    except (OSError, UnicodeError) as error:
      if not isinstance(error, ConnectionRefusedError) or time.monotonic() + _PAUSE > end:
        raise TableError(f"no dealer answers at {where}: {error}") from None
      time.sleep(_PAUSE)


class MatchDealer:
  """Deals one match: `with` it, players may come, and `play` deals to them."""

  @checked
  def __init__(
    self,
    rules: Holdem,
    *,
    num_hands: int,
    seed: int = 0,
    duplicate: bool = True,
    names: tuple[str, str] = ("first", "second"),
    host: str = "127.0.0.1",
    ports: tuple[int, int] = (0, 0),
    start_timeout: float = 60.0,
    timeout: float = 60.0,
    log: Callable[[str], None] = lambda line: None,
  ):
    """Prepares a match."""
    for name in names:
      if not name or not name.isprintable() or set(name) & set(":|") or names[0] == names[1]:
        raise ValueError(f"names={names!r} must be two different names without : and |")
    self.rules, self.names, self.ports = rules, names, ports
    self._deals = functools.partial(
      hands_of, rules, num_hands=num_hands, seed=seed, duplicate=duplicate
    )
    next(self._deals())  # what is not allowed is refused now
    self._host, self._log, self._start_timeout, self._timeout = host, log, start_timeout, timeout

  def __enter__(self) -> "MatchDealer":
    """Begins to listen; raises a TableError with a port that is not free."""
    taken = f"ports={self.ports} of {self._host} cannot be had"
    with contextlib.ExitStack() as opened, in_config_errors(taken, OSError, raises=TableError):
      servers = (socket.create_server((self._host, port)) for port in self.ports)
      self._servers = [opened.enter_context(server) for server in servers]
      self._open = opened.pop_all()
    first, second = (server.getsockname()[1] for server in self._servers)
    self.ports = first, second
    return self

  def __exit__(self, *error: object) -> None:
    self._open.close()

  def play(self) -> ChipMatchResult:
    """Plays the match, and returns what the first player won."""
    end = time.monotonic() + self._start_timeout
    players = [self._greeted(number, end) for number in (0, 1)]
    self._log(f"# players {' '.join(self.names)}")
    deals, chips = self._deals.keywords, []
    self._log(f"# hands={deals['num_hands']} seed={deals['seed']} duplicate={deals['duplicate']}")
    for hand in self._deals():
      turn = slice(None, None, 1 - 2 * hand.first_seat)
      table, names = self._play_hand(players[turn], hand), self.names[turn]
      self._log(write_log(table, hand.number, (names[0], names[1])))
      chips.append(table.payoffs()[hand.first_seat])
    self._log(f"SCORE:{sum(chips)}|{-sum(chips)}:{'|'.join(self.names)}")
    return summarise_chips(chips, self.rules, deals["duplicate"])

  def _greeted(self, number: int, end: float) -> LineStream:
    """Returns the first connection to a player's port that greets; others are closed."""
    server, name, said = self._servers[number], self.names[number], ""
    with selectors.DefaultSelector() as waiting:
      waiting.register(server, selectors.EVENT_READ)
      while (left := end - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
          if key.data is None:
            connection = self._open.enter_context(server.accept()[0])
            lines = LineStream(connection, f"player {name!r}", self._timeout)
            waiting.register(connection, selectors.EVENT_READ, (connection, lines))
            continue
          connection, lines = key.data
          try:
            goes_on, greeting = lines.receive(end), lines.next()
            if greeting is not None and greeting.startswith("VERSION:2."):
              return lines
            if greeting is not None:
              raise TableError(f"{lines.name} sent {short(greeting)}, must be {VERSION} first")
          except TableError as error:
            goes_on, said = False, f"; {error}"
          if not goes_on:
            waiting.unregister(connection)
            connection.close()
    raise TableError(
      f"player {name!r} did not come to port {self.ports[number]} in "
      f"start_timeout={self._start_timeout:g} seconds{said}"
    )

  def _play_hand(self, players: Sequence[LineStream], hand: Hand) -> ChipTable:
    """Plays a hand between the players of seats 0 and 1."""
    table = ChipTable(self.rules, hand.hole_cards)
    while True:
      while table.due:
        table.apply(next_deal(table, hand.board))
      states = [write_state(table, hand.number, seat_of(self.rules, seat)) for seat in (0, 1)]
      for player, state in zip(players, states):
        player.send(state)
      if table.turn.actor is None:
        return table
      player, state = players[table.turn.actor], states[table.turn.actor]
      with in_config_errors(f"in hand {hand.number}", TableError, raises=TableError):
        answer = player.read()
        if answer is None:
          raise TableError(f"{player.name} left")
      answered = f"{player.name} answered {short(answer)} in hand {hand.number}"
      with in_config_errors(answered, ValueError, raises=TableError):
        said, _, action = answer.rpartition(":")
        if said != state:
          raise ValueError(f"it must be {short(state)}, a colon and an action")
        table.apply(DIALECT.read(table.turn, action))
