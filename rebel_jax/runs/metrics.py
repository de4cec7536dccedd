"""The record of a run: `metrics.jsonl`, a row a chunk of steps, event files and `config.json`."""

import bisect
import contextlib
import csv
import dataclasses
import io
import json
import os
import platform
import subprocess
import zlib
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax

from rebel_jax import devices
from rebel_jax.checkpoints import files
from rebel_jax.config import Config, ConfigError, DeepCFR, allowed
from rebel_jax.training.loop import Report, TrainState


class MetricsLog:
  """Appends rows to `metrics.jsonl`; only the first process of a run writes."""

  def __init__(self, output_dir: str | Path, position: int = 0, checksum: int = 0):
    """Opens the file and cuts off what lies beyond `position` bytes, whose CRC-32 is `checksum`."""
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


def csv_file(folder: Path, step: int) -> Callable[[dict[str, Any]], None]:
  """Returns a writer of `metrics.csv`, whole at each row: later rows have other columns too."""

  def write(row: dict[str, Any]) -> None:
    rows = read_metrics(folder)
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    table.writeheader()
    table.writerows(rows)
    files.replace_text(folder / "metrics.csv", text.getvalue())

  return write


class EventFiles:
  """Writer of rows to `OUTPUT_DIR/tensorboard`."""

  def __init__(self, output_dir: str | Path, step: int):
    """Begins a new file; rows beyond `step`, in files from before, are no longer valid."""
    from tensorboardX import SummaryWriter

    self._writer = SummaryWriter(
      str(Path(output_dir) / "tensorboard"),
      purge_step=step + 1 if step else None,
      # Without a suffix, files that are begun in the same second have the same name.
      filename_suffix=f".{step}",
    )
    self.close = self._writer.close

  def __call__(self, row: dict[str, Any]) -> None:
    """Writes every number of a row at its `step`."""
    for name, value in row.items():
      if name != "step" and isinstance(value, (int, float)):
        self._writer.add_scalar(name, value, row["step"])
    self._writer.flush()


allowed.WRITERS.update(csv=csv_file, tensorboard=EventFiles)


def commands_of(about: dict[str, Any], config: Config, num_devices: int) -> list[dict[str, Any]]:
  """Returns under what a run was trained, each from a step on; the last entry is this command."""
  before = list(about.get("commands", []))
  this = {
    "config": config.to_dict(),
    "num_devices": num_devices,
    "environment": describe_environment(),
  }
  if before and before[-1] | {"step": 0} == this | {"step": 0}:
    return before
  return [*before, {"step": about.get("step", 0), **this}]


def write_commands(folder: Path, commands: list[dict[str, Any]]) -> None:
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
  found = jax.devices()
  return {
    "versions": versions,
    "device": found[0].device_kind,
    "platform": found[0].platform,
    "machine": f"{platform.system()} {platform.machine()}",
    "devices": len(found),
    "num_processes": jax.process_count(),
    "git_commit": _git_commit(),
  }


def _git_commit() -> str | None:
  """Returns the commit of the program's own checkout, marked if files differ from it."""
  here = Path(__file__).resolve().parents[2]
  if not (here / ".git").exists():
    return None
  command = ["git", "-C", str(here), "describe", "--always", "--abbrev=40", "--exclude=*"]
  with contextlib.suppress(OSError, subprocess.SubprocessError):
    return subprocess.run(
      [*command, "--dirty= with changes"], capture_output=True, text=True, timeout=10, check=True
    ).stdout.strip()
  return None


@dataclasses.dataclass
class Chunk:
  """Steps since the last row."""

  examples: int  # made before
  gradient_steps: int  # taken before
  steps: int = 0
  seconds: float = 0.0
  # of what the steps measured, in the order of a `Report`'s arrays
  sums: list[float] = dataclasses.field(default_factory=list)

  def add(self, report: Report, steps: int, seconds: float) -> Report:
    """Adds the `steps` of one call of `Trainer.run`; returns the means over all of its steps."""
    # One after the other, so that sums are the same bit for bit wherever calls end.
    measured, structure = jax.tree.flatten(report)
    self.sums = [
      float(np.cumsum([total, *np.asarray(each)[:steps].tolist()])[-1])
      for total, each in zip(self.sums or [0.0] * len(measured), measured)
    ]
    self.steps, self.seconds = self.steps + steps, self.seconds + seconds
    return jax.tree.unflatten(structure, [total / self.steps for total in self.sums])


