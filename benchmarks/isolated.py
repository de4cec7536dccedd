"""Calls a function in a process of its own, which may crash, run out of memory or be cut off."""

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import connection
from typing import Any, NamedTuple

_POLL_SECONDS = 0.25


class Outcome(NamedTuple):
  """Outcome of a call.

  Attributes:
    seconds: from the start of its process on.
    result: what the function returned, None if it did not return.
    error: why it did not return, None if it did or was cut off.
    cut_off: whether it was stopped because its time was up.
  """

  seconds: float
  result: Any = None
  error: str | None = None
  cut_off: bool = False


def call(
  function: Callable[[], Any],
  *,
  seconds: float,
  tick: Callable[[float], None] = lambda seconds: None,
) -> Outcome:
  """Calls `function` in a fresh process, which ends with this one, also if this one is killed.

  Args:
    function: a function of a module, or a `functools.partial` of one; its result is pickled.
    seconds: after which it is killed.
    tick: called now and then with the seconds since the start.

  Returns:
    How it ended.
  """
  context = multiprocessing.get_context("spawn")  # a fork would share the devices of this process
  receiver, sender = context.Pipe(duplex=False)
  with tempfile.NamedTemporaryFile("r", errors="replace") as said:
    process = context.Process(target=_serve, args=(function, sender, said.name), daemon=True)
    start = time.monotonic()
    process.start()
    sender.close()
    try:
      while not receiver.poll(_POLL_SECONDS):  # also true once nobody can send any more
        taken = time.monotonic() - start
        if taken > seconds:
          return Outcome(taken, cut_off=True)
        tick(taken)
      taken = time.monotonic() - start
      try:
        result, error = receiver.recv()
      except EOFError:
        process.join()
        result, error = None, _how_it_died(process.exitcode, said.read())
      return Outcome(taken, result, error)
    finally:
      process.kill()
      process.join()


def _serve(function: Callable[[], Any], sender: connection.Connection, path: str) -> None:
  threading.Thread(target=_end_with_parent, daemon=True).start()
  with open(path, "w") as file:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
  answer: tuple[Any, str | None]
  try:
    answer = function(), None
  except BaseException as error:  # whatever it is, the parent is to say it
    answer = None, f"{type(error).__name__}: {error}"
  sender.send(answer)


def _end_with_parent() -> None:
  parent = multiprocessing.parent_process()
  assert parent is not None
  connection.wait([parent.sentinel])
  os._exit(1)


def _how_it_died(exit_code: int | None, said: str) -> str:
  cause = f"exit code {exit_code}"
  if exit_code is not None and exit_code < 0:
    cause = f"killed by {signal.Signals(-exit_code).name}"
  lines = said.split("\n")
  last = next((line.strip() for line in reversed(lines) if line.strip()), "")
  return f"{cause}, after: {last}" if last else cause
