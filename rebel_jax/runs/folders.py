"""Places of runs: options, a fresh folder, the newest to resume, no writing over another run."""

import contextlib
import dataclasses
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax

from rebel_jax.checkpoints import files
from rebel_jax.checkpoints.checkpoint import PRUNED, checkpoints_of, is_unfinished, read_about
from rebel_jax.config import Config, ConfigError, allowed

RUNS = "runs"
# What a run writes into its folder.
_FILES = (
  ".lock", "config.json", "metrics.jsonl", "metrics.csv", "checkpoints", f"checkpoints/{PRUNED}",
  "exploitability.png", "tensorboard",
)  # fmt: skip

_FOLDERS = ("checkpoints", PRUNED, "tensorboard")

# What may differ between a run and its resumption: nothing of this changes what is trained,
# except that more examples stretch a cosine decay of the learning rate, and that a run may go on
# with longer searches, whose targets are better.
CHANGEABLE = frozenset(
  {
    "examples", "iterations", "late_iterations", "max_seconds", "report_every", "evaluate_every",
    "eval_playthroughs", "eval_iterations", "eval_algorithm", "final_playthroughs",
    "final_iterations",
  }
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class RunOptions:
  """Options of a command that trains: they change nothing of what a configuration trains.

  Attributes:
    output_dir: Folder for configuration, metrics, checkpoints and figure; None for a new
      runs/PRESET-N.
    resume: Go on with the run in output_dir, or in the newest folder of runs/, with its settings;
      those that change what is trained must stay, but for the iterations of searches.
    checkpoint_every: Seconds between checkpoints, beside those after evaluations.
    num_devices: Devices to train on, None for all; each core of a CPU counts as one, as long as it
      has 16 lanes to serve.
    module: Module, or .py file, to import first: it registers a game, a network, an optimizer or a
      writer of your own.
    writers: What gets each row of metrics beside metrics.jsonl: csv, tensorboard, or what was
      registered.
    tensorboard: Write the metrics as TensorBoard event files too, as writers tensorboard does; this
      needs the extra rebel-jax[tensorboard].
  """

  output_dir: Annotated[str | None, allowed.optional(allowed.path("folder"))] = None
  resume: bool = False
  checkpoint_every: Annotated[float, allowed.number()] = 60.0
  num_devices: Annotated[int | None, allowed.optional(allowed.integer(1))] = None
  module: Annotated[str | None, allowed.optional(allowed.text("MODULE"))] = None
  writers: Annotated[tuple[str, ...], allowed.several(allowed.WRITERS)] = ()
  tensorboard: bool = False


class Resumable(NamedTuple):
  """A run that can be resumed: its folder, newest checkpoint and that checkpoint's description."""

  folder: Path
  checkpoint: Path
  about: dict[str, Any]


def check_free(output_dir: str) -> None:
  """Checks that a new run may write to `output_dir` and overwrites nothing there."""
  path = Path(output_dir)
  # Unlike Path's, these take names of any length.
  there = next(p for p in (path, *path.absolute().parents) if os.path.lexists(p))
  if not os.path.isdir(there):
    raise ConfigError(
      f"output_dir={output_dir!r} must be a folder, and {str(there)!r} is a file, or a link to none"
    )
  if checkpoints_of(path):
    raise ConfigError(
      f"output_dir={output_dir!r} holds another run's checkpoint; choose another folder, or "
      "--resume to go on with that run"
    )
  check_files(path, fresh=True)


def check_files(folder: Path, *, fresh: bool) -> None:
  """Checks that a run, one that has written nothing yet if `fresh`, has its own files alone."""
  for path in filter(os.path.lexists, map(folder.joinpath, _FILES)):
    usual = os.path.isdir(path) if path.name in _FOLDERS else os.path.isfile(path)
    if path.is_symlink() or not usual or (fresh and not _is_left_over(path)):
      raise ConfigError(
        f"output_dir={str(folder)!r} holds {path.name!r}, which a run would write over; choose "
        "another folder"
      )


def _is_left_over(path: Path) -> bool:
  """Says whether a run may have left a file that was killed before its first checkpoint."""
  try:
    if path.name == "checkpoints":
      return path.is_dir() and all(map(is_unfinished, path.iterdir()))
    if path.name == "config.json":
      commands = (about := json.loads(files.read_bytes(path))).pop("commands")
      return len(about) == 3 and commands == [{"step": 0, **about}]
    return path.name in (".lock", PRUNED) or (path.is_file() and path.stat().st_size == 0)
  except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
    return False


def make_folder(preset: str, output_dir: str | None) -> Path:
  """Makes the folder of a new run: the one that was asked for, or a fresh `runs/PRESET-N`."""
  if output_dir is None and jax.process_count() > 1:
    raise ConfigError("output_dir=None must be a folder where several processes train together")
  fresh = (Path(RUNS) / f"{preset}-{number}" for number in itertools.count(1))
  for path in fresh if output_dir is None else [Path(output_dir)]:
    taken = [FileExistsError] * (output_dir is None)
    with _written(path), contextlib.suppress(*taken):
      path.mkdir(parents=True, exist_ok=output_dir is not None)
      break
  return path


def _written(path: Path) -> contextlib.AbstractContextManager[None]:
  """Raises a ConfigError where a run cannot write to its folder."""
  return allowed.in_config_errors(
    f"output_dir={str(path)!r} must be a folder that can be written", OSError
  )


def find_run(output_dir: str | None, preset: str | None = None) -> Resumable:
  """Finds the run to resume: in `output_dir`, or the newest in `runs/` (of `preset`, if given)."""
  if output_dir is not None:
    checkpoints = checkpoints_of(output_dir)
    if not checkpoints:
      raise ConfigError(f"output_dir={output_dir!r} holds no checkpoint to resume from")
    check_files(Path(output_dir), fresh=False)
    return Resumable(Path(output_dir), checkpoints[-1], read_about(checkpoints[-1]))
  fits = re.compile(".*" if preset is None else rf"{re.escape(preset)}-\d+").fullmatch
  folders = [p for p in Path(RUNS).glob("*") if fits(p.name) and checkpoints_of(p)]
  if not folders:
    what = "run" if preset is None else f"run of preset {preset!r}"
    raise ConfigError(
      f"resume=True finds no {what} with a checkpoint in {RUNS}/; give its folder as output_dir"
    )
  return find_run(str(max(folders, key=lambda p: checkpoints_of(p)[-1].stat().st_mtime)))


def check_compatible(run: Resumable, saved: Config, config: Config) -> None:
  """Checks that `config` trains what the run with configuration `saved` trained."""
  settings = allowed.flat(config)
  for field, value in allowed.flat(saved).items():
    asked = settings.get(field)
    if field not in CHANGEABLE and asked != value:
      raise ConfigError(
        f"{field}={asked!r} cannot resume the run in {str(run.folder)!r}, which has {value!r}; "
        f"allowed is {value!r}, or a new run in another folder"
      )


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
  """Holds the folder for one run at a time, until the end of the block or of the process."""
  try:
    import fcntl
  except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]
  if fcntl is None or jax.process_index() != 0:
    yield
    return
  with _written(folder):
    file = files.open_file(folder / ".lock", "a")
  used = f"output_dir={str(folder)!r} is in use by another run; choose another folder"
  with file:
    # Some file systems are without locks.
    with (
      contextlib.suppress(OSError),
      allowed.in_config_errors(used, BlockingIOError, reason=False),
    ):
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    yield
