"""A player of an ACPC match over TCP."""

import socket
import time

from rebel_jax.tables import acpc
from rebel_jax.tables.chips import ChipPlayer, ChipTable, Event, TableRules

_PAUSE = 0.1  # seconds between attempts to connect


class TableError(ValueError):
  """The other program is not there, has gone, is too slow, or says what the protocol has not."""


class HandFollower:
  """Tells a player of hands what is new in each state of them.

  Attributes:
    table: the hand so far; None before the first.
    ended: whether the last state followed was the first that said how its hand ended.
  """

  def __init__(self, player: ChipPlayer, rules: TableRules):
    self.player, self.rules = player, rules
    self.table: ChipTable | None = None
    self.ended = False
    self._hand: object = None

  def follow(self, hand: object, seat: int, table: ChipTable) -> bool:
    """Takes the state of a hand, and returns whether it is the player's turn.

    Args:
      hand: what tells it from others.
      seat: the player's.
      table: all of it so far.

    Raises:
      ValueError: it does not go on from the state before.
    """
    seen: list[Event] = []
    if self.table is not None and hand == self._hand:
      seen, held = self.table.events, self.table.hole_cards[seat]
      if table.events[: len(seen)] != seen or table.hole_cards[seat] != held:
        raise ValueError(f"hand={hand!r} does not go on from where it was")
    elif self.table is not None and not self.table.is_over:
      raise ValueError(f"hand={hand!r} begins before the one before has ended")
    else:
      held = table.hole_cards[seat]
      assert held is not None
      self.player.start(seat, held)
    self.ended = table.is_over and not (hand == self._hand and len(seen) == len(table.events))
    self.table, self._hand = table, hand
    for event in table.events[len(seen) :]:
      self.player.observe(event)
    return table.actor == seat


def play_acpc(
  player: ChipPlayer,
  rules: TableRules,
  host: str,
  port: int,
  *,
  timeout: float = 600.0,
  connect_timeout: float = 10.0,
) -> list[int]:
  """Plays a match until the dealer closes the connection; returns the chips won in each hand.

  Args:
    player: who decides.
    rules: what the dealer deals.
    host, port: where it listens.
    timeout: seconds to wait for a line of the dealer's.
    connect_timeout: seconds to wait for the dealer to come.

  Raises:
    TableError: there is no dealer, it is too slow, goes away in a hand, or sends what is no state
      of a hand by these rules.
  """
  where = f"{host}:{port}"
  connection = _connect(host, port, where, connect_timeout)
  chips: list[int] = []
  follower = HandFollower(player, rules)
  with connection:
    connection.settimeout(timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    lines = _Lines(connection, where, timeout)
    lines.send(acpc.VERSION)
    while (line := lines.read()) is not None:
      if not line or line[0] in "#;":
        continue
      answer = _answer(line, follower, rules, chips)
      if answer is not None:
        lines.send(f"{line}:{answer}")
  if follower.table is not None and not follower.table.is_over:
    raise TableError(
      f"the dealer at {where} closed the connection in the hand after {len(chips)} others"
    )
  return chips


def _connect(host: str, port: int, where: str, timeout: float) -> socket.socket:
  """Returns a connection, tried again while nobody listens yet."""
  end = time.monotonic() + timeout
  while True:
    try:
      return socket.create_connection((host, port), timeout=timeout)
    except ConnectionRefusedError as error:
      if time.monotonic() + _PAUSE > end:
        raise TableError(f"no dealer answers at {where}: {error}") from None
      time.sleep(_PAUSE)
    except (OSError, UnicodeError) as error:
      raise TableError(f"no dealer answers at {where}: {error}") from None


def _answer(line: str, follower: HandFollower, rules: TableRules, chips: list[int]) -> str | None:
  """Returns the action that a line of the dealer's asks for, or None; adds what an end pays."""
  try:
    state = acpc.parse_line(line)
    table = acpc.read_table(state, rules)
    seat = rules.seat_of(state.position)
    turn = follower.follow(state.hand, seat, table)
    if follower.ended:
      chips.append(table.payoffs()[seat])
  except ValueError as error:
    raise TableError(f"the dealer sent {acpc.short(line)!r}: {error}") from None
  return acpc.write_action(follower.player.act()) if turn else None


class _Lines:
  """Lines over a connection, those that are too long or too late refused."""

  def __init__(self, connection: socket.socket, where: str, timeout: float):
    self._connection, self._where, self._timeout = connection, where, timeout
    self._rest = b""

  def send(self, line: str) -> None:
    try:
      self._connection.sendall(line.encode("ascii") + b"\r\n")
    except OSError as error:
      raise TableError(f"the dealer at {self._where} cannot be answered: {error}") from None

  def read(self) -> str | None:
    """Returns the next line without space at its end; None where the connection is closed."""
    while b"\n" not in self._rest:
      if len(self._rest) > acpc.MAX_LINE:
        raise TableError(
          f"the dealer at {self._where} sent a line of more than {acpc.MAX_LINE} characters"
        )
      try:
        more = self._connection.recv(65_536)
      except TimeoutError:
        raise TableError(
          f"the dealer at {self._where} said nothing for timeout={self._timeout:g} seconds"
        ) from None
      except OSError as error:
        raise TableError(f"the connection to the dealer at {self._where} broke: {error}") from None
      if not more:
        if self._rest.strip():
          raise TableError(f"the dealer at {self._where} closed the connection within a line")
        return None
      self._rest += more
    line, _, self._rest = self._rest.partition(b"\n")
    return line.decode("ascii", errors="backslashreplace").rstrip()
