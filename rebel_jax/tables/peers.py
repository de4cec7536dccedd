"""Deadlines and bounds of exchanges with other programs over a network.

Errors hold a peer's words in printable characters.
"""

import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

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
  """Returns the result of `call`, which may wait on a peer in any way.

  Raises:
    TimeoutError: it took more than `seconds`; it goes on by itself.
  """
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
    try:
      self._connection.sendall(line.encode("ascii") + b"\r\n")
    except OSError as error:
      raise TableError(f"{self.name} does not take what it is sent: {error}") from None

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
