"""Where a run lives: fresh folders, refusing to write over another run, finding one to resume."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from rebel_jax.checkpoint import checkpoints_of, read_about
from rebel_jax.config import Config, ConfigError

RUNS = "runs"

# What may differ between a run and its resumption: nothing of this changes what is trained,
# except that more examples stretch a cosine decay of the learning rate, and that a run may go on
# with longer searches, whose targets are better.
CHANGEABLE = frozenset(
  {
    "examples", "iterations", "late_iterations", "late_share", "max_seconds", "report_every",
    "evaluate_every", "eval_playthroughs", "eval_iterations", "eval_algorithm",
    "final_playthroughs", "final_iterations", "num_devices", "distributed", "output_dir", "resume",
    "checkpoint_every", "keep_checkpoints", "tensorboard",
  }
)  # fmt: skip


class Resumable(NamedTuple):
  """A run that can go on: its folder, newest checkpoint and what that says about itself."""

  folder: Path
  checkpoint: Path
  about: dict[str, Any]


def check_free(output_dir: str) -> None:
  """Checks that a new run may write to `output_dir`.

  Raises:
    ConfigError: it holds a run, or is not a folder.
  """
  path = Path(output_dir)
  if os.path.exists(path) and not path.is_dir():  # unlike Path's, it takes names of any length
    raise ConfigError(f"output_dir={output_dir!r} must be a folder, and it is a file")
  if checkpoints_of(path):
    raise ConfigError(
      f"output_dir={output_dir!r} holds another run's checkpoint; choose another folder, or "
      "--resume to go on with that run"
    )


def make_folder(config: Config) -> Path:
  """Makes the folder of a new run: the one that was asked for, or a fresh `runs/PRESET-N`.

  Raises:
    ConfigError: it cannot be made.
  """
  if config.output_dir is None and jax.process_count() > 1:
    raise ConfigError("output_dir=None must be a folder where several processes train together")
  try:
    if config.output_dir is not None:
      path = Path(config.output_dir)
      path.mkdir(parents=True, exist_ok=True)
      return path
    number = 1
    while True:
      path = Path(RUNS) / f"{config.preset}-{number}"
      with contextlib.suppress(FileExistsError):
        path.mkdir(parents=True)
        return path
      number += 1
  except OSError as error:
    raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> ConfigError:
  return ConfigError(
    f"output_dir={str(path)!r} must be a folder that can be written: {error.strerror}"
  )


def find_run(output_dir: str | None, preset: str | None = None) -> Resumable:
  """Finds the run to resume: in `output_dir`, or the newest in `runs/` (of `preset`, if given).

  Raises:
    ConfigError: there is none, or its newest checkpoint cannot be read.
  """
  if output_dir is not None:
    checkpoints = checkpoints_of(output_dir)
    if not checkpoints:
      raise ConfigError(f"output_dir={output_dir!r} holds no checkpoint to resume from")
    return Resumable(Path(output_dir), checkpoints[-1], read_about(checkpoints[-1]))
  pattern = "*" if preset is None else f"{preset}-*"
  folders = [p for p in Path(RUNS).glob(pattern) if checkpoints_of(p)]
  if preset is not None:
    folders = [p for p in folders if p.name.removeprefix(f"{preset}-").isdigit()]
  if not folders:
    what = "run" if preset is None else f"run of preset {preset!r}"
    raise ConfigError(
      f"resume=True finds no {what} with a checkpoint in {RUNS}/; give its folder as output_dir"
    )
  newest = max(folders, key=lambda p: checkpoints_of(p)[-1].stat().st_mtime)
  return find_run(str(newest))


def check_compatible(run: Resumable, saved: Config, config: Config) -> None:
  """Checks that `config` trains what the run with configuration `saved` trained.

  Raises:
    ConfigError: a setting differs that may not.
  """
  for field, value in saved.to_dict().items():
    asked = config.to_dict()[field]
    if field not in CHANGEABLE and asked != value:
      raise ConfigError(
        f"{field}={asked!r} cannot resume the run in {str(run.folder)!r}, which has {value!r}; "
        f"allowed is {value!r}, or a new run in another folder"
      )


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
  """Holds the folder for one run at a time, until the end of the block or of the process.

  The first process of a run holds it for all.

  Raises:
    ConfigError: another process holds it, or it cannot be written.
  """
  try:
    import fcntl
  except ImportError:  # no such locks on this system
    yield
    return
  if jax.process_index() != 0:
    yield
    return
  try:
    file = open(folder / ".lock", "w")  # noqa: SIM115 - closed below
  except OSError as error:
    raise _unwritable(folder, error) from None
  with file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise ConfigError(
        f"output_dir={str(folder)!r} is in use by another run; choose another folder"
      ) from None
    except OSError:  # a file system without locks
      pass
    yield
