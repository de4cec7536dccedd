"""Terminal of a run: what it shows, a summary, and the signals that end it."""

import contextlib
import datetime
import math
import os
import shlex
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import jax
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from rebel_jax import devices
from rebel_jax.checkpoints import files
from rebel_jax.config import Config, ConfigError, RunError, paper_exploitability
from rebel_jax.evaluation.measurement import Measurement

CLOSED_PIPE = 13  # the number of SIGPIPE, where the system has it
PATIENCE = 1.0  # seconds
LOST = "interrupted before a checkpoint could be saved"
_NOTED = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]


class Interrupted(Exception):  # noqa: N818 - not an error
  """A signal arrived in the middle of work that can be done again."""

  def __init__(self, number: int = signal.SIGINT):
    super().__init__(f"signal {number}")
    self.signal = number


def complain(sentence: str = LOST) -> None:
  """Prints a sentence on standard error, if somebody reads that; of a long one both ends."""
  with contextlib.suppress(OSError):
    print(
      sentence if len(sentence) <= 1_000 else f"{sentence[:600]} ... {sentence[-300:]}",
      file=sys.stderr,
      flush=True,
    )


class Signals:
  """Notes SIGINT, SIGTERM and SIGHUP inside a `with` block instead of dying of them."""

  current: "Signals | None" = None  # of the innermost block

  def __init__(self):
    self.received = 0
    self._before: dict[int, object] = {}
    self._raises: Callable[[], bool] = lambda: False
    self._leave: Callable[[], object] = complain
    self._double = False

  @contextlib.contextmanager
  def raising(
    self, leave: Callable[[], object] = complain, when: Callable[[], bool] = lambda: True
  ) -> Iterator[None]:
    """Raises Interrupted at a signal inside the block, in a run of one process."""
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
        if signal.getsignal(number) != signal.SIG_IGN:  # as by nohup
          self._before[number] = signal.signal(number, self._note)
    return self

  def __exit__(self, *_) -> None:
    Signals.current = None
    self._restore(*self._before)

  def _note(self, number: int, frame: FrameType | None) -> None:
    first = not self.received
    self.received = self.received or number
    # So that a second one ends the program; a terminal that closes may send SIGHUP twice.
    self._restore(signal.SIGINT, signal.SIGTERM)
    if first and self._raises():
      raise Interrupted(number)

  def _restore(self, *numbers: int) -> None:
    for number in numbers:
      if number in self._before:
        signal.signal(number, self._before.pop(number))  # type: ignore[arg-type]


def watch() -> None:
  """Ends this process `PATIENCE` seconds after a signal that comes while it compiles."""
  # That takes XLA many seconds in which Python runs no handler.
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
          complain("\ninterrupted")
          os._exit(128 + number)

  threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def in_sentences(config: Config, folder: Path | None = None) -> Iterator[None]:
  """Says in a sentence that there is no room, in memory or in `folder`."""
  try:
    yield  # what is made in the block must be waited for there
  except (jax.errors.JaxRuntimeError, MemoryError) as error:
    if not devices.is_exhausted(error):
      raise
    reason = (
      f"lanes={config.self_play.lanes} with width={config.network.width} and "
      f"buffer_size={config.learning.buffer_size} must fit in the memory of the device"
    )
    stopped = "while it searches, learns and evaluates, so training stopped; the last checkpoint is"
    raise (
      ConfigError(reason) if folder is None else RunError(f"{reason} {stopped} from before")
    ) from None
  except OSError as error:
    if folder is None:
      raise
    raise RunError(
      f"{str(folder)!r} cannot be written ({error.strerror or error}), so training stopped; the "
      "last checkpoint is from before"
    ) from None


_SECONDS_BETWEEN_LINES = 5.0


class Display:
  """Terminal of a run: a context manager that shows a live bar, or plain lines."""

  def __init__(self, *, quiet: bool = False, stderr: bool = False):
    """Begins to show nothing if `quiet`, else on standard error or output."""
    self.console = Console(quiet=quiet, stderr=stderr)
    self.closed = False  # whether nobody reads it any more, as after `train.py | head -1`
    self._description = self._text = ""
    self._live: Live | None = None
    self._progress = Progress(
      SpinnerColumn(),
      TextColumn("{task.description}"),
      BarColumn(),
      TextColumn("{task.percentage:3.0f}%"),
      console=self.console,
    )
    self._task = self._progress.add_task("", total=1.0, visible=False)
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
      self._text, done = text, min(fraction, 1.0)
      self._progress.update(self._task, description=description, completed=done, visible=True)
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
    self._progress.update(self._task, visible=False)
    self._description = self._text = ""

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
    f"exploitability {exploitability:.4f}" if exploitability is not None else "",
    f"{duration(left)} left",
  ]
  return ", ".join(filter(None, parts))


def duration(seconds: float) -> str:
  """Returns seconds as h:mm:ss."""
  finite = math.isfinite(seconds)
  return str(datetime.timedelta(seconds=round(max(seconds, 0.0)))) if finite else "?"


