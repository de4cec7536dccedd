"""The cores of a CPU as devices: each serves lanes of its own and waits for no other.

One program over two cores splits every product and every loop between them, and they meet after
each; two programs with half of the lanes each meet once a gradient step. What generation gains
is in docs/results/speed.md.
"""

import contextlib
import os

import jax

from rebel_jax.config.config import Config
from solvers.xla import num_cores

_FLAG = "xla_force_host_platform_device_count"
_LANES_PER_DEVICE = 16  # with fewer, packing their leaves and searching their starts costs more


def share_cores(config: Config, num_devices: int | None = None, before: int | None = None) -> None:
  """Makes as many devices of a CPU's cores as a run can use; before anything else uses a device.

  Args:
    config: of the run.
    num_devices: to train on; None for all.
    before: on how many the run that is resumed was trained, if that was on a CPU: on as many it
      goes on bit for bit, also where there are fewer cores.
  """
  make_devices(choose_number(config, num_cores(), num_devices, before))


def make_devices(number: int) -> None:
  """Makes so many devices of a CPU's cores; before anything else uses a device.

  Other platforms' devices stay as they are, and so does a number that the user has set by JAX's
  own means (`JAX_NUM_CPU_DEVICES` or XLA's flag).
  """
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
  if before is not None and num_devices in (None, before):
    return before
  if num_devices is not None:
    return max(1, min(num_devices, cores))
  counts = range(1, max(1, min(cores, config.self_play.lanes // _LANES_PER_DEVICE)) + 1)
  sizes = (config.self_play.lanes, config.learning.batch_size, config.learning.buffer_size)
  return max(count for count in counts if not any(size % count for size in sizes))
