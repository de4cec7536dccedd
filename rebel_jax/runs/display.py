"""What a person sees of a run: a live line on a terminal, plain lines elsewhere, a summary."""

import datetime
import math
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

_SECONDS_BETWEEN_LINES = 5.0


class Display:
  """Shows how a run goes. Use as a context manager.

  Attributes:
    closed: whether nobody reads it any more, as after `train.py | head -1`.
  """

  def __init__(self, *, quiet: bool = False, stderr: bool = False, console: Console | None = None):
    """Decides between a live bar and plain lines.

    Args:
      quiet: show nothing.
      stderr: show it on standard error.
      console: show it there instead.
    """
    self.console = console or Console(quiet=quiet, stderr=stderr)
    self.closed = False
    self._task: Any = None
    self._description = self._text = ""
    self._live: Live | None = None
    self._progress = Progress(
      SpinnerColumn(),
      TextColumn("{task.description}"),
      BarColumn(),
      TextColumn("{task.percentage:3.0f}%"),
      console=self.console,
    )
    if self.console.is_terminal and not quiet:
      self._live = Live(get_renderable=self._render, console=self.console, transient=True)
    self._last_line = -math.inf
    self._counting, self._began = "", 0.0

  def __enter__(self) -> "Display":
    if self._live:
      self._live.start()
    return self

  def __exit__(self, *_) -> None:
    self.clear()
    if self._live:
      self._write(self._live.stop)

  def _write(self, write: Callable[..., None], *text: str, **options: Any) -> None:
    try:
      write(*text, **options)
    except (OSError, SystemExit):  # a terminal that is gone; a pipe, for which rich would exit
      self.closed = self.console.quiet = True

  def say(self, text: str) -> None:
    """Prints a line that stays."""
    self._write(self.console.print, text, markup=False, highlight=False, soft_wrap=True)

  def show(self, description: str, fraction: float, text: str = "") -> None:
    """Shows how far something has come: a live bar, or a line now and then."""
    if self._live:
      if description != self._description:
        self.clear()
        self._task = self._progress.add_task(description, total=1.0)
        self._description = description
      self._text = text
      self._progress.update(self._task, completed=min(fraction, 1.0))
      self._write(self._live.refresh)
    elif (
      description != self._description
      or time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES
    ):
      self._last_line, self._description = time.monotonic(), description
      self.say(f"{description} {min(fraction, 1.0):4.0%}  {text}".rstrip())

  def count(self, what: str, done: int, total: int, unit: str, more: str = "") -> None:
    """Shows how many of something are done, and how long the others take at that pace."""
    if what != self._counting:
      self._counting, self._began = what, time.monotonic()
    left = (time.monotonic() - self._began) * (total - done) / max(done, 1)
    self.show(what, done / total, f"{done:,} of {total:,} {unit}, {left:.0f} s left{more}")

  def clear(self) -> None:
    """Removes the live bar."""
    if self._task is not None:
      self._progress.remove_task(self._task)
    self._task, self._description, self._text = None, "", ""

  def _render(self) -> Group:
    # Two lines, so that the figures are whole on a terminal of 80 columns.
    return Group(self._progress, Text(f"  {self._text}", overflow="ellipsis", no_wrap=True))

  def table(self, title: str, rows: list[tuple[str, str]]) -> None:
    """Prints pairs of a name and a value, each on one line that can be copied."""
    width = max(len(name) for name, _ in rows)
    self.say(title)
    for name, value in rows:
      self.say(f"  {name:<{width}}  {value}")


def progress_text(row: dict[str, Any], exploitability: float | None, left: float) -> str:
  """Returns rate, loss, exploitability so far and time left as one short line."""
  parts = [
    f"{row['examples']:,} examples",
    f"{row['examples_per_second']:,.0f}/s",
    f"loss {row['loss']:.5f}" if row["loss"] is not None else "filling the buffer",
  ]
  if exploitability is not None:
    parts.append(f"exploitability {exploitability:.4f}")
  parts.append(f"{duration(left)} left")
  return ", ".join(parts)


def duration(seconds: float) -> str:
  """Returns seconds as h:mm:ss."""
  if not math.isfinite(seconds):
    return "?"
  return str(datetime.timedelta(seconds=round(max(seconds, 0.0))))
