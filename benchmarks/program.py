"""What the compiled programs consist of: kernels, operations and bytes of an update, no timing.

`python -m benchmarks.program` compiles, for the device at hand, the depth-2 search of a preset (its
self-play batch and network) and the solve of whole games, and prints a JSON line for each:

  kernels_per_update: instructions in the body of the solver's loop that do work (fusions, products,
    copies, ...), halved, since one pass of the loop updates both players. On an accelerator each is
    a launch.
  flops_per_update, bytes_per_update: what XLA's cost analysis counts for the same. Bytes are those
    that kernels read and write, as if no cache held anything between two of them.
  intensity: operations per byte.
  h100_*: what an H100 would take at least for these operations and bytes at its published peaks,
    and for the launches at `--launch-microseconds` each, which is an assumption. Bounds for
    orientation, not measurements: a program compiled for another device is fused differently.
    `h100_examples_per_second_at_most` is what the slowest of TF32 products, bytes and launches
    would leave of a search that makes two training examples.

With `--fused` the network is stood for by a kernel that reads and writes what
`rebel_jax.fused_layers` reads and writes for each row, weights apart, and its operations are
counted by hand: the kernel itself compiles for NVIDIA's GPUs only.
"""

import dataclasses
import functools
import json
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tyro
from jax import lax

import games
import solvers
from benchmarks import timing
from benchmarks.generation import flops_per_row
from rebel_jax.networks import NetworkLeafValues, with_roots
from rebel_jax.presets import get_preset
from rebel_jax.setup import make_setup
from solvers import LeafQuery, traversal
from solvers.batch_search import search_batch
from solvers.solve import uniform_policy

# NVIDIA H100 SXM5 80 GB, from NVIDIA's "H100 Tensor Core GPU" datasheet: dense products in TF32,
# plain float32, and the bandwidth of its memory.
H100_TF32_FLOPS = 494.7e12
H100_FLOAT32_FLOPS = 66.9e12
H100_BYTES_PER_SECOND = 3.35e12

# Instructions that XLA turns into addresses rather than kernels.
_FREE = {"parameter", "get-tuple-element", "tuple", "constant", "bitcast", "after-all"}


@dataclasses.dataclass(frozen=True)
class Options:
  """Analyse compiled programs."""

  presets: tuple[str, ...] = ("liars_dice_1x4f_paper", "liars_dice_2x3f_paper")
  """Whose search to compile."""
  lanes: int | None = None
  """Subgames searched side by side; None for the preset's."""
  precision: str | None = None
  """Of the network, as in train.py; None for the preset's."""
  fused: bool = False
  """Whether the network's layers are one kernel, as with `--fused-network` on a GPU."""
  games: tuple[str, ...] = ("liars_dice_1x4f", "leduc", "liars_dice_1x6f")
  """Whole games to compile, by their short names."""
  batch: int = 64
  """Whole games solved side by side."""
  launch_microseconds: float = 2.0
  """Of one kernel on an accelerator, launched from a command buffer or one by one."""


def loop_kernels(text: str) -> Counter[str]:
  """Counts the working instructions, by kind, in the largest loop body of a compiled program.

  Raises:
    ValueError: the program has no loop.
  """
  text = re.sub(r"/\*.*?\*/", "", text)
  names = re.findall(r"\bwhile\(.*?body=%?([\w.\-]+)", text)
  counts = [_kernels(text, name) for name in names]
  if not counts:
    raise ValueError("the compiled program has no loop")
  return max(counts, key=lambda count: sum(count.values()))


