"""The file of `benchmarks.machine`: one machine's measurements as JSON lines, written at once.

The first line says what was measured on; then come a line when a measurement starts, and one when
it ends: its figures, why it has none, or that its time was up. A line that a killed command left
unfinished is dropped.
"""

import hashlib
import json
import math
import os
import platform
from collections import Counter
from pathlib import Path
from typing import Any

from rebel_jax.runs.metrics import describe_environment
from solvers.xla.cores import num_cores

_ROOT = Path(__file__).parents[1]
_BENCHMARK = {"benchmark": "machine"}
# Figures of different machines, versions or code do not belong into one table.
IDENTITY = ("device", "platform", "devices", "processor", "cores", "versions", "source")


class LedgerError(ValueError):
  """The file cannot be used; the message is a sentence that says why."""


def _for_json(value: Any) -> Any:
  """Returns the value, None for a number that JSON cannot hold."""
  return None if isinstance(value, float) and not math.isfinite(value) else value


def describe_machine() -> dict[str, Any]:
  """Returns what figures depend on. Uses the devices, so call it in a process of its own."""
  return describe_environment() | {
    "processor": _processor(),
    "cores": num_cores(),
    "source": _source(),
  }


def _processor() -> str:
  try:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
  except OSError:
    lines = []
  names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
  return next(names, platform.processor())


def _source() -> str:
  """Returns a checksum over the library's code."""
  found = hashlib.sha256()
  for package in ("games", "solvers", "rebel_jax"):
    for path in sorted((_ROOT / package).rglob("*.py")):
      found.update(str(path.relative_to(_ROOT)).encode() + path.read_bytes())
  return found.hexdigest()[:16]


class Ledger:
  """Measurements that a file holds, and those that are added to it.

  Attributes:
    done: by name, the line of each measurement that ended with figures or with an error.
    starts: by name, how often a measurement was started.
    cut_off: by name, the most seconds that were not enough.
  """

  def __init__(self, path: Path, machine: dict[str, Any]):
    """Reads the file, or begins it.

    Raises:
      LedgerError: it is of another machine or version, no such file at all, or not writable.
    """
    self.done: dict[str, dict[str, Any]] = {}
    self.starts: Counter[str] = Counter()
    self.cut_off: dict[str, float] = {}
    try:
      text = path.read_bytes() if path.exists() else b""
      whole = text[: text.rfind(b"\n") + 1]
      lines = _read(path, whole)
      if lines:
        _check_same(path, lines[0].get("machine"), machine)
      self._file = open(path, "ab")  # noqa: SIM115 - closed by close()
      self._file.truncate(len(whole))
    except OSError as error:
      raise LedgerError(f"output={str(path)!r} cannot be used: {error.strerror}") from None
    for line in lines:
      self._note(line)
    if not lines:
      self._write({"machine": machine})

  def start(self, name: str) -> None:
    """Says that a measurement starts."""
    self._write({"started": name})

  def finish(self, name: str, seconds: float, row: dict[str, Any]) -> None:
    """Writes the result of a measurement, or as its `error` why there is none."""
    self._write(row | {"measurement": name, "took_seconds": seconds})

  def cut(self, name: str, seconds: float) -> None:
    """Says that a measurement would have taken longer."""
    self._write({"cut_off": name, "took_seconds": seconds})

  def close(self) -> None:
    """Closes the file."""
    self._file.close()

  def _write(self, line: dict[str, Any]) -> None:
    line = _BENCHMARK | {key: _for_json(value) for key, value in line.items()}
    self._file.write((json.dumps(line) + "\n").encode())
    self._file.flush()
    os.fsync(self._file.fileno())
    self._note(line)

  def _note(self, line: dict[str, Any]) -> None:
    if "started" in line:
      self.starts[line["started"]] += 1
    elif "cut_off" in line:
      name = line["cut_off"]
      self.cut_off[name] = max(line["took_seconds"], self.cut_off.get(name, 0.0))
    elif "measurement" in line:
      self.done[line["measurement"]] = line


def _read(path: Path, text: bytes) -> list[dict[str, Any]]:
  try:
    lines = [json.loads(line) for line in text.splitlines()]
    if lines and not isinstance(lines[0]["machine"], dict):
      raise TypeError
  except (ValueError, KeyError, TypeError):
    raise LedgerError(
      f"output={str(path)!r} must be a new file or one of benchmarks.machine"
    ) from None
  return lines


def _check_same(path: Path, theirs: Any, ours: dict[str, Any]) -> None:
  for name in IDENTITY:
    if theirs.get(name) != ours[name]:
      raise LedgerError(
        f"output={str(path)!r} holds measurements of {name}={theirs.get(name)!r}, and here it is "
        f"{ours[name]!r}; give another file"
      )
