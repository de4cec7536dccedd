"""The cache of XLA's compiled programs that commands share, so that only the first compiles."""

import hashlib
import os
import platform
from pathlib import Path

import jax


def enable() -> None:
  """Keeps compiled programs in the user's cache folder, unless JAX has a folder set already.

  `JAX_COMPILATION_CACHE_DIR` chooses another folder; `JAX_ENABLE_COMPILATION_CACHE=0` none.
  """
  base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
  # Where nobody knows the user, as in some containers, there is no home.
  if not os.environ.get("JAX_COMPILATION_CACHE_DIR") and os.path.isabs(base):
    jax.config.update("jax_compilation_cache_dir", os.path.join(base, "rebel-jax", _machine()))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _machine() -> str:
  """Returns a name for this kind of processor.

  Programs compiled for one CPU may not run on another, and home folders are shared on clusters.
  """
  text = platform.machine() + platform.processor()
  try:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    text += next((line for line in info if line.startswith(("flags", "Features"))), "")
  except OSError:
    pass
  return hashlib.sha256(text.encode()).hexdigest()[:16]
