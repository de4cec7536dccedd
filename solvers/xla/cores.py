"""Threads over a CPU's cores for work that XLA runs on one of them."""

import concurrent.futures
import itertools
import os
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from solvers import tuning

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
  """Applies compiled functions to equal parts of `rows`, each on a core of its own.

  A loop over small arrays, as a solver's is, runs on one core: an operation is over before
  another core could help. Compiled programs do not hold Python's lock, so threads do help.

  Args:
    function: calls compiled programs; maps arrays with a leading axis `[B]` to others, row by row.
    rows: a pytree of such arrays.
    most: parts to make at most.
    key: what the compiled programs depend on besides the shapes of `rows`.

  Returns:
    What `function(rows)` would.
  """
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
    kind: what decides which program an item needs. The first of each kind is done before others
      of it begin, so that it is compiled once.
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
