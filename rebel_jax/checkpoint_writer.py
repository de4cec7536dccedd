"""Writes checkpoints while training goes on, and keeps those that are worth keeping."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import jax

from rebel_jax import checksums
from rebel_jax.checkpoint import FORMAT, NEWER, best_checkpoint, checkpoints_of, plain
from rebel_jax.processes import agree
from rebel_jax.training import TrainState


class SaveError(RuntimeError):
  """A checkpoint could not be written; those from before are as they were."""


class CheckpointWriter:
  """Saves the checkpoints of one run; every process must make the same calls."""

  def __init__(self, output_dir: str | Path, keep: int):
    """Prepares to write.

    Args:
      output_dir: the run's folder.
      keep: newest checkpoints to keep, beside the best.
    """
    import orbax.checkpoint as ocp  # here because it takes half a second and few users need it

    self.output_dir, self.keep = Path(output_dir).absolute(), keep
    self._args = ocp.args
    self._checkpointer = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler())
    self._writing: Path | None = None

  def save(self, state: TrainState, about: dict[str, Any]) -> None:
    """Begins to save a checkpoint; `state` may be donated as soon as this returns.

    On a CPU Orbax reads the arrays' own memory, which JAX does not reuse as long as that lasts.

    Args:
      state: of training.
      about: anything JSON can hold; `exploitability` in it decides which checkpoint is the best.

    Raises:
      SaveError: this checkpoint or the one before could not be written.
    """
    self.wait()
    path = self.output_dir / "checkpoints" / f"{int(state.step):08d}"
    if agree(path.exists()):
      path = path.with_name(path.name + NEWER)  # the old one stays until this one is complete
    items = {"params": state.params, "state": plain(state)}
    sums = {name: checksums.of_arrays(item) for name, item in items.items()}
    about = json.loads(json.dumps(about | {"format": FORMAT, "checksums": sums}))
    about["about_checksum"] = checksums.of_json(about)
    try:
      self._checkpointer.save(
        path,
        args=self._args.Composite(
          **{name: self._args.StandardSave(item) for name, item in items.items()},
          about=self._args.JsonSave(about),
        ),
      )
    except Exception as error:
      raise self._failed(path, error) from None
    self._writing = path

  def wait(self) -> None:
    """Waits until what was begun is written, and removes old checkpoints.

    Raises:
      SaveError: it could not be written.
    """
    path, self._writing = self._writing, None
    if path is None:
      return
    try:
      self._checkpointer.wait_until_finished()
    except Exception as error:
      raise self._failed(path, error) from None
    if jax.process_index() == 0:
      try:
        tidy(self.output_dir)
      except OSError as error:
        raise self._failed(path, error) from None
      _prune(self.output_dir, self.keep)

  def _failed(self, path: Path, error: Exception) -> SaveError:
    if jax.process_index() == 0:
      with contextlib.suppress(OSError):
        tidy(self.output_dir)  # makes room
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    return SaveError(f"checkpoint={str(path)!r} cannot be written: {reason}")


def tidy(output_dir: str | Path) -> None:
  """Puts checkpoints in the place of those they replace, and removes what is not complete.

  The latter is what a process leaves behind that is killed while it saves.
  """
  folder = Path(output_dir) / "checkpoints"
  for path in sorted(folder.iterdir()) if folder.is_dir() else ():
    if not path.is_dir() or path.name.isdecimal():
      continue
    if path.name.removesuffix(NEWER).isdecimal():
      old = path.with_suffix("")
      if old.exists():
        # A kill after this line leaves the newer one alone, which is found by its own name.
        old.rename(old.with_suffix(".old"))
      path.rename(old)
      shutil.rmtree(old.with_suffix(".old"), ignore_errors=True)
    else:
      shutil.rmtree(path, ignore_errors=True)


def _prune(output_dir: Path, keep: int) -> None:
  paths = checkpoints_of(output_dir)
  best = best_checkpoint(output_dir)
  for path in paths[:-keep]:
    if path != best:
      shutil.rmtree(path, ignore_errors=True)
