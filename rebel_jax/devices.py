"""Devices, their memory and processes, and the cache of compiled programs."""

import contextlib
import os
from typing import Any

import jax
import numpy as np
import psutil

from rebel_jax.config import Config, ConfigError
from solvers import native
from solvers.xla import num_cores


def enable_cache() -> None:
  """Keeps compiled programs in the user's cache folder, unless JAX has a folder set already.

  `JAX_COMPILATION_CACHE_DIR` chooses another folder; `JAX_ENABLE_COMPILATION_CACHE=0` none.
  """
  folder = native.cache_folder()
  if not os.environ.get("JAX_COMPILATION_CACHE_DIR") and folder is not None:
    jax.config.update("jax_compilation_cache_dir", str(folder))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


_FLAG = "xla_force_host_platform_device_count"
_LANES_PER_DEVICE = 16  # with fewer, packing their leaves and searching their starts costs more


def share_cores(config: Config, num_devices: int | None = None, before: int | None = None) -> None:
  """Makes as many devices of a CPU's cores as a run can use; before anything else uses a device."""
  make_devices(choose_number(config, num_cores(), num_devices, before))


def make_devices(number: int) -> None:
  """Makes so many devices of a CPU's cores, unless the user has; before a device is used."""
  given: int = jax.config.values["jax_num_cpu_devices"]  # -1 unless the user has said
  if _FLAG in os.environ.get("XLA_FLAGS", "") or given > 0:
    return
  # It is too late where devices are in use already, as when a notebook calls the command.
  with contextlib.suppress(RuntimeError):
    jax.config.update("jax_num_cpu_devices", number)


def choose_number(
  config: Config, cores: int, num_devices: int | None = None, before: int | None = None
) -> int:
  """Returns how many devices to make of `cores` cores for a run: 1 or more."""
  # On as many as before a run goes on bit for bit, also where there are fewer cores.
  if before is not None and num_devices in (None, before):
    return before
  if num_devices is not None:
    return max(1, min(num_devices, cores))
  counts = range(1, max(1, min(cores, config.self_play.lanes // _LANES_PER_DEVICE)) + 1)
  sizes = (config.self_play.lanes, config.learning.batch_size, config.learning.buffer_size)
  return max(count for count in counts if not any(size % count for size in sizes))


def is_exhausted(error: BaseException) -> bool:
  """Says whether an error means that memory did not suffice, on a device or on the host."""
  return isinstance(error, MemoryError) or (
    isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
  )


def memory() -> tuple[int | None, int | None]:
  """Returns bytes in use on the first device and those that it has, None where it does not say."""
  device = jax.local_devices()[0]
  if device.platform == "cpu":
    return psutil.Process().memory_info().rss, psutil.virtual_memory().total
  sizes = device.memory_stats() or {}
  return sizes.get("bytes_in_use"), sizes.get("bytes_limit")


def memory_of(program: jax.stages.Compiled) -> tuple[float, float, float] | None:
  """Returns gigabytes of a program's arguments, of all beside them, and of the first device."""
  sizes, limit = program.memory_analysis(), memory()[1]
  if sizes is None or limit is None:
    return None
  beside = sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
  return 1e-9 * sizes.argument_size_in_bytes, 1e-9 * beside, 1e-9 * limit


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