def _kernels(text: str, computation: str) -> Counter[str]:
  head = re.search(rf"^%?{re.escape(computation)} .*\{{$", text, re.MULTILINE)
  assert head is not None
  body = text[head.end() : text.index("\n}", head.end())]
  kinds = re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][\w\-]*)\(", body, re.MULTILINE)
  return Counter(kind for kind in kinds if kind not in _FREE)


@dataclasses.dataclass(frozen=True)
class _ReadsAndWrites(NetworkLeafValues):
  """Moves the bytes of a network in one kernel and computes next to nothing."""

  def __call__(self, params: Any, query: LeafQuery) -> jax.Array:
    del params
    beliefs = query.beliefs.reshape(len(query.beliefs), -1)
    # The kernel finds its inputs side by side in memory.
    inputs = lax.optimization_barrier(with_roots(beliefs, self.network.belief_roots))
    read = inputs.sum(axis=-1, keepdims=True) + query.encoded.sum(axis=-1, keepdims=True)
    return read * jnp.ones(self.network.num_infostates)


def analyse(
  name: str,
  run: Callable[..., Any],
  arguments: tuple[Any, ...],
  batch: int,
  options: Options,
  more_flops: int = 0,
) -> dict[str, Any]:
  """Analyses a solver's loop.

  Args:
    name: of the program.
    run: solves for a number of iterations, given first, as a traced integer; has no loop if that
      is 0.
    arguments: what else `run` takes. What it closes over would be folded into constants.
    batch: how many subgames it solves.
    options: see `Options`.
    more_flops: operations of one update that the program only stands for.

  Returns:
    The figures of one update of one player, all subgames together.
  """
  compiled = jax.jit(run).lower(jnp.int32(64), *arguments).compile()
  # XLA counts a loop of unknown length once. The same program without it is the rest.
  whole = compiled.cost_analysis() or {}
  without = jax.jit(functools.partial(run, 0)).lower(*arguments).compile()
  rest = without.cost_analysis() or {}
  flops = (whole.get("flops", 0.0) - rest.get("flops", 0.0)) / 2 + more_flops
  moved = (whole.get("bytes accessed", 0.0) - rest.get("bytes accessed", 0.0)) / 2
  kinds = loop_kernels(compiled.as_text() or "")
  kernels = sum(kinds.values()) / 2
  return {
    "benchmark": "program",
    **timing.environment(),
    "program": name,
    "batch": batch,
    "kernels_per_update": kernels,
    "kernel_kinds_per_pair": dict(kinds.most_common()),
    "flops_per_update": round(flops),
    "bytes_per_update": round(moved),
    "intensity": timing.significant(flops / moved, 3),
    "h100_microseconds_by_tf32_flops": timing.significant(1e6 * flops / H100_TF32_FLOPS, 3),
    "h100_microseconds_by_float32_flops": timing.significant(1e6 * flops / H100_FLOAT32_FLOPS, 3),
    "h100_microseconds_by_bytes": timing.significant(1e6 * moved / H100_BYTES_PER_SECOND, 3),
    "h100_microseconds_by_launches": timing.significant(kernels * options.launch_microseconds, 3),
  }


def analyse_search(preset: str, options: Options) -> dict[str, Any]:
  """Analyses the batched depth-limited search of a preset, every lane at a random subgame.

  Of the first table, where a preset has several.
  """
  config = dataclasses.replace(get_preset(preset), num_devices=1)
  asked: dict[str, Any] = {"lanes": options.lanes, "precision": options.precision}
  config = dataclasses.replace(config, **{k: v for k, v in asked.items() if v is not None})
  setup = make_setup(config)
  settings, table = setup.trainer.self_play, setup.table.tables[0]
  num_rows = settings.layers[0].num_rows
  lanes = settings.num_lanes
  roots = np.random.default_rng(0).integers(0, table.num_subgames, lanes)
  beliefs = jnp.asarray(np.asarray(table.trees.prior)[roots])
  params = setup.trainer.init(setup.table, 0, setup.mesh).params
  network = setup.trainer.learner.network
  leaf_values = (_ReadsAndWrites if options.fused else NetworkLeafValues)(network)

  def run(iterations, table, roots, beliefs, params):
    return search_batch(
      table,
      roots,
      beliefs,
      jnp.zeros(lanes, jnp.int32),
      iterations,
      algorithm=settings.algorithm,
      leaf_values=leaf_values,
      params=params,
      num_rows=num_rows,
    )

  arguments = (table, roots, beliefs, params)
  more_flops = num_rows * flops_per_row(network) * options.fused
  row = analyse(f"search {preset}", run, arguments, lanes, options, more_flops)
  slowest = max(row[f"h100_microseconds_by_{cost}"] for cost in ("tf32_flops", "bytes", "launches"))
  seconds = 1e-6 * slowest * settings.num_iterations
  return row | {
    "fused": options.fused,
    "network_rows": num_rows,
    "iterations": settings.num_iterations,
    "h100_examples_per_second_at_most": timing.significant(2 * lanes / seconds, 3),
  }


def analyse_game(name: str, options: Options) -> dict[str, Any]:
  """Analyses Linear CFR on a whole game, from many beliefs at once."""
  tree = games.build_public_tree(timing.look_up("games", name, timing.GAMES).make())
  algorithm = solvers.linear_cfr()
  beliefs = jnp.asarray(timing.random_beliefs(tree, options.batch))

  def solve(iterations, tree, beliefs):
    setting = traversal.prepare(tree, beliefs)
    state = algorithm.init(tree, setting, uniform_policy(tree, setting))

    def both(_, state):
      for player in (0, 1):
        state = algorithm.update(tree, setting, state, None, player)
      return state

    state = lax.fori_loop(0, iterations // 2, both, state)
    return algorithm.average_policy(tree, setting, state), algorithm.root_values(setting, state)

  def run(iterations, tree, beliefs):
    return jax.vmap(functools.partial(solve, iterations, tree))(beliefs)

  return analyse(f"whole game {name}", run, (tree, beliefs), options.batch, options)


def main(options: Options) -> None:
  """Analyses every program."""
  for preset in options.presets:
    print(json.dumps(analyse_search(preset, options)), flush=True)
  for name in options.games:
    print(json.dumps(analyse_game(name, options)), flush=True)


if __name__ == "__main__":
  main(tyro.cli(Options))
