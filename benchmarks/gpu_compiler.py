"""XLA's GPU compiler on a machine without a GPU, and what its programs launch."""

import functools
import re
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import topologies

from solvers import tuning

_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "f64": 8, "s64": 8, "u64": 8}
_NO_KERNEL = {
  "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier",
  "partition-id", "replica-id", "async-done", "add-dependency",
}  # fmt: skip
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?(%\S+) = (.*?) ([a-z][\w-]*)\((.*)")


def absent_gpu(description: str) -> jax.Device:
  """Returns the device of a target description; programs are made for a GPU from now on."""
  jax.config.update("jax_platforms", "cpu")  # the plugin would look for a driver
  shape = {"target_config": description, "topology": "1x1x1"}
  device = topologies.get_topology_desc("", "cuda", **shape).devices[0]
  tuning.platform = lambda: "gpu"
  return device


class Counts(NamedTuple):
  """What a program launches and touches."""

  kernels: int = 0
  bytes: int = 0
  waits: int = 0  # loops and branches that the host decides
  turn: int = 0  # kernels of a turn of the loop that launches most of those whose length is known

  def plus(self, other: "Counts", times: int = 1) -> "Counts":
    return Counts(*(x + times * y for x, y in zip(self[:3], other)))


def count(text: str) -> Counts:
  """Returns the kernels that one call of a program launches, from its optimised HLO."""
  # A loop whose turns are counted by the device counts once, and so does the longest branch. Bytes
  # are all operands and results, more than what moves where caches hold them.
  bodies: dict[str, list[tuple[Any, ...]]] = {}
  loops = [(0, 0)]  # kernels of all turns, and of one
  for block in re.split(r"\n(?=ENTRY |%)", text):
    name = "entry" if block.startswith("ENTRY") else block.lstrip().split(" ")[0]
    bodies[name] = [x.groups() for x in map(_INSTRUCTION.match, block.splitlines()) if x]

  @functools.cache
  def of(name: str) -> Counts:
    total, types = Counts(), {x[0]: x[1] for x in bodies.get(name, ())}
    for _, shape, kind, rest in bodies.get(name, ()):
      called = re.findall(r"(?:body|to_apply|calls|computations?)=\{?(%[^\s{}]*[\w-])", rest)
      inner = [of(x) for x in re.findall(r"%[\w.-]+", " ".join(called))]
      if kind == "while":
        known, body = re.findall(r'known_trip_count":\{"n":"(\d+)"', rest), of(called[0])
        loops.extend((int(x) * body.kernels, body.kernels) for x in known)
        total = total.plus(body, int((known or [1])[0])).plus(Counts(waits=not known))
      elif kind == "conditional":
        total = total.plus(max(inner)).plus(Counts(waits=1))
      elif kind in ("call", "async-start"):
        total = total.plus(inner[0])
      elif kind not in _NO_KERNEL:
        operands = [types.get(x, "") for x in re.findall(r"%[\w.-]+", rest.split("), ")[0])]
        total = total.plus(Counts(1, sum(map(_bytes, [shape, *operands]))))
    return total

  return of("entry")._replace(turn=max(loops)[1])


def _bytes(shape: str) -> int:
  arrays = re.findall(r"([a-z]+\d*)\[([\d,]*)\]", shape)
  sides = [[int(side) for side in x.split(",") if side] for _, x in arrays]
  return sum(_BYTES.get(x, 4) * int(np.prod(y, initial=1)) for (x, _), y in zip(arrays, sides))


def rounded_products(text: str) -> int:
  """Returns how many products of float32 may be TF32, from a program as it was lowered."""
  found = re.findall(r"stablehlo\.dot_general[^\n]*-> tensor<[^>]*f32>", text)
  return sum("HIGHEST" not in x and "bf16" not in x for x in found)
