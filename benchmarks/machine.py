"""Measures what this library does on the devices at hand, as much as fits into some minutes.

`python -m benchmarks.machine --minutes 9 --output FILE` makes the measurements of
`benchmarks.measurements`, those that are worth most a minute first, and prints a table of all that
FILE holds. Each has a process of its own, so that one that crashes or runs out of memory ends
alone, and is a JSON line in FILE as soon as it is finished. The same command with the same FILE
goes on with what is missing, also after it was killed.

An estimate of what a measurement takes decides whether it is started: its own guess, times how much
longer than theirs the others took. One that takes several times its estimate, or that is still at
work when the time is up, is stopped, and is not started again in less time than it had.

Exit codes: 0 all is as FILE says; 2 an argument is not allowed, FILE is of another machine or
version, nothing was written.
"""

import dataclasses
import importlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from benchmarks import isolated
from benchmarks.ledger import Ledger, LedgerError, describe_machine
from benchmarks.measurements import Measurement
from rebel_jax import flags

# A measurement that hangs must not take the time of the others.
_PATIENCE, _LEAST_SECONDS = 4.0, 60.0


@dataclasses.dataclass(frozen=True)
class Options:
  """Measure what this library does on the devices at hand."""

  output: Path
  """File of JSON lines, one a measurement; what it holds is not measured again."""
  minutes: float = 9.0
  """How long to measure."""
  registry: str = "benchmarks.measurements"
  """Module whose MEASUREMENTS are made."""


class Schedule:
  """The order of the measurements.

  Attributes:
    measurements: those that this machine's devices allow.
  """

  def __init__(self, measurements: Sequence[Measurement], ledger: Ledger, machine: dict[str, Any]):
    """Keeps the measurements that are for this machine's devices."""
    self._ledger = ledger
    cpu = machine["platform"] == "cpu"
    guesses = {x.name: x.cpu if cpu else x.accelerator for x in measurements}
    self._guesses = {name: guess for name, guess in guesses.items() if guess is not None}
    self.measurements = [
      x for x in measurements if x.name in self._guesses and x.device in machine["device"]
    ]

  def estimate(self, measurement: Measurement) -> float:
    """Returns the seconds that a measurement takes about."""
    finished = {
      name: line["took_seconds"] for name, line in self._ledger.done.items() if "error" not in line
    }
    took = {k: v for k, v in (self._ledger.cut_off | finished).items() if k in self._guesses}
    pace = sum(took.values()) / sum(self._guesses[name] for name in took) if took else 1.0
    too_few = self._ledger.cut_off.get(measurement.name, 0.0)
    return max(pace * self._guesses[measurement.name], 1.1 * too_few)

  def pending(self) -> list[Measurement]:
    """Returns what is not measured yet, the next one first.

    What was started before and did not end comes last: it may be what ended the command.
    """

    def order(x: Measurement) -> tuple[int, float]:
      return self._ledger.starts[x.name], -x.value / self.estimate(x)

    return sorted((x for x in self.measurements if x.name not in self._ledger.done), key=order)

  def next(self, seconds: float) -> Measurement | None:
    """Returns what to measure in the `seconds` that are left; None if nothing fits."""
    return next((x for x in self.pending() if self.estimate(x) <= seconds), None)


def duration(seconds: float) -> str:
  """Returns a time in seconds or minutes."""
  return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def figures(measurement: Measurement, line: dict[str, Any]) -> str:
  """Returns the figures of a line that the table shows, or why there are none."""
  if "error" in line:
    return f"failed: {line['error'].splitlines()[0][:200]}"
  shown = [(line.get(name), unit) for name, unit in measurement.shows.items()]
  return ", ".join(f"{_number(value)} {unit}" for value, unit in shown if value is not None)


