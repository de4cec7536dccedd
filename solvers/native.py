"""Functions in C++ that XLA calls on a CPU, compiled once with the system's compiler.

XLA's own form of each stays beside it, as what runs without a compiler and what tests compare.
"""

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
import warnings
from pathlib import Path

import jax
import jaxlib

# Products that are added stay rounded, so that processors agree.
_FLAGS = (
  "-std=c++17", "-O3", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared", "-w",
)  # fmt: skip
_COMPILERS = ("c++", "g++", "clang++")
_LOCK = threading.Lock()


def cache_folder() -> Path | None:
  """Returns the folder of the user's cache for this kind of processor; None without a home."""
  # What is compiled for one CPU may not run on another, and home folders are shared on clusters.
  base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
  # A user without an entry, as in some containers, has no home.
  if not os.path.isabs(base):
    return None
  text = platform.machine() + platform.processor()
  try:
    info = Path("/proc/cpuinfo").read_text().splitlines()
    text += next((line for line in info if line.startswith(("flags", "Features"))), "")
  except OSError:
    pass
  return Path(base, "rebel-jax", hashlib.sha256(text.encode()).hexdigest()[:16])


def target(source: Path, symbol: str) -> str | None:
  """Returns XLA's name for `symbol` of a C++ file; None, after a warning, if not compiled."""
  with _LOCK:  # XLA takes a name once
    return _target(source, symbol)


@functools.cache
def _target(source: Path, symbol: str) -> str | None:
  try:
    made_with = repr((_FLAGS, jax.__version__, jaxlib.__version__))
    text, folder = source.read_bytes() + made_with.encode(), cache_folder()
    if folder is None:
      raise OSError("the user has no cache folder")
    name = f"{symbol}_{hashlib.sha256(text).hexdigest()[:16]}"
    path = folder / f"{name}.so"
    if not path.exists():
      _compile(source, path)
    for place in (path.parent, path):
      if hasattr(os, "getuid") and place.stat().st_uid != os.getuid():
        raise OSError(f"{place} belongs to another user")
    try:
      library = ctypes.CDLL(str(path))
    except OSError:  # made on a machine with other libraries
      _compile(source, path)
      library = ctypes.CDLL(str(path))
    function = getattr(library, symbol)
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(function), platform="cpu")
  except Exception as error:  # XLA's own form is as right, whatever the reason
    reason = getattr(error, "stderr", None) or error
    warnings.warn(f"{source.name} is not used, XLA's slower form is: {reason}", stacklevel=2)
    return None
  return name


def _compile(source: Path, path: Path) -> None:
  """Compiles a C++ file beside `path` and renames it, so that several processes may do it."""
  names = [os.environ.get("CXX", ""), *_COMPILERS]
  compiler = next((x for name in names if name and (x := shutil.which(name))), None)
  if compiler is None:
    raise OSError("there is no C++ compiler")
  path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=path.parent) as folder:
    made = Path(folder, path.name)
    command = [compiler, *_FLAGS, "-I", jax.ffi.include_dir(), str(source), "-o", str(made)]
    try:
      subprocess.run([*command, "-march=native"], check=True, capture_output=True, timeout=120)
    except subprocess.CalledProcessError:  # not every compiler knows its machine
      subprocess.run(command, check=True, capture_output=True, timeout=120, text=True)
    os.replace(made, path)
