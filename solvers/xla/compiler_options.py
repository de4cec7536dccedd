"""XLA's compiler options on a CPU, by the work that a program does.

XLA's options are no promise: releases drop some. A program asks only for those that the installed
XLA takes; without them it compiles more slowly and computes the same.
"""

import contextlib
import ctypes
import enum
import functools
import os
from collections.abc import Callable
from typing import Any

import jax

from games.public_tree import PublicTree
from solvers import tuning, validation


class Work(enum.Enum):
  """Kind of work that a program spends its time on."""

  PLAIN = "anything else, or compiled for no CPU or inside another program"
  TREES = "trees"
  BOARDS = "lines of betting, the last round a few boards at a time"
  NETWORKS = "a network at the leaves, or lines of one round of betting"
  LOOPS = "loops of small kernels on an accelerator"


_WISHES: dict[Work, dict[str, Any]] = {
  Work.PLAIN: {},
  # JAX 0.10 has two sets of emitters. The older ones compile a tree in half the time and a fifth of
  # the memory, and the result is as fast or faster. For a network's activations they take twice as
  # long. Later releases have the newer ones alone.
  Work.TREES: {"xla_cpu_use_fusion_emitters": False},
  # Lines are one sum after another over hands, which fill whole registers as networks do. Of one
  # round they are few and short, and the newer emitters' programs take two thirds of the time.
  Work.BOARDS: {"xla_cpu_use_fusion_emitters": False, "xla_cpu_prefer_vector_width": 512},
  # Normalisation and activations use whole registers where they are of 512 bits; XLA's own choice
  # is half of one. CPUs with narrower ones compile to the same as without.
  Work.NETWORKS: {"xla_cpu_prefer_vector_width": 512},
  # Two turns of a loop become one, so that no turn copies its results to where the next reads them:
  # a third of the kernels of a small game. The other turn is as quick to compile as the copies.
  Work.LOOPS: {"xla_gpu_enable_while_loop_double_buffering": True},
}

# LLVM unrolls the small loops of a sweep, which costs two thirds of the compilation of a tree and
# makes it slower. XLA takes this option from the environment alone, reads it once, and ends the
# process at a flag that it does not know: so only the releases that were tried are asked.
_ROLLED = "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling"
_TRIED = ((0, 10), (0, 12))


def keep_loops_rolled() -> None:
  """Asks XLA to leave loops as they are, unless the user's `XLA_FLAGS` have extra options.

  It has no effect once JAX has used a device.
  """
  flags = os.environ.get("XLA_FLAGS", "")
  tried = _TRIED[0] <= jax.__version_info__[:2] <= _TRIED[1]
  if tried and "xla_backend_extra_options" not in flags:
    os.environ["XLA_FLAGS"] = f"{flags} {_ROLLED}".strip()


MOST_PROGRAMS = 32  # of one function and kind of work; each holds 5 to 25 MB


class Programs(dict[Work, Callable]):
  """`jax.jit(function, **arguments)` by kind of work, each made when it is first asked for.

  XLA takes options for a whole program only: inside another `jit`, call that of `Work.PLAIN`, as a
  call of the whole does. More than `MOST_PROGRAMS` are let go together, so that memory is bounded
  however many shapes come.
  """

  def __init__(self, function: Callable, **arguments: Any):
    super().__init__()
    self._jit = functools.partial(jax.jit, function, **arguments)
    self._numbers: dict[Work, int] = {}

  def __missing__(self, work: Work) -> Callable:
    self[work] = self._jit(compiler_options=options_for(work))
    return self[work]

  def __getitem__(self, work: Work) -> Any:
    program: Any = super().__getitem__(work)
    number = program._cache_size()
    if number > MOST_PROGRAMS:
      program.clear_cache()
    if number > self._numbers.get(work, 0) and number % 8 == 1:  # it takes 30 ms
      return_memory()
    self._numbers[work] = number
    return program

  def __call__(self, *arguments: Any, **options: Any) -> Any:
    return self[Work.PLAIN](*arguments, **options)


def return_memory() -> None:
  """Returns free memory to the system; after a compilation glibc keeps hundreds of megabytes."""
  with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
    ctypes.CDLL(None).malloc_trim(0)


def options_for(work: Work) -> dict[str, Any] | None:
  """Returns those options for a kind of work that the installed XLA takes, None without any."""
  return {name: x for name, x in _WISHES[work].items() if _is_taken(name, x)} or None


@functools.cache
def _is_taken(name: str, value: Any) -> bool:
  """Says whether the installed XLA takes an option, by compiling a program of one constant."""
  try:
    jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
  except Exception:  # a program without the option is as good, whatever the reason
    return False
  return True


def work_on_trees() -> Work:
  """Returns the work of a program that is all sweeps of trees or lines, outside any `jit`.

  Those of growing searches, whatever their size, the older emitters compile in two thirds of the
  time.
  """
  return Work.TREES if tuning.on_cpu() else Work.PLAIN


def work_of_solving(tree: Any, leaf_values: Any, *arguments: Any) -> Work:
  """Returns the work of solving a tree, or each of a stack.

  Args:
    tree: the tree or the stack; or lines of one round of betting.
    leaf_values: what values its leaves, if it has any.
    *arguments: whatever else is traced where the caller is inside a `jit` of its own.
  """
  if not validation.is_concrete(tree, *arguments):
    return Work.PLAIN
  is_tree = isinstance(tree, PublicTree)
  asks = is_tree and tree.depth_limited and leaf_values is not None
  network = asks and not getattr(leaf_values, "solves_trees", False)
  if not tuning.on_cpu():
    return Work.LOOPS if is_tree and not network else Work.PLAIN
  return Work.NETWORKS if network or not is_tree else Work.TREES


keep_loops_rolled()
