"""The checkpoints of a run while it trains: Orbax writes them in the background and prunes them."""

import contextlib
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from rebel_jax.checkpoints import files
from rebel_jax.checkpoints.checkpoint import (
  FORMAT,
  PRUNED,
  is_unfinished,
  line,
  plain,
  read_about,
  sum_of_arrays,
  sum_of_json,
)
from rebel_jax.config.allowed import ConfigError, RunError
from rebel_jax.devices.processes import agree
from rebel_jax.training.loop import TrainState


class CheckpointManager:
  """Saves the checkpoints of one run; every process must make the same calls.

  Kept are the newest and the one of lowest exploitability. Nothing else in the folder is touched.
  """

  def __init__(self, output_dir: str | Path, keep: int = 3):
    """Removes what a killed process left of its checkpoints, and prepares to write.

    Args:
      output_dir: the run's folder.
      keep: newest checkpoints to keep, beside the best.

    Raises:
      ConfigError: what is said of a checkpoint that is there cannot be read.
      OSError: the folder cannot be written.
    """
    self._folder = Path(output_dir).absolute() / "checkpoints"
    if jax.process_index() == 0 and self._folder.is_dir():
      for path in self._folder.iterdir():
        if is_unfinished(path):
          shutil.rmtree(path, ignore_errors=True)
    policies = ocp.checkpoint_managers
    options = ocp.CheckpointManagerOptions(
      step_format_fixed_length=8,
      best_fn=_exploitability,
      preservation_policy=policies.AnyPreservationPolicy(
        [
          policies.LatestN(keep),
          # It also keeps what has a number for a name and no metrics: no run wrote that.
          policies.BestN(get_metric_fn=_exploitability, reverse=True, n=1),
        ]
      ),
      todelete_subdir=PRUNED,
    )
    try:
      self._manager = ocp.CheckpointManager(self._folder, options=options)
    except ValueError as error:
      raise ConfigError(
        f"checkpoints={str(self._folder)!r} cannot be read: {line(error)}"
      ) from None
    self._writing: Path | None = None

  @property
  def empty(self) -> bool:
    """Whether there is no checkpoint yet."""
    return not self._manager.all_steps()

  def save(self, state: TrainState, about: dict[str, Any]) -> None:
    """Begins to save a checkpoint; `state` may be donated as soon as this returns.

    On a CPU Orbax reads the arrays' own memory, which JAX does not reuse as long as that lasts.
    Where there is a checkpoint of that step, its arrays are the same, and only what is said about
    it changes.

    Args:
      state: of training.
      about: anything JSON can hold; `exploitability` in it decides which checkpoint is the best.

    Raises:
      RunError: this checkpoint or the one before could not be written.
    """
    self.wait()
    step = int(state.step)
    path = self._writing = self._folder / f"{step:08d}"
    metrics = {"exploitability": about.get("exploitability")}
    with self._sentence():
      if step in self._manager.all_steps():
        self._say_anew(path, about, metrics)
        return
      if agree(path.exists()):  # Orbax would delete it
        raise FileExistsError("what has its name was not written by this run")
      items = {"params": state.params, "state": plain(state)}
      sums = {name: sum_of_arrays(item) for name, item in items.items()}
      arrays = {name: ocp.args.StandardSave(item) for name, item in items.items()}
      said = ocp.args.JsonSave(_sealed(about | {"checksums": sums}))
      self._manager.save(
        step, args=ocp.args.Composite(**arrays, about=said), metrics=metrics, force=True
      )

  def wait(self) -> None:
    """Waits until what was begun is written, and what is no longer kept is removed.

    Raises:
      RunError: it could not be written.
    """
    with self._sentence():
      self._manager.wait_until_finished()
    if jax.process_index() == 0:
      shutil.rmtree(self._folder / PRUNED, ignore_errors=True)

  def close(self) -> None:
    """Waits, and ends Orbax's threads.

    Raises:
      RunError: what was begun could not be written.
    """
    self.wait()
    self._manager.close()

  def _say_anew(self, path: Path, about: dict[str, Any], metrics: dict[str, Any]) -> None:
    # The arrays lie as they were saved, perhaps from another number of devices.
    before = {name: read_about(path)[name] for name in ("checksums", "num_devices")}
    if jax.process_index() == 0:
      said = {"about/metadata": _sealed(about | before), "metrics/metrics": metrics}
      for name, value in said.items():
        files.replace_text(path / name, json.dumps(value))
    agree(True)  # the others read what the first process has written
    self._manager.reload()

  @contextlib.contextmanager
  def _sentence(self) -> Iterator[None]:
    try:
      yield
    except Exception as error:
      raise RunError(
        f"checkpoint={str(self._writing)!r} cannot be written: {line(error)}, so training stopped; "
        "the last one is from before"
      ) from None


def _exploitability(metrics: dict[str, float | None]) -> float:
  value = metrics.get("exploitability")
  return math.inf if value is None else value


def _sealed(about: dict[str, Any]) -> dict[str, Any]:
  """Returns the description of a checkpoint as JSON, with a checksum over all of it."""
  about = json.loads(json.dumps(about | {"format": FORMAT}))
  return about | {"about_checksum": sum_of_json(about)}
