"""Leaving in good order when asked to."""

import signal
import threading
from types import FrameType


class Interrupted(Exception):  # noqa: N818 - not an error
  """A signal arrived in the middle of work that can be done again."""


class Signals:
  """Notes SIGINT and SIGTERM inside a `with` block instead of dying of them.

  A second one restores what signals did before and raises KeyboardInterrupt. Outside of the main
  thread, where Python allows no handlers, nothing is noted.

  Attributes:
    received: the signal's number, 0 for none yet.
  """

  def __init__(self):
    self.received = 0
    self._before: dict[int, object] = {}

  def __enter__(self) -> "Signals":
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGINT, signal.SIGTERM):
        self._before[number] = signal.signal(number, self._note)
    return self

  def __exit__(self, *_) -> None:
    self._restore()

  def check(self) -> None:
    """Raises `Interrupted` if a signal was received."""
    if self.received:
      raise Interrupted

  def _note(self, number: int, frame: FrameType | None) -> None:
    del frame
    if self.received:
      self._restore()
      raise KeyboardInterrupt
    self.received = number

  def _restore(self) -> None:
    while self._before:
      number, handler = self._before.popitem()
      signal.signal(number, handler)  # type: ignore[arg-type]
