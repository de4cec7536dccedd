"""What a person sees of a run: a live line on a terminal, plain lines elsewhere, a summary."""

import datetime
import math
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

_SECONDS_BETWEEN_LINES = 5.0


class Display:
  """Shows how a run goes. Use as a context manager."""

  def __init__(self, *, quiet: bool = False, stderr: bool = False, console: Console | None = None):
    """Decides between a live bar and plain lines.

    Args:
      quiet: show nothing.
      stderr: show it on standard error.
      console: show it there instead.
    """
    self.console = console or Console(quiet=quiet, stderr=stderr, highlight=False, soft_wrap=True)
    self._live: Progress | None = None
    if self.console.is_terminal and not quiet:
      self._live = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[text]}"),
        console=self.console,
        transient=True,
      )
    self._task: Any = None
    self._description = ""
    self._last_line = -math.inf

  def __enter__(self) -> "Display":
    if self._live:
      self._live.start()
    return self

  def __exit__(self, *_) -> None:
    self.clear()
    if self._live:
      self._live.stop()

  def say(self, text: str) -> None:
    """Prints a line that stays."""
    self.console.print(text, markup=False)

  def show(self, description: str, fraction: float, text: str = "") -> None:
    """Shows how far something has come: a live bar, or a line now and then."""
    if self._live:
      if description != self._description:
        self.clear()
        self._task = self._live.add_task(description, total=1.0, text=text)
        self._description = description
      self._live.update(self._task, completed=min(fraction, 1.0), text=text, refresh=True)
    elif (
      description != self._description
      or time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES
    ):
      self._last_line, self._description = time.monotonic(), description
      self.say(f"{description} {min(fraction, 1.0):4.0%}  {text}".rstrip())

  def clear(self) -> None:
    """Removes the live bar."""
    if self._live and self._task is not None:
      self._live.remove_task(self._task)
    self._task, self._description = None, ""

  def table(self, title: str, rows: list[tuple[str, str]]) -> None:
    """Prints pairs of a name and a value."""
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    for name, value in rows:
      table.add_row(name, value)
    self.console.print(table)


def progress_text(row: dict[str, Any], total: int, exploitability: float | None, left: float):
  """Returns rate, loss, exploitability so far and time left as one short line."""
  parts = [
    f"{row['examples']:,} of {total:,} examples",
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
