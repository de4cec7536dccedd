"""Measures what this library does on the devices at hand, as much as fits into some minutes.

Checks that the main programs compute what a CPU does (`benchmarks.checks`), while all rates
(`benchmarks.measurements`) compile side by side; times those that are ready, the most valuable
first; trains the default run by the clock; and prints a table of all that the file of `--output`
holds. The same command goes on with what is missing, also after it was killed.

Exit codes: 0 the table is printed; 1 a check failed; 2 an argument is not allowed or FILE is of
another machine or version, and nothing was written.
"""

import concurrent.futures
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from benchmarks import checks, measurements, timing
from rebel_jax.runs.metrics import describe_environment, read_metrics
from solvers.xla import num_cores

_BENCHMARK = {"benchmark": "machine"}
_IDENTITY = ("device", "platform", "devices", "versions", "git_commit")
_SHARE_TO_COMPILE = 0.45  # of the time, before the first rate is timed
_LEAST_FOR_TRAINING = 100.0  # seconds
_DEFAULT_RUN = "default run"


class Results:
  """Results that a file holds, and those that are added to it, by name."""

  def __init__(self, path: Path, machine: dict[str, Any]):
    """Reads the file, or begins it; refuses one of another machine, version or program."""
    self.rows: dict[str, dict[str, Any]] = {}
    try:
      text = path.read_bytes() if path.exists() else b""
      whole = text[: text.rfind(b"\n") + 1]  # a killed command may leave part of a line
      lines = [json.loads(line) for line in whole.splitlines()]
      if lines and not _is_same(lines[0]["machine"], machine):
        raise SystemExit(
          f"output={str(path)!r} holds results of another device, version or commit; give another "
          "file"
        )
      self.rows = {line["measurement"]: line for line in lines[1:]}
      self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
      self._file.truncate(len(whole))
    except (ValueError, KeyError, TypeError):
      raise SystemExit(
        f"output={str(path)!r} must be a new file or one of benchmarks.machine"
      ) from None
    except OSError as error:
      raise SystemExit(f"output={str(path)!r} cannot be used: {error.strerror}") from None
    if not lines:
      self._write({"machine": machine})

  def add(self, name: str, make: Callable[[], dict[str, Any]]) -> None:
    """Writes what `make` returns, or as `error` what it raises."""
    start = time.monotonic()
    try:
      row = make()
    except Exception as error:  # one program that fails must not end the others
      row = {"error": f"{type(error).__name__}: {str(error)[:300]}"}
    self.rows[name] = row = {"measurement": name, **row, "took_seconds": _since(start)}
    self._write(row)

  def close(self) -> None:
    """Closes the file."""
    self._file.close()

  def _write(self, line: dict[str, Any]) -> None:
    self._file.write((json.dumps(_BENCHMARK | line) + "\n").encode())
    self._file.flush()
    os.fsync(self._file.fileno())


