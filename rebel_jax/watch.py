"""What a row of metrics says about a chunk of training, beside losses and counts."""

import sys
from pathlib import Path

import jax
import optax

from rebel_jax.training import Report, TrainState


def losses(report: Report, steps: int, learned: int) -> dict[str, float | None]:
  """Returns what a chunk says about learning.

  Args:
    report: of the chunk; its means count steps before learning began as zero.
    steps: gradient steps that the chunk has room for.
    learned: those that were taken.
  """
  share = steps / learned if learned else None
  said = {
    "loss": float(report.loss) * share if share else None,
    "value_error": float(report.value_error),
    "gradient_norm": float(report.gradient_norm) * share if share else None,
  }
  if report.policy_loss is not None:
    said["policy_loss"] = float(report.policy_loss) * share if share else None
  return said


def buffer_age(in_buffer: int, examples: int, step: int) -> float:
  """Returns how many steps ago the examples in the buffer were made, on average.

  The buffer holds the newest, and steps make about equally many.

  Args:
    in_buffer: examples in the buffer.
    examples: examples made so far.
    step: steps taken so far.
  """
  return round(in_buffer / 2 * step / max(examples, 1), 3)


def gradient_steps(state: TrainState) -> int:
  """Returns how many gradient steps were taken: the optimizers count them."""
  counts = optax.tree_utils.tree_get_all_with_path(state.optimizer_state, "count")
  return int(counts[0][1])


def device_memory() -> int | None:
  """Returns bytes in use on the first device; on a CPU those that the process has resident."""
  device = jax.local_devices()[0]
  stats = device.memory_stats()
  if stats and "bytes_in_use" in stats:
    return int(stats["bytes_in_use"])
  return resident_memory() if device.platform == "cpu" else None


def resident_memory() -> int | None:
  """Returns the bytes of memory that this process has resident; its peak where that is not told.

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
