"""Ends of a run from outside: signals, and a folder or a device without room."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import jax

from rebel_jax.config.allowed import ConfigError, RunError
from rebel_jax.config.config import Config
from rebel_jax.devices import memory

CLOSED_PIPE = 13  # the number of SIGPIPE, where the system has it
_NOTED = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


class Interrupted(Exception):  # noqa: N818 - not an error
  """A signal arrived in the middle of work that can be done again.

  Attributes:
    signal: its number.
  """

  def __init__(self, number: int = signal.SIGINT):
    super().__init__(f"signal {number}")
    self.signal = number


class Signals:
  """Notes SIGINT, SIGTERM and SIGHUP inside a `with` block instead of dying of them.

  After the first, SIGINT and SIGTERM do again what they did before, so that a second one ends the
  program at once; a terminal that closes may send SIGHUP twice. Signals that are ignored stay so
  (nohup). Outside of the main thread, where Python allows no handlers, nothing is noted.

  Attributes:
    received: the signal's number, 0 for none yet.
  """

  def __init__(self):
    self.received = 0
    self._before: dict[int, object] = {}

  def __enter__(self) -> "Signals":
    if threading.current_thread() is threading.main_thread():
      for number in _NOTED:
        if signal.getsignal(number) != signal.SIG_IGN:
          self._before[number] = signal.signal(number, self._note)
    return self

  def __exit__(self, *_) -> None:
    self._restore(*self._before)

  def _note(self, number: int, frame: FrameType | None) -> None:
    del frame
    self.received = self.received or number
    self._restore(signal.SIGINT, signal.SIGTERM)

  def _restore(self, *numbers: int) -> None:
    for number in numbers:
      if number in self._before:
        signal.signal(number, self._before.pop(number))  # type: ignore[arg-type]


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
    if not memory.is_exhausted(error):
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