def _is_same(theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
  """Says whether results of two machines belong into one table."""
  return all(theirs[name] == ours[name] for name in _IDENTITY)


def _since(start: float) -> float:
  return round(time.monotonic() - start, 1)


def compile_all(
  rates: dict[str, measurements.Rate], stop: threading.Event
) -> dict[str, concurrent.futures.Future]:
  """Starts the preparation of all rates, side by side; none begins after `stop` is set."""

  def prepare(rate: measurements.Rate) -> tuple[measurements.Prepared, float]:
    if stop.is_set():
      raise TimeoutError("no time to compile it")
    start = time.monotonic()
    return rate.prepare(), _since(start)

  pool = concurrent.futures.ThreadPoolExecutor(max(1, min(10, num_cores() - 1)))
  return {name: pool.submit(prepare, rate) for name, rate in rates.items()}


def time_rate(prepared: measurements.Prepared, seconds: float = 0.5) -> float:
  """Returns the figure of the median of calls that go on for some time, three at least."""
  figures: list[float] = []
  start = time.monotonic()
  while len(figures) < 3 or time.monotonic() - start < seconds:
    figures.append(prepared.figure(timing.timed(prepared.once)[1]))
  return statistics.median(figures)


def default_run(seconds: float) -> dict[str, Any]:
  """Trains by `python train.py` for some seconds at most, in a process of its own."""
  with tempfile.TemporaryDirectory() as folder:
    limit = ["--max-seconds", str(int(seconds))]
    subprocess.run(
      [sys.executable, "-m", "rebel_jax.train", "--output-dir", folder, *limit],
      env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
      cwd=Path(__file__).parents[1],
      capture_output=True,
      check=True,
    )
    rows = read_metrics(folder)
  good = (row["seconds"] for row in rows if (row.get("exploitability") or math.inf) < 0.01)
  rate = statistics.median(row["examples_per_second"] for row in rows if row["step"])
  return {
    "figure": rate,
    "unit": "examples/s",
    "floor": 200_000,
    "exploitability": rows[-1].get("exploitability"),
    "seconds": rows[-1]["seconds"],
    "seconds_to_0.01": next(good, None),
  }


def measure(results: Results, minutes: float, small: bool, console: Console) -> bool:
  """Makes what is missing as long as there is time; returns whether everything has ended."""
  end = time.monotonic() + 60 * minutes
  platform = jax.default_backend()

  def left() -> float:
    return end - time.monotonic()

  def add(name: str, make: Callable[[], dict[str, Any]]) -> None:
    if name not in results.rows and left() > 0:
      results.add(name, make)
      row = results.rows[name]
      console.print(f"{name}: {describe(row)} ({row['took_seconds']} s)")

  missing = {
    name: rate
    for name, rate in measurements.rates(small).items()
    if name not in results.rows and (platform != "cpu" or not rate.accelerator)
  }
  stop = threading.Event()
  jobs = compile_all(missing, stop)
  golden = json.loads(checks.GOLDEN.read_text())
  for name in checks.CHECKS:
    add(f"check: {name}", functools.partial(checks.compare, name, golden))
  concurrent.futures.wait(jobs.values(), max(1.0, left() - (1 - _SHARE_TO_COMPILE) * left()))
  stop.set()

  def figures(name: str) -> dict[str, Any]:
    prepared, ready_in = jobs[name].result()
    rate = missing[name]
    figure = time_rate(prepared)
    return {"figure": figure, "unit": rate.unit, "floor": rate.floor, "ready_in": ready_in}

  for name in [name for name, job in jobs.items() if job.done()]:
    add(name, functools.partial(figures, name))
  if left() > _LEAST_FOR_TRAINING and not small:
    add(_DEFAULT_RUN, lambda: default_run(0.75 * left()))
  for name in [name for name, job in jobs.items() if job.done()]:  # the late ones too
    add(name, functools.partial(figures, name))
  return all(job.done() for job in jobs.values())


def describe(row: dict[str, Any]) -> str:
  """Returns a result as words."""
  if "error" in row:
    return f"failed: {row['error'].splitlines()[0][:160]}"
  if "ok" in row:
    return "as on a CPU" if row["ok"] else f"not as on a CPU: {row}"
  return f"{row['figure']:,.4g} {row['unit']}"


def show(results: Results, machine: dict[str, Any], console: Console) -> None:
  """Prints the table of all results."""
  table = Table("measurement", "result", "floor of an H100", "ready in")
  table.title = f"{machine['devices']} x {machine['device']}, JAX {machine['versions']['jax']}"
  for name, row in results.rows.items():
    floor, ready = row.get("floor"), row.get("ready_in")
    table.add_row(
      name,
      describe(row),
      "" if floor is None else f"{floor:,.4g}",
      "" if ready is None else f"{ready} s",
    )
  console.print(table)


def main(output: Path, minutes: float = 9.0, small: bool = False) -> int:
  """Measure what this library does on the devices at hand.

  Args:
    output: File of JSON lines, one a result; what it holds is not measured again.
    minutes: How long to measure.
    small: Tiny sizes, to see that every program runs.

  Returns:
    The exit code.
  """
  console = Console(highlight=False, markup=False)
  if not console.is_terminal:
    console.width = 120
  if not minutes > 0:
    raise SystemExit(f"minutes={minutes} must be a positive number")
  machine = describe_environment()
  results = Results(output, machine)
  ended = False
  try:
    ended = measure(results, minutes, small, console)
  finally:
    results.close()
    show(results, machine, console)
  code = int(any(not row.get("ok", True) for row in results.rows.values()))
  if not ended:  # threads still compile, and nothing stops them
    sys.stdout.flush()
    os._exit(code)
  return code


if __name__ == "__main__":
  os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.6")  # the default run needs the rest
  timing.command(main)
