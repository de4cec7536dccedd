"""A dealer of ACPC matches: two players over TCP, one port each.

It deals the hands that `chip_match.hands_of` yields, so that the same match can be played in one
process, and writes them as lines of ACPC's logs.
"""

import asyncio
import functools
from collections.abc import Callable
from typing import NamedTuple

from rebel_jax.tables import acpc
from rebel_jax.tables.acpc_client import TableError
from rebel_jax.tables.chip_match import ChipMatchResult, Hand, hands_of, next_deal
from rebel_jax.tables.chips import ChipTable, Move, TableRules


class _Seat(NamedTuple):
  """A player's connection."""

  name: str
  reader: asyncio.StreamReader
  writer: asyncio.StreamWriter


class Dealer:
  """Deals one match: `open`, then `play`; `async with` opens it and closes what is open.

  Attributes:
    rules: what is played.
    names: of the first player and the second.
    ports: where each of them is to connect, once it is open.
  """

  def __init__(
    self,
    rules: TableRules,
    *,
    num_hands: int,
    seed: int = 0,
    duplicate: bool = True,
    names: tuple[str, str] = ("first", "second"),
    host: str = "127.0.0.1",
    ports: tuple[int, int] = (0, 0),
    start_timeout: float = 60.0,
    timeout: float = 60.0,
    log: Callable[[str], None] | None = None,
  ):
    """Prepares a match.

    Args:
      rules: what is played.
      num_hands, seed, duplicate: as for `hands_of`.
      names: of both players, for the log.
      host: address to listen at.
      ports: one for each player; 0 for any that is free.
      start_timeout: seconds that players have to come.
      timeout: seconds that a player has for each move.
      log: called with every line of the match's log.

    Raises:
      ValueError: a number is not allowed, or a name has characters that end a field of the log.
    """
    for name in names:
      if not name or not name.isprintable() or set(name) & set(":|") or names[0] == names[1]:
        raise ValueError(f"names={names!r} must be two different names without : and |")
    self.rules, self.names, self.ports = rules, names, ports
    self._deals = functools.partial(
      hands_of, rules, num_hands=num_hands, seed=seed, duplicate=duplicate
    )
    next(self._deals())  # what is not allowed is refused now
    self._duplicate, self._host = duplicate, host
    self._start_timeout, self._timeout = start_timeout, timeout
    self._log = log or (lambda line: None)
    self._log_head = f"# hands={num_hands} seed={seed} duplicate={duplicate}"
    self._servers: list[asyncio.Server] = []
    self._arrived: list[asyncio.Future[_Seat]] = []

  async def __aenter__(self) -> "Dealer":
    await self.open()
    return self

  async def __aexit__(self, *error: object) -> None:
    await self.close()

  async def open(self) -> None:
    """Begins to listen.

    Raises:
      TableError: a port cannot be had.
    """
    ports = []
    for number, name in enumerate(self.names):
      arrived: asyncio.Future[_Seat] = asyncio.get_running_loop().create_future()
      port = self.ports[number]
      try:
        server = await asyncio.start_server(
          self._greeter(name, arrived), self._host, port, limit=acpc.MAX_LINE
        )
      except OSError as error:
        await self.close()
        raise TableError(f"port={port} of {self._host} cannot be had: {error}") from None
      self._servers.append(server)
      self._arrived.append(arrived)
      ports.append(server.sockets[0].getsockname()[1])
    self.ports = ports[0], ports[1]

  async def close(self) -> None:
    """Closes what is open."""
    for server in self._servers:
      server.close()
    for arrived in self._arrived:
      if arrived.done() and not arrived.cancelled():
        arrived.result().writer.close()
      else:
        arrived.cancel()
    self._servers, self._arrived = [], []

  def _greeter(self, name: str, arrived: "asyncio.Future[_Seat]"):
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
      if arrived.done():
        writer.close()
      else:
        arrived.set_result(_Seat(name, reader, writer))

    return greet

  async def play(self) -> ChipMatchResult:
    """Plays the match, and returns what the first player won.

    Raises:
      TableError: a player does not come, goes away, takes too long, or makes no legal move; hands
        that ended before are in the log.
    """
    players = []
    for name, port, arrived in zip(self.names, self.ports, self._arrived):
      try:
        players.append(await asyncio.wait_for(asyncio.shield(arrived), self._start_timeout))
      except TimeoutError:
        raise TableError(
          f"player {name!r} did not come to port {port} in start_timeout={self._start_timeout:g} "
          "seconds"
        ) from None
    for player in players:
      greeting = await self._read(player, "greeted")
      if not greeting.startswith("VERSION:2."):
        raise TableError(
          f"player {player.name!r} sent {acpc.short(greeting)!r}, must be {acpc.VERSION} first"
        )
    self._log(f"# players {' '.join(self.names)}")
    self._log(self._log_head)
    chips = []
    for hand in self._deals():
      seats = players if hand.first_seat == 0 else players[::-1]
      table = await self._play_hand(seats, hand)
      self._log(acpc.write_log(table, hand.number, (seats[0].name, seats[1].name)))
      chips.append(table.payoffs()[hand.first_seat])
    self._log(f"SCORE:{sum(chips)}|{-sum(chips)}:{'|'.join(self.names)}")
    return ChipMatchResult(tuple(chips), self.rules.rules.big_blind, self._duplicate)

  async def _play_hand(self, seats: list[_Seat], hand: Hand) -> ChipTable:
    table = ChipTable(self.rules, hand.hole_cards)
    while True:
      while table.due:
        table.apply(next_deal(table, hand.board))
      for seat in (0, 1):
        await self._send(seats[seat], self._state(table, hand, seat))
      if table.actor is None:
        return table
      table.apply(await self._ask(seats[table.actor], table, hand), seat=table.actor)

  def _state(self, table: ChipTable, hand: Hand, seat: int) -> str:
    return str(acpc.write_state(table, hand.number, self.rules.seat_of(seat)))

  async def _ask(self, player: _Seat, table: ChipTable, hand: Hand) -> Move:
    """Returns the move of the player whose turn it is."""
    assert table.actor is not None
    state = self._state(table, hand, table.actor)
    answer = await self._read(player, f"moved in hand {hand.number}")
    try:
      said, action = acpc.parse_answer(answer)
      if str(said) != state:
        raise ValueError(f"it must begin with {acpc.short(state)!r}")
      move = acpc.read_action(action)
      table.copy().apply(move)
    except ValueError as error:
      raise TableError(
        f"player {player.name!r} answered {acpc.short(answer)!r} in hand {hand.number}: {error}"
      ) from None
    return move

  async def _send(self, player: _Seat, line: str) -> None:
    try:
      player.writer.write(line.encode("ascii") + b"\r\n")
      await asyncio.wait_for(player.writer.drain(), self._timeout)
    except (TimeoutError, OSError):
      raise TableError(f"player {player.name!r} does not take what it is sent") from None

  async def _read(self, player: _Seat, what: str) -> str:
    """Returns a line of a player's, comments left out; `what` it had to do for the error."""
    try:
      async with asyncio.timeout(self._timeout):
        while True:
          line = await player.reader.readline()
          if not line.endswith(b"\n"):
            raise TableError(f"player {player.name!r} left before it {what}")
          text = line.decode("ascii", errors="backslashreplace").rstrip("\r\n")
          if text and text[0] not in "#;":
            return text
    except TimeoutError:
      raise TableError(
        f"player {player.name!r} took more than timeout={self._timeout:g} seconds before it {what}"
      ) from None
    except ValueError as error:
      if isinstance(error, TableError):
        raise
      raise TableError(
        f"player {player.name!r} sent a line of more than {acpc.MAX_LINE} characters"
      ) from None
    except OSError:
      raise TableError(f"player {player.name!r} left before it {what}") from None
