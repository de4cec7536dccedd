"""What stops a run from outside, in sentences: a folder or a device with no room left."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import jax

from rebel_jax.checkpoint_writer import SaveError
from rebel_jax.config import Config, ConfigError


class RunError(RuntimeError):
  """Training cannot go on; the message is one sentence for the user."""


def _is_memory(error: jax.errors.JaxRuntimeError) -> bool:
  return "RESOURCE_EXHAUSTED" in str(error)


@contextlib.contextmanager
def before_writing(config: Config) -> Iterator[None]:
  """Refuses settings for which the device has no memory, while nothing is written yet."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    if not _is_memory(error):
      raise
    raise ConfigError(
      f"buffer_size={config.buffer_size} examples with width={config.width} must fit "
      "in the memory of the device"
    ) from None


@contextlib.contextmanager
def while_training(config: Config, folder: Path) -> Iterator[None]:
  """Says in a sentence that the disk or the device is full, or that `folder` cannot be written."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    if not _is_memory(error):
      raise
    raise RunError(
      f"lanes={config.lanes} with width={config.width} and buffer_size={config.buffer_size} must "
      "fit in the memory of the device while it searches, learns and evaluates, so training "
      "stopped; the last checkpoint is from before"
    ) from None
  except OSError as error:
    raise RunError(
      f"{str(folder)!r} cannot be written ({error.strerror or error}), so training stopped; the "
      "last checkpoint is from before"
    ) from None
  except SaveError as error:
    raise RunError(f"{error}, so training stopped; the last one is from before") from None
