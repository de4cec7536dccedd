"""The record of a run: `metrics.jsonl` and event files, a row a chunk, and `config.json`."""

import contextlib
import csv
import importlib.util
import json
import os
import platform
import subprocess
import zlib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from rebel_jax.checkpoints import files
from rebel_jax.config import own
from rebel_jax.config.config import Config, ConfigError

Commands = list[dict[str, Any]]


class MetricsLog:
  """Appends rows to `metrics.jsonl`; only the first process of a run writes.

  Attributes:
    position, checksum: how many bytes there are, and their CRC-32.
  """

  def __init__(self, output_dir: str | Path, position: int = 0, checksum: int = 0):
    """Opens the file and cuts off what lies beyond `position` bytes, whose CRC-32 is `checksum`.

    Raises:
      ConfigError: they are not there or are others.
    """
    self.position, self.checksum = position, checksum
    self._file: Any = None
    if jax.process_index() == 0:
      path = Path(output_dir) / "metrics.jsonl"
      found = b""
      with contextlib.suppress(FileNotFoundError):  # a run that goes on makes none
        self._file = files.open_file(path, "r+b" if position else "a+b")
        self._file.seek(0)
        found = self._file.read(position)
      if (len(found), zlib.crc32(found)) != (position, checksum):
        raise ConfigError(
          f"metrics={str(path)!r} does not begin with the {position} bytes that were written when "
          "the checkpoint was saved; put the file back to resume"
        )
      self._file.truncate(position)

  def write(self, row: dict[str, Any]) -> None:
    """Appends one row."""
    if self._file:
      line = (json.dumps(row) + "\n").encode()
      self._file.write(line)
      self._file.flush()
      self.position, self.checksum = self.position + len(line), zlib.crc32(line, self.checksum)

  def sync(self) -> None:
    """Waits until the disk holds what was written, also if the machine should stop."""
    if self._file:
      os.fsync(self._file.fileno())

  def close(self) -> None:
    """Closes the file."""
    if self._file:
      self._file.close()


def read_metrics(output_dir: str | Path) -> list[dict[str, Any]]:
  """Returns the rows of a run's `metrics.jsonl`; none if there is no such file."""
  path = Path(output_dir) / "metrics.jsonl"
  if not path.is_file():
    return []
  return [json.loads(line) for line in files.read_bytes(path).splitlines() if line.strip()]


def check_tensorboard() -> None:
  """Checks that event files can be written.

  Raises:
    ConfigError: tensorboardX is not installed.
  """
  if importlib.util.find_spec("tensorboardX") is None:
    raise ConfigError(
      "tensorboard=True needs the package tensorboardX, which is not installed: "
      "pip install 'rebel-jax[tensorboard]'"
    )


def csv_file(folder: Path, step: int) -> Callable[[dict[str, Any]], None]:
  """Returns a writer of `metrics.csv`, whole at each row: later rows have other columns too."""
  del step

  def write(row: dict[str, Any]) -> None:
    rows = read_metrics(folder)
    with open(folder / "metrics.csv", "w", newline="") as file:
      table = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
      table.writeheader()
      table.writerows(rows)

  return write


class EventFiles:
  """Writer of rows to `OUTPUT_DIR/tensorboard`."""

  def __init__(self, output_dir: str | Path, step: int):
    """Prepares to write a new file.

    Args:
      output_dir: the run's folder.
      step: rows beyond it, in files from before, are no longer valid.
    """
    self._folder, self._step = str(Path(output_dir) / "tensorboard"), step
    self._writer: Any = None

  def __call__(self, row: dict[str, Any]) -> None:
    """Writes every number of a row at its `step`."""
    if self._writer is None:
      from tensorboardX import SummaryWriter

      # Without a suffix, files that are begun in the same second have the same name.
      purge, suffix = self._step + 1 if self._step else None, f".{self._step}"
      self._writer = SummaryWriter(self._folder, purge_step=purge, filename_suffix=suffix)
    for name, value in row.items():
      if name != "step" and isinstance(value, (int, float)):
        self._writer.add_scalar(name, value, row["step"])
    self._writer.flush()

  def close(self) -> None:
    """Closes the file."""
    if self._writer:
      self._writer.close()


own.WRITERS.update(csv=csv_file, tensorboard=EventFiles)


def commands_of(about: dict[str, Any], config: Config, num_devices: int) -> Commands:
  """Returns under what a run was trained, each from a step on; the last entry is this command.

  A command that differs in nothing from the one before has no entry of its own.

  Args:
    about: of the checkpoint that is resumed; empty for a new run.
    config: of this command.
    num_devices: that it trains on.
  """
  before = list(about.get("commands", []))
  this = {
    "config": config.to_dict(),
    "num_devices": num_devices,
    "environment": describe_environment(),
  }
  if before and before[-1] | {"step": 0} == this | {"step": 0}:
    return before
  return [*before, {"step": about.get("step", 0), **this}]


def write_commands(folder: Path, commands: Commands) -> None:
  """Writes `config.json`, whole or not at all; only the first process of a run does."""
  if jax.process_index() == 0:
    about = {name: value for name, value in commands[-1].items() if name != "step"}
    text = json.dumps(about | {"commands": commands}, indent=2) + "\n"
    files.replace_text(folder / "config.json", text)


def describe_environment() -> dict[str, Any]:
  """Returns versions, devices and the git commit, as far as they are known."""
  versions = {"python": platform.python_version()}
  for name in ("rebel-jax", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy"):
    with contextlib.suppress(metadata.PackageNotFoundError):
      versions[name] = metadata.version(name)
  devices = jax.devices()
  return {
    "versions": versions,
    "device": devices[0].device_kind,
    "platform": devices[0].platform,
    "machine": f"{platform.system()} {platform.machine()}",
    "devices": len(devices),
    "num_processes": jax.process_count(),
    "git_commit": _git_commit(),
  }


def _git_commit() -> str | None:
  """Returns the commit of the program's own checkout, marked if files differ from it."""
  here = Path(__file__).resolve().parents[2]
  if not (here / ".git").exists():
    return None
  command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--exclude=*"]
  try:
    found = subprocess.run(
      [*command, "--dirty= with changes"], capture_output=True, text=True, timeout=10, check=True
    )
  except (OSError, subprocess.SubprocessError):
    return None
  return found.stdout.strip()
