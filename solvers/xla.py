"""Compilation of programs by XLA, work over a CPU's cores, and arrays on meshes of devices."""
# XLA's options are no promise: releases drop some. A program asks only for those that the
# installed XLA takes; without them it compiles more slowly and computes the same.

import concurrent.futures
import contextlib
import ctypes
import dataclasses
import enum
import functools
import importlib.util
import itertools
import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_batching import custom_vmap
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from solvers import tuning, validation

__all__ = [
  "Programs", "Work", "num_cores", "quickly", "return_memory", "run_ahead", "work_of_solving",
  "work_on_trees",
]  # fmt: skip


class Work(enum.Enum):
  """Kind of work that a program spends its time on."""

  PLAIN = "anything else, or compiled for no CPU or inside another program"
  TREES = "trees"
  BOARDS = "lines of betting, the last round a few boards at a time"
  NETWORKS = "a network at the leaves, or lines of one round of betting"
  LOOPS = "loops of small kernels on an accelerator"
  ONCE = "run once, on a CPU, so that it is compiled quickly"


_QUICK = {
  "xla_backend_optimization_level": 0,
  "xla_llvm_disable_expensive_passes": True,
  "xla_cpu_use_fusion_emitters": False,
}
_WISHES: dict[Work, dict[str, Any]] = {
  Work.PLAIN: {},
  Work.ONCE: _QUICK,
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

# LLVM unrolls the small loops of a sweep, which is most of the compilation of a large tree. With
# the shortest alone it takes as long as with none, but with none an update of Liar's Dice 2x3f
# takes 1.7 to 2 times as long:
# `XLA_FLAGS=--xla_backend_extra_options=xla_cpu_disable_loop_unrolling python -m benchmarks.tabular
# --games liars_dice_2x3f --iterations 512 --batch 0 --clock cpu`. LLVM's options hold for kernels
# of GPUs too, that one does not. XLA takes both from the environment alone, reads it once, and ends
# the process at what it does not know: only releases that were tried are asked.
_SHORT, _NONE = "-unroll-threshold=8", "xla_cpu_disable_loop_unrolling"


def keep_loops_short() -> None:
  """Asks XLA to leave most loops as they are, unless the user's `XLA_FLAGS` have extra options."""
  # It has no effect once JAX has used a device.
  flags = os.environ.get("XLA_FLAGS", "")
  if (0, 10) <= jax.__version_info__[:2] <= (0, 12) and "xla_backend_extra_options" not in flags:
    option = _NONE if any(map(importlib.util.find_spec, ("jax_plugins", "libtpu"))) else _SHORT
    os.environ["XLA_FLAGS"] = f"{flags} --xla_backend_extra_options={option}".strip()


MOST_PROGRAMS = 32  # of one function; each holds 5 to 25 MB
_quick = False


class Programs:
  """`jax.jit(function, **arguments)` by kind of work and by structure and shapes of what it takes.

  XLA takes options for a whole program only: inside another `jit`, call that of `Work.PLAIN`, as
  calling this object does. Beyond `MOST_PROGRAMS` the least recently used program is dropped, so
  that memory is bounded for any number of shapes.
  """

  def __init__(self, function: Callable, **arguments: Any):
    self._function, self._arguments = function, arguments
    self._made: OrderedDict[Hashable, Any] = OrderedDict()
    self._lock = threading.Lock()

  def of(self, work: Work, *arguments: Any, **options: Any) -> Any:
    """Returns the `jax.jit` for a kind of work and for arguments of these shapes."""
    leaves, structure = jax.tree.flatten((arguments, options))
    key = (work, _quick, structure, *map(_kind, leaves))
    with self._lock:
      if key not in self._made:
        # Of one function JAX keeps all that it traced: each program is of a function of its own.
        own = functools.wraps(self._function)(lambda *x, **y: self._function(*x, **y))
        self._made[key] = jax.jit(own, compiler_options=options_for(work), **self._arguments)
        if len(self._made) > MOST_PROGRAMS:
          self._made.popitem(last=False)
        if len(self._made) % 8 in (0, 2):  # it takes 30 ms
          return_memory()
      self._made.move_to_end(key)
      return self._made[key]

  def __getitem__(self, work: Work) -> Callable:
    return lambda *x, **y: self.of(work, *x, **y)(*x, **y)

  def __call__(self, *arguments: Any, **options: Any) -> Any:
    return self[Work.PLAIN](*arguments, **options)


def _kind(x: Any) -> Any:
  """Returns the shape of an array, the type of a number, and itself of anything else."""
  if isinstance(x, np.ndarray | jax.Array):
    return x.shape
  return type(x) if isinstance(x, int | float | np.generic) else x


@contextlib.contextmanager
def quickly() -> Iterator[None]:
  """Compiles new programs of the block in half the time or less; they run several times slower.

  For trying things. Other threads do the same meanwhile.
  """
  global _quick
  before, _quick = _quick, True
  try:
    yield
  finally:
    _quick = before


def return_memory() -> None:
  """Returns free memory to the system; after a compilation glibc keeps hundreds of megabytes."""
  with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
    ctypes.CDLL(None).malloc_trim(0)


def options_for(work: Work) -> dict[str, Any] | None:
  """Returns those options for a kind of work that the installed XLA takes, None without any."""
  wishes = _WISHES[work] | (_QUICK if _quick and work is not Work.PLAIN else {})
  return {name: x for name, x in wishes.items() if _is_taken(name, x)} or None


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
    tree: the tree, the stack or a stage of them; or lines of one round of betting.
    leaf_values: what values its leaves, if it has any.
    *arguments: whatever else is traced where the caller is inside a `jit` of its own.
  """
  if not validation.is_concrete(tree, *arguments):
    return Work.PLAIN
  is_tree = hasattr(tree, "depth_limited")
  asks = is_tree and tree.depth_limited and leaf_values is not None
  network = asks and not getattr(leaf_values, "solves_trees", False)
  if not tuning.on_cpu():
    return Work.LOOPS if is_tree and not network else Work.PLAIN
  return Work.NETWORKS if network or not is_tree else Work.TREES


keep_loops_short()


Item = TypeVar("Item")
Rows = TypeVar("Rows")
Result = TypeVar("Result")
_compiled: set[Hashable] = set()


def num_cores() -> int:
  """Returns how many cores this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def map_over_cores(
  function: Callable[[Rows], Result], rows: Rows, *, most: int, key: Hashable
) -> Result:
  """Applies compiled functions to equal parts of `rows`, each on a core of its own."""
  # A loop over small arrays, as a solver's is, runs on one core: an operation is over before
  # another core could help. Compiled programs do not hold Python's lock, so threads do help.
  size = len(jax.tree.leaves(rows)[0])
  count = min(num_cores(), most)
  if count <= 1:
    return function(rows)
  share = -(-size // count)
  # The last part is filled up with the last row, so that one program serves all parts.
  places = [np.minimum(np.arange(i, i + share), size - 1) for i in range(0, size, share)]
  leaves, structure = jax.tree.flatten(rows)
  x64 = jax.config.read("jax_enable_x64")
  key = (key, structure, share, x64, *((x.shape[1:], str(x.dtype)) for x in leaves))

  def run(part: np.ndarray) -> Result:
    return jax.block_until_ready(function(jax.tree.map(lambda x: x[part], rows)))

  parts = [found for _, found in run_ahead(run, places, kind=lambda _: key, seen=_compiled)]
  return jax.tree.map(lambda *x: jnp.concatenate(x)[:size], *parts)


def run_ahead(
  function: Callable[[Item], Result],
  items: Iterable[Item],
  *,
  kind: Callable[[Item], Hashable],
  cores: bool = True,
  seen: set[Hashable] | None = None,
) -> Iterator[tuple[Item, Result]]:
  """Yields each item with `function(item)`, in order, while the next are computed on other cores.

  On accelerators each item has one of them as its default device, in turn.

  Args:
    function: calls a compiled program and waits for its result.
    items: what to call it with.
    kind: which program an item needs. The first of each kind is done before others of it begin.
    cores: whether a CPU's cores take part.
    seen: kinds that are compiled, to which it adds those that it sees; None for none.
  """
  devices = [tuning.chosen_device()] if tuning.on_cpu() else jax.local_devices()
  count = num_cores() if tuning.on_cpu() and cores else len(devices)
  x64 = jax.config.read("jax_enable_x64")  # threads start with the process's own setting

  def run(item: Item, device: jax.Device | None) -> Result:
    with jax.enable_x64(x64), jax.default_device(device):
      return function(item)

  seen = set() if seen is None else seen
  pending: deque[tuple[Item, concurrent.futures.Future[Result]]] = deque()
  with concurrent.futures.ThreadPoolExecutor(count) as threads:
    for item, device in zip(items, itertools.cycle(devices)):
      pending.append((item, threads.submit(run, item, device)))
      if kind(item) not in seen:
        seen.add(kind(item))
        concurrent.futures.wait([pending[-1][1]])
      while len(pending) > count:
        first, future = pending.popleft()
        yield first, future.result()
    for item, future in pending:
      yield item, future.result()


def varying_alike(arrays: Any, like: Any = None) -> Any:
  """Returns arrays that all vary over the axes of a `shard_map` that any of them varies over."""

  # Loops carry what they were given, and constants do not vary. `like` counts too.
  def axes_of(x: Any) -> frozenset:
    return jax.typeof(x).manual_axis_type.varying

  axes = frozenset().union(*map(axes_of, _arrays((arrays, like))))
  if not axes:
    return arrays
  return jax.tree.map(lambda x: lax.pcast(x, tuple(axes - axes_of(x)), to="varying"), arrays)


def _arrays(tree: Any) -> Iterator[jax.Array]:
  """Yields the arrays of a tree, and of records in it that are no trees, as problems are."""
  for x in jax.tree.leaves(tree):
    if isinstance(x, jax.Array):
      yield x
    elif dataclasses.is_dataclass(x):
      yield from _arrays(list(vars(x).values()))


def on_mesh_of(*arrays: Any) -> contextlib.AbstractContextManager:
  """Returns a context in which operations know the explicit axes that arrays are laid out over."""
  for x in jax.tree.leaves(arrays):
    mesh = getattr(_layout(x), "mesh", None)
    if mesh is not None and AxisType.Explicit in mesh.axis_types:
      return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)
  return contextlib.nullcontext()


def _layout(x: Any) -> Any:
  """Returns the sharding of an array; of a traced one, what its type says."""
  return getattr(jax.typeof(x) if isinstance(x, jax.core.Tracer) else x, "sharding", None)


def layout_of_rows(rows: Any) -> NamedSharding | None:
  """Returns how rows `[B, ...]` are laid out over several devices, None where that is not known."""
  # It is known of arrays, and of traced ones on explicit axes.
  for x in jax.tree.leaves(rows):
    layout = _layout(x)
    if isinstance(layout, NamedSharding) and layout.spec and layout.spec[0] is not None:
      return NamedSharding(layout.mesh, PartitionSpec(layout.spec[0]))
  return None


def by_rows(function: Any, *arrays: Any) -> Any:
  """Returns `function(*arrays)`, each device's own rows under `jax.vmap` over explicit axes."""
  # Rows that index arrays which all of them share have no type on explicit axes.
  if not any(
    AxisType.Explicit in jax.typeof(x).sharding.mesh.axis_types for x in jax.tree.leaves(arrays)
  ):
    return function(*arrays)
  each = custom_vmap(function)

  @each.def_vmap
  def on_rows(_, is_row, *arrays):
    rows = next(
      jax.typeof(x).sharding
      for x, own in zip(jax.tree.leaves(arrays), jax.tree.leaves(is_row))
      if own
    )
    every = jax.vmap(function, jax.tree.map(lambda own: 0 if own else None, tuple(is_row)))
    found = (
      by_rows(every, *arrays)
      if rows.spec[0] is None
      else jax.shard_map(
        every,
        mesh=rows.mesh,
        in_specs=jax.tree.map(lambda own: PartitionSpec(*rows.spec[:own]), tuple(is_row)),
        out_specs=PartitionSpec(rows.spec[0]),
      )(*arrays)
    )
    return found, jax.tree.map(lambda _: True, found)

  return each(*arrays)
