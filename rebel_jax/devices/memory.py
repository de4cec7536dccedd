"""The memory of devices: bytes in use, and the errors of its exhaustion."""

import os
import sys
from pathlib import Path

import jax


def is_exhausted(error: BaseException) -> bool:
  """Says whether an error means that memory did not suffice, on a device or on the host."""
  return isinstance(error, MemoryError) or (
    isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
  )


def device_memory() -> int | None:
  """Returns bytes in use on the first device; on a CPU those that the process has resident."""
  device = jax.local_devices()[0]
  stats = device.memory_stats()
  if stats and "bytes_in_use" in stats:
    return int(stats["bytes_in_use"])
  return resident_memory() if device.platform == "cpu" else None


def memory_of(program: jax.stages.Compiled) -> tuple[float, float, float] | None:
  """Returns gigabytes of a program's arguments, of all beside them, and of the first device.

  None where the compiler or the device does not say.
  """
  sizes, device = program.memory_analysis(), jax.local_devices()[0]
  limit = (device.memory_stats() or {}).get("bytes_limit")
  if device.platform == "cpu" and sys.platform != "win32":
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  if sizes is None or limit is None:
    return None
  beside = sizes.temp_size_in_bytes + sizes.output_size_in_bytes - sizes.alias_size_in_bytes
  return 1e-9 * sizes.argument_size_in_bytes, 1e-9 * beside, 1e-9 * limit


def resident_memory() -> int | None:
  """Returns this process's resident memory in bytes; its peak where the system has no other figure.

  None on Windows, which says neither.
  """
  try:
    import resource
  except ImportError:
    return None
  try:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()
  except (OSError, ValueError, IndexError):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
