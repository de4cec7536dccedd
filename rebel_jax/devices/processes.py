"""Several processes that train one network together."""

import os
from typing import Any

import jax
import numpy as np

from rebel_jax.config.config import ConfigError

_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


def join() -> None:
  """Joins the other processes of the job; before anything else uses a device.

  On SLURM, TPU pods, Open MPI and Kubernetes `jax.distributed` finds them by itself. Elsewhere
  three environment variables name the first process's `HOST:PORT`, how many processes there are
  and which of them this is.

  Raises:
    ConfigError: there is no such job, the variables are incomplete or wrong, or the others cannot
      be reached.
  """
  given = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
  settings: tuple[Any, ...] = ()
  if given:
    missing = [name for name in _VARIABLES if name not in given]
    if missing:
      raise ConfigError(f"distributed=True needs {' and '.join(missing)} beside {', '.join(given)}")
    address, *numbers = (given[name] for name in _VARIABLES)
    if not all(number.isdigit() for number in numbers) or int(numbers[1]) >= int(numbers[0]):
      raise ConfigError(
        f"distributed=True with JAX_NUM_PROCESSES={numbers[0]!r} and JAX_PROCESS_ID="
        f"{numbers[1]!r}: they must be a positive integer and one below it, counted from 0"
      )
    settings = (address, *map(int, numbers))
  try:
    jax.distributed.initialize(*settings)
  except (ValueError, RuntimeError) as error:
    reason = str(error).splitlines()[0]
    raise ConfigError(
      f"distributed=True but the job's other processes are not found ({reason}); allowed under "
      f"SLURM, Open MPI, Kubernetes and on TPU pods, or with {', '.join(_VARIABLES)}"
    ) from None


def agree(decision: bool) -> bool:
  """Returns the first process's decision, so that all processes do the same."""
  return bool(share(decision))


def share(number: int) -> int:
  """Returns the first process's number."""
  if jax.process_count() == 1:
    return number
  from jax.experimental import multihost_utils

  return int(multihost_utils.broadcast_one_to_all(np.asarray(number)))
