"""The cache of XLA's compiled programs that commands share, so that only the first compiles."""

import os

import jax

from solvers import native


def enable() -> None:
  """Keeps compiled programs in the user's cache folder, unless JAX has a folder set already.

  `JAX_COMPILATION_CACHE_DIR` chooses another folder; `JAX_ENABLE_COMPILATION_CACHE=0` none.
  """
  folder = native.cache_folder()
  if not os.environ.get("JAX_COMPILATION_CACHE_DIR") and folder is not None:
    jax.config.update("jax_compilation_cache_dir", str(folder))
  jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
  jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
