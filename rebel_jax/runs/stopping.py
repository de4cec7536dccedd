"""Ends of a run from outside: signals, and a folder or a device without room."""

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import jax

from rebel_jax import devices
from rebel_jax.config.allowed import ConfigError, RunError
from rebel_jax.config.config import Config

CLOSED_PIPE = 13  # the number of SIGPIPE, where the system has it
PATIENCE = 1.0  # seconds
LOST = "interrupted before a checkpoint could be saved"
_NOTED = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


class Interrupted(Exception):  # noqa: N818 - not an error
  """A signal arrived in the middle of work that can be done again.

  Attributes:
    signal: its number.
  """

  def __init__(self, number: int = signal.SIGINT):
    super().__init__(f"signal {number}")
    self.signal = number


def say_lost() -> None:
  """Says that a run ended with nothing saved."""
  print(LOST, file=sys.stderr, flush=True)


class Signals:
  """Notes SIGINT, SIGTERM and SIGHUP inside a `with` block instead of dying of them.

  After the first, SIGINT and SIGTERM do again what they did before, so that a second one ends the
  program at once; a terminal that closes may send SIGHUP twice. Signals that are ignored stay so
  (nohup). Outside of the main thread, where Python allows no handlers, nothing is noted.

  Attributes:
    received: the signal's number, 0 for none yet.
    current: those of the innermost block.
  """

  current: "Signals | None" = None

  def __init__(self):
    self.received = 0
    self._before: dict[int, object] = {}
    self._raises: Callable[[], bool] = lambda: False
    self._leave: Callable[[], object] = say_lost
    self._double = False

  @contextlib.contextmanager
  def raising(
    self, leave: Callable[[], object] = say_lost, when: Callable[[], bool] = lambda: True
  ) -> Iterator[None]:
    """Raises Interrupted at a signal inside the block, in a run of one process.

    Args:
      leave: saves what there is, from any thread, where the process ends while it compiles.
      when: says whether there is something whole to save.
    """
    self._leave = leave
    self._double = jax.dtypes.canonicalize_dtype(float).itemsize == 8  # which threads do not share
    self._raises = lambda: jax.process_count() == 1 and when()
    try:
      if self.received and self._raises():
        raise Interrupted(self.received)
      yield
    finally:
      self._raises = lambda: False

  def end_compiling(self, number: int) -> None:
    """Ends the process from another thread while its main one compiles."""
    if self._raises():
      self.received = number
      with jax.enable_x64(self._double):
        self._leave()
      os._exit(128 + number)

  def __enter__(self) -> "Signals":
    Signals.current = self
    if threading.current_thread() is threading.main_thread():
      for number in _NOTED:
        if signal.getsignal(number) != signal.SIG_IGN:
          self._before[number] = signal.signal(number, self._note)
    return self

  def __exit__(self, *_) -> None:
    Signals.current = None
    self._restore(*self._before)

  def _note(self, number: int, frame: FrameType | None) -> None:
    first = not self.received
    self.received = self.received or number
    self._restore(signal.SIGINT, signal.SIGTERM)
    if first and self._raises():
      raise Interrupted(number)

  def _restore(self, *numbers: int) -> None:
    for number in numbers:
      if number in self._before:
        signal.signal(number, self._before.pop(number))  # type: ignore[arg-type]


def watch() -> None:
  """Ends this process `PATIENCE` seconds after a signal that comes while its main thread compiles.

  That takes XLA many seconds in which Python runs no handler. Outside of `Signals` the end is that
  of an interrupt.
  """
  reader, writer = socket.socketpair()  # Windows has no other pipe that does not block
  writer.setblocking(False)
  signal.set_wakeup_fd(writer.detach(), warn_on_full_buffer=False)

  def place() -> tuple[FrameType, int]:
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return frame, frame.f_lasti

  def wait() -> None:
    while True:
      number, before = reader.recv(1)[0], place()
      time.sleep(PATIENCE)
      if place() == before and before[0].f_code.co_filename.endswith("jax/_src/compiler.py"):
        if Signals.current is not None:
          Signals.current.end_compiling(number)
        elif number == signal.SIGINT:
          print("\ninterrupted", file=sys.stderr, flush=True)
          os._exit(128 + number)

  threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def in_sentences(config: Config, folder: Path | None = None) -> Iterator[None]:
  """Says in a sentence that there is no room, in memory or in `folder`.

  Arrays are computed in the background: what is made inside the block must be waited for there.

  Args:
    config: of the run.
    folder: of the run that is under way; None while nothing is written yet.

  Raises:
    ConfigError: there is no memory for a run.
    RunError: there is no memory to go on, or the folder cannot be written.
  """
  try:
    yield
  except (jax.errors.JaxRuntimeError, MemoryError) as error:
    if not devices.is_exhausted(error):
      raise
    reason = (
      f"lanes={config.self_play.lanes} with width={config.network.width} and "
      f"buffer_size={config.learning.buffer_size} must fit in the memory of the device"
    )
    if folder is None:
      raise ConfigError(reason) from None
    raise RunError(
      f"{reason} while it searches, learns and evaluates, so training stopped; the last checkpoint "
      "is from before"
    ) from None
  except OSError as error:
    if folder is None:
      raise
    raise RunError(
      f"{str(folder)!r} cannot be written ({error.strerror or error}), so training stopped; the "
      "last checkpoint is from before"
    ) from None
