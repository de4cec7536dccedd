"""The record of a run: `metrics.jsonl`, one JSON object a line, and what ran it."""

import json
import math
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import jax


class MetricsLog:
  """Appends rows to `metrics.jsonl`; only the first process of a run writes."""

  def __init__(self, output_dir: str | Path, position: int = 0):
    """Opens the file and cuts off what lies beyond `position` bytes."""
    self.path = Path(output_dir) / "metrics.jsonl"
    self._file = None
    if jax.process_index() == 0:
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

  def close(self) -> None:
    """Closes the file."""
    if self._file:
      self._file.close()


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
  return {
    "versions": {"python": platform.python_version()} | {p: _version(p) for p in packages},
    "device": jax.devices()[0].device_kind,
    "platform": jax.devices()[0].platform,
    "machine": f"{platform.system()} {platform.machine()}",
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
