"""The record of a run: `metrics.jsonl`, one JSON object a line, and what ran it."""

import json
import math
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from rebel_jax.config import ConfigError


class MetricsLog:
  """Appends rows to `metrics.jsonl`; only the first process of a run writes."""

  def __init__(self, output_dir: str | Path, position: int = 0):
    """Opens the file and cuts off what lies beyond `position` bytes.

    Raises:
      ConfigError: there are not so many, or they are not rows.
    """
    self.path = Path(output_dir) / "metrics.jsonl"
    self._file = None
    if jax.process_index() == 0:
      _check_rows(self.path, position)
      self._file = open(self.path, "ab")  # noqa: SIM115 - closed by close()
      self._file.truncate(position)
      self._file.seek(0, 2)

  @property
  def position(self) -> int:
    """Bytes written so far."""
    return self._file.tell() if self._file else 0

  def write(self, row: dict[str, Any]) -> None:
    """Appends one row; numbers that JSON cannot hold become null."""
    if self._file:
      self._file.write((json.dumps(finite(row)) + "\n").encode())
      self._file.flush()

  def sync(self) -> None:
    """Waits until the disk holds what was written, also if the machine should stop."""
    if self._file:
      os.fsync(self._file.fileno())

  def close(self) -> None:
    """Closes the file."""
    if self._file:
      self._file.close()


def _check_rows(path: Path, position: int) -> None:
  """Checks that the first `position` bytes of the file are rows.

  Raises:
    ConfigError: they are not.
  """
  said = path.read_bytes()[:position] if position and path.is_file() else b""
  if len(said) < position:
    raise ConfigError(
      f"metrics={str(path)!r} has {len(said)} bytes, fewer than the {position} that the checkpoint "
      "says were written; put the file back to resume"
    )
  for number, line in enumerate(said.splitlines(), 1):
    try:
      row = json.loads(line)
    except ValueError:
      row = None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
      raise ConfigError(
        f"metrics={str(path)!r} was changed, line {number} is no row; put the file back to resume"
      )


def finite(row: dict[str, Any]) -> dict[str, Any]:
  """Returns the row with NaN and infinite numbers replaced by None."""
  return {
    key: None if isinstance(value, float) and not math.isfinite(value) else value
    for key, value in row.items()
  }


def read_metrics(output_dir: str | Path) -> list[dict[str, Any]]:
  """Returns the rows of a run's `metrics.jsonl`; none if there is no such file."""
  path = Path(output_dir) / "metrics.jsonl"
  if not path.is_file():
    return []
  return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def describe_environment() -> dict[str, Any]:
  """Returns versions, devices and the git commit, as far as they are known."""
  packages = ("rebel-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")
  devices = jax.devices()
  return {
    "versions": {"python": platform.python_version()} | {p: _version(p) for p in packages},
    "device": devices[0].device_kind,
    "platform": devices[0].platform,
    "machine": f"{platform.system()} {platform.machine()}",
    "devices": len(devices),
    "num_processes": jax.process_count(),
    "git_commit": _git_commit(),
  }


def _version(package: str) -> str | None:
  try:
    return metadata.version(package)
  except metadata.PackageNotFoundError:
    return None


def _git_commit() -> str | None:
  """Returns the commit of the program's own checkout, marked if files differ from it."""
  here = Path(__file__).resolve().parents[1]
  if not (here / ".git").exists():
    return None
  try:
    commit = _git(here, "rev-parse", "HEAD")
    changed = _git(here, "status", "--porcelain", "--untracked-files=no")
  except (OSError, subprocess.SubprocessError):
    return None
  return f"{commit} with changes" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
  result = subprocess.run(
    ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
  )
  return result.stdout.strip()