def summary(
  config: Config,
  folder: Path,
  rows: list[dict[str, Any]],
  last: dict[str, Any],
  seconds: float,
  module: str | None = None,
) -> list[tuple[str, str]]:
  """Returns names and values of a run for a person to read; `last` is the last of its `rows`."""
  from rebel_jax.checkpoints.checkpoint import checkpoints_of  # it loads Flax

  # The first chunk's rate is mostly compilation.
  made = [row for row in rows if row["step"]]
  rates = [row["examples_per_second"] for row in made[1:] or made]
  loss, memory = last["loss"], last["device_memory_bytes"]
  held_out = last.get("value_error", last.get("value_policy_error"))
  measured, average = Measurement(last), last.get("exploitability_average_policy")
  value, how, paper = measured.exploitability, measured.conditions, paper_exploitability(config)
  others = [(x, row["step"]) for row in rows if (x := Measurement(row)).exploitability is not None]
  best, step = min(others, key=lambda x: x[0].exploitability or 0.0, default=(measured, 0))
  shown: list[tuple[str, Any]] = [
    ("examples", f"{last['examples']:,} from {last['solves']:,} subgames"),
    ("time", f"{seconds:.0f} s"),
    ("rate", rates and f"{sorted(rates)[len(rates) // 2]:,.0f} examples a second (median)"),
    ("gradient steps", f"{last['gradient_steps']:,}"),
    (
      "loss",
      loss is not None
      and f"{loss:.5f} in training"
      + (f", {held_out:.5f} on examples not yet trained on" if held_out is not None else ""),
    ),
    ("gradient norm", loss is not None and f"{last['gradient_norm']:.3g}"),
    (
      "buffer",
      f"{last['buffer_examples']:,} examples, {last['buffer_age']:,.0f} steps old on average",
    ),
    ("device memory", memory is not None and f"{memory / 2**20:,.0f} MiB"),
    ("exploitability", value is not None and f"{value:.4f} ({how})"),
    (
      "not lost",
      "not_lost_mean" in last and f"{last['not_lost_mean']:.2%} of games against exact play",
    ),
    ("played", "score_mean" in last and f"{measured.sentence} ({how})"),
    *(("won a hand", text) for text in measured.won),
    ("", "hands" in last and f"({how})"),
    (
      "average policy",
      average is not None and f"{average:.4f} (unsafe search, {last['iterations']:,})",
    ),
    ("lowest", others and f"{best.exploitability:.4f} at step {step} ({best.conditions})"),
    (
      "paper, Table 2",
      paper is not None and f"{paper:g} (1,024 playthroughs, 1,024 iterations)",
    ),
    ("folder", str(folder)),
    ("checkpoint", str(checkpoints_of(folder)[-1])),
    ("measure it again", f"python -m rebel_jax.evaluate {_about(folder, module)}"),
    (
      "train longer",
      f"{resume_command(folder, module)} --examples {2 * config.self_play.examples}",
    ),
  ]
  return [(name, text) for name, text in shown if text]


def resume_command(folder: Path, module: str | None = None) -> str:
  """Returns the command that goes on with a run, which may need a module of one's own."""
  installed = Path(sys.argv[0]).stem == "rebel-train"
  command = "rebel-train" if installed else "python train.py"
  return f"{command} --resume --output-dir {_about(folder, module)}"


def _about(folder: Path, module: str | None) -> str:
  return shlex.quote(str(folder)) + (f" --module {shlex.quote(module)}" if module else "")


def _amount(row: dict[str, Any]) -> list[Any]:
  """Returns by how many searches, and how long ones, a row's exploitability was measured."""
  names = ("playthroughs", "iterations", "seeds", "simulations", "per_update")
  return [row.get(name) for name in names]


def plot_exploitability(
  rows: list[dict[str, Any]], path: str | Path, *, title: str, paper: float | None = None
) -> None:
  """Draws exploitability against seconds and writes it to `path`, if there is any."""
  from matplotlib.figure import Figure

  figure = Figure(figsize=(7, 4.5), layout="constrained")
  axes = figure.add_subplot()
  measures = (
    ("exploitability", "sampled playthroughs", "o-"),
    ("exploitability_average_policy", "average policy (unsafe search)", "s:"),
    ("exploitability_mean", "mean of agents of several seeds", "o-"),
  )
  course = next((_amount(row) for row in rows if Measurement(row).exploitability is not None), None)
  for key, label, style in measures:
    for at_end in (False, True):  # by more searches, which is another measure
      points = [
        (row["seconds"], row[key])
        for row in rows
        if row.get(key) is not None and row[key] > 0 and (_amount(row) != course) == at_end
      ]
      if points:
        form, name = ("*", f"{label}, at the end") if at_end else (style, label)
        axes.plot(*zip(*points), form, label=name, markersize=10 if at_end else 4)
  if not axes.lines:
    return
  ribbon = [row for row in rows if row.get("exploitability_mean") is not None]
  if ribbon:
    low, high = ([row[f"exploitability_{end}"] for row in ribbon] for end in ("min", "max"))
    axes.fill_between([row["seconds"] for row in ribbon], low, high, alpha=0.3)
  if paper is not None:
    axes.axhline(paper, color="gray", linestyle="--", label=f"ReBeL paper, Table 2: {paper:g}")
  about = {"xlabel": "seconds since the start, compilation included", "ylabel": "exploitability"}
  axes.set(yscale="log", title=title, **about)
  axes.grid(True, which="both", alpha=0.3)
  axes.legend()
  files.save_picture(figure, path, dpi=120)
