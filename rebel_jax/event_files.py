"""The rows of `metrics.jsonl` as TensorBoard event files, an extra: `rebel-jax[tensorboard]`."""

import importlib.util
from pathlib import Path
from typing import Any

import jax

from rebel_jax.config import ConfigError


def check_installed() -> None:
  """Checks that event files can be written.

  Raises:
    ConfigError: tensorboardX is not installed.
  """
  if importlib.util.find_spec("tensorboardX") is None:
    raise ConfigError(
      "tensorboard=True needs the package tensorboardX, which is not installed: "
      "pip install 'rebel-jax[tensorboard]'"
    )


class EventFiles:
  """Writes rows to `OUTPUT_DIR/tensorboard`; only the first process of a run does."""

  def __init__(self, output_dir: str | Path, step: int):
    """Opens a new file.

    Args:
      output_dir: the run's folder.
      step: rows beyond it, in files from before, are no longer valid.
    """
    self._writer = None
    if jax.process_index() == 0:
      from tensorboardX import SummaryWriter

      folder = Path(output_dir) / "tensorboard"
      self._writer = SummaryWriter(str(folder), purge_step=step + 1 if step else None)

  def write(self, row: dict[str, Any]) -> None:
    """Writes every number of a row at its `step`."""
    if self._writer:
      for name, value in row.items():
        if name != "step" and isinstance(value, (int, float)):
          self._writer.add_scalar(name, value, row["step"])
      self._writer.flush()

  def close(self) -> None:
    """Closes the file."""
    if self._writer:
      self._writer.close()