def make_row(chunk: Chunk, means: Report, state: TrainState, config: Config) -> dict[str, Any]:
  """Returns the row of metrics of a chunk that ends in `state`, without `seconds`."""
  taken = gradient_steps(state)
  step, solves = int(state.step), int(state.solves)
  made = int(state.replay[target_of_values(state.replay)].added.sum())
  in_buffer = min(made, config.learning.buffer_size)
  # The buffer holds the newest, and steps made about equally many; Deep CFR's keeps any of all
  # examples, as many of the first as of the last.
  newest = made if isinstance(config.search, DeepCFR) else in_buffer
  return {
    "step": step,
    "solves": solves,
    "examples": 2 * solves,
    "seconds": 0.0,
    **losses(means, chunk.steps * config.learn_steps, taken - chunk.gradient_steps),
    "examples_per_second": round((2 * solves - chunk.examples) / chunk.seconds, 3),
    "gradient_steps": taken,
    "buffer_examples": in_buffer,
    "buffer_age": round(newest / 2 * step / max(made, 1), 3),
    "leaves_per_iteration": means.rows,
    "device_memory_bytes": devices.memory()[0],
  }


def losses(report: Report, steps: int, learned: int) -> dict[str, float | None]:
  """Returns the statistics of learning by metric; those of the target of values have no prefix."""
  # Means count steps before learning began as zero.
  share, of_values = steps / learned if learned else None, target_of_values(report.learned)
  metrics = {
    ("" if name == of_values else f"{name}_") + statistic: float(mean) * share if share else None
    for name, stats in report.learned.items()
    for statistic, mean in stats._asdict().items()
  }
  return metrics | {f"{name}_error": float(error) for name, error in report.held_out.items()}


def target_of_values(names: Iterable[str]) -> str:
  """Returns which of the targets values are learned by; every configuration has one."""
  # Mappings that went through JAX are sorted by name, so that none of them is the first.
  return next(name for name in names if name in ("value", "value_policy", "average"))


def gradient_steps(state: TrainState) -> int:
  """Returns how many gradient steps were taken: a decay of the learning rate counts them."""
  find = optax.tree_utils.tree_get_all_with_path
  counts = [find(state.optimizer_state, name) for name in ("taken", "count")]
  return max(int(number) for _, number in counts[0] or counts[1])


@jax.jit
def all_finite(tree: Any) -> jax.Array:
  """Says whether all numbers of a pytree are finite."""
  return jax.numpy.stack([jax.numpy.isfinite(x).all() for x in jax.tree.leaves(tree)]).all()


# When to look whether the time suffices, as a share of it: late enough to know the pace, early
# enough for the learning rate to fall. And which share of the time left is planned with.
_LOOK = 0.6
_CAREFULLY = 0.9


def work(config: Config, step: int) -> float:
  """Returns the cost of a run's first `step` steps, in steps with searches of `iterations`."""
  late = max(step - config.late_step, 0)
  return step + late * (config.rebel.late_iterations / config.rebel.iterations - 1 if late else 0)


class Pace:
  """Seconds that steps take, where late ones may have longer searches than the first."""

  def __init__(self, config: Config):
    self.config = self._whole = config  # with fewer examples once it is shortened
    self.evaluation = self._seconds = self._work = 0.0

  def add(self, first: int, last: int, seconds: float, *, compiled: bool) -> None:
    """Takes note of the steps from `first` to `last`, and whether they were compiled before."""
    if not compiled:
      self._seconds += seconds
      self._work += work(self.config, last) - work(self.config, first)

  def done(self, step: int) -> float:
    """Returns the share of all work that is done after `step` steps."""
    return work(self.config, step) / work(self.config, self.config.num_steps)

  def left(self, step: int, config: Config | None = None) -> float:
    """Returns the seconds of the rest after `step`, infinite before the first measurement."""
    config = config or self.config
    if not self._work:
      return np.inf
    steps = work(config, config.num_steps) - work(config, step)
    every, made = config.schedule.evaluate_every, 2 * config.solves_per_step * step
    # The evaluation at the end is apart.
    due = max((config.self_play.examples - 1) // every - made // every, 0) if every else 0
    return steps * self._seconds / self._work + self.evaluation * due

  def shorten(self, step: int, elapsed: float) -> bool:
    """Makes the run shorter if its time will not suffice, and returns whether it did."""
    # Every process must make the same calls.
    # A learning rate that is still high where training is cut off leaves a worse network than a
    # shorter run whose learning rate has fallen.
    limit = self.config.schedule.max_seconds
    if self.config is not self._whole or limit is None:
      return False
    last, seconds, a_step = 0, _CAREFULLY * (limit - elapsed), 2 * self.config.solves_per_step

    def shorter(steps: int) -> Config:
      return self.config.replace(examples=a_step * steps)

    if elapsed >= _LOOK * limit and self.left(step) > seconds > 0:
      # `last`: the most steps of a run that ends in time; 0 where not even the next step fits.
      steps = range(step + 1, self.config.num_steps)
      fitting = bisect.bisect_right(steps, seconds, key=lambda x: self.left(step, shorter(x)))
      last = step + fitting if fitting else 0
    last = devices.share(last)
    if last:
      self.config = shorter(last)
    return last > 0