def _number(value: float) -> str:
  return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def verdicts(measurements: Sequence[Measurement], done: dict[str, dict[str, Any]]) -> list[str]:
  """Returns a sentence for each two measurements of the same thing: which is faster."""
  said = []
  for x in measurements:
    figure, unit = next(iter(x.shows.items()))
    rates = {name: done.get(name, {}).get(figure) for name in (x.name, x.rival) if name}
    found = sorted((rate, name) for name, rate in rates.items() if rate is not None)
    if len(found) == 2:
      (slow, slower), (fast, faster) = found
      said.append(
        f"{faster} is {fast / slow:.2f} times as fast as {slower}: {_number(fast)} and "
        f"{_number(slow)} {unit}"
      )
  return said


def show(schedule: Schedule, ledger: Ledger, machine: dict[str, Any], console: Console) -> None:
  """Prints the table of all that is measured, and which ways are faster."""
  title = f"{machine['devices']} x {machine['device']}, {machine['cores']} cores of "
  title += machine["processor"]
  table = Table("measurement", "figures", "took", title=title)
  for x in schedule.measurements:
    line = ledger.done.get(x.name)
    if line is None:
      table.add_row(x.name, "not measured", "")
    else:
      table.add_row(x.name, figures(x, line), duration(line["took_seconds"]))
  console.print(table)
  for sentence in verdicts(schedule.measurements, ledger.done):
    console.print(sentence)


def measure(schedule: Schedule, ledger: Ledger, deadline: float, console: Console) -> None:
  """Measures until everything is measured or the next does not fit before `deadline`."""
  while (left := deadline - time.monotonic()) > 0 and (x := schedule.next(left)) is not None:
    about = f"about {duration(schedule.estimate(x))}"
    console.print(f"{x.name}: {about} of the {duration(left)} that are left")
    ledger.start(x.name)
    with console.status(x.name) as status:

      def tick(taken: float, status=status, text=f"{x.name}, {about}") -> None:
        status.update(f"{text}: {taken:.0f} s")

      patience = max(_PATIENCE * schedule.estimate(x), _LEAST_SECONDS)
      ended = isolated.call(x.run, seconds=min(patience, left), tick=tick)
    seconds = round(ended.seconds, 2)
    if ended.cut_off:
      ledger.cut(x.name, seconds)
      console.print(f"  stopped after {duration(seconds)}")
      continue
    ledger.finish(x.name, seconds, {"error": ended.error} if ended.error else ended.result)
    console.print(f"  {figures(x, ledger.done[x.name])} ({duration(seconds)})")
  left = max(deadline - time.monotonic(), 0.0)
  for x in schedule.pending():
    needs = duration(schedule.estimate(x))
    console.print(f"skipped {x.name}: it takes about {needs}, {duration(left)} are left")


def load_registry(name: str) -> Sequence[Measurement]:
  """Returns the measurements of a module.

  Raises:
    LedgerError: there is no such module, or it has none.
  """
  try:
    return importlib.import_module(name).MEASUREMENTS
  except (ImportError, AttributeError):
    raise LedgerError(f"registry={name!r} must be a module with MEASUREMENTS") from None


def main(options: Options) -> int:
  """Measures, prints the table and returns the exit code."""
  deadline = time.monotonic() + 60 * options.minutes
  console = Console(highlight=False, markup=False)
  if not console.is_terminal:
    console.width = 120
  try:
    if not options.minutes > 0:
      raise LedgerError(f"minutes={options.minutes} must be a positive number")
    registry = load_registry(options.registry)
    found = isolated.call(describe_machine, seconds=300)
    if found.error or found.cut_off:
      raise LedgerError(f"the devices cannot be used: {found.error or 'they do not answer'}")
    machine = found.result
    ledger = Ledger(options.output, machine)
  except LedgerError as error:
    return flags.fail(error)
  schedule = Schedule(registry, ledger, machine)
  try:
    measure(schedule, ledger, deadline, console)
  finally:
    ledger.close()
    show(schedule, ledger, machine, console)
  return 0


if __name__ == "__main__":
  sys.exit(flags.command(lambda: main(tyro.cli(Options))))
