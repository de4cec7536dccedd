"""What the order of a public tree's nodes costs: slices against gathers and scatters.

`python -m benchmarks.layout` prints one JSON line for each game and layout. A sweep is one
player's reach down the tree and its values up again, with nothing else: no regrets, no payoff
products. The layouts:

  slices: action-major levels, as `games.build_public_tree` makes them; children are slices.
  gather: parent-major levels (siblings next to each other); rows by index, both ways.
  scatter: parent-major levels; down by index, up by adding into the parents' rows.

All three compute the same numbers, which is checked before anything is timed.
"""

import argparse
import json
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import games
from games import PublicTree
from solvers import levels
from solvers.levels import Levels

GAMES = ((1, 4), (1, 6), (2, 3))  # dice, faces
_REPEATS = 7


class Slices:
  """Sweeps over action-major levels by slices."""

  def __init__(self, tree: PublicTree):
    self.levels = tree.structure.levels
    self.order = [np.arange(level.size) for level in self.levels]

  def to_children(self, i: int, parents: jax.Array) -> jax.Array:
    return levels.to_children(self.levels[i], parents)

  def to_parents(self, i: int, children: jax.Array, payoffs: jax.Array) -> jax.Array:
    inner = self.levels[i - 1].num_inner
    sums = levels.reduce_children(self.levels[i], children, inner)
    return jnp.concatenate([sums, payoffs[inner:]], axis=0)


class Gather:
  """Sweeps over parent-major levels by index."""

  def __init__(self, tree: PublicTree):
    # order[i][k]: which node of the tree's own level i stands at place k here.
    self.order = [np.zeros(1, int)]
    self.parents = [np.zeros(0, int)]
    for level in tree.structure.levels[1:]:
      place_above = np.argsort(self.order[-1])
      parents = place_above[level.parents]
      self.order.append(np.argsort(parents, kind="stable"))
      self.parents.append(parents[self.order[-1]])
    self.sizes = [level.size for level in tree.structure.levels]
    self.children = [self._child_table(i) for i in range(1, len(self.sizes))]

  def _child_table(self, i: int) -> np.ndarray:
    """Returns each parent's children, filled up with the level's size: `[n above, A]`."""
    counts = np.bincount(self.parents[i], minlength=self.sizes[i - 1])
    first = np.cumsum(counts) - counts
    slot = np.arange(counts.max())
    return np.where(slot < counts[:, None], first[:, None] + slot, self.sizes[i])

  def to_children(self, i: int, parents: jax.Array) -> jax.Array:
    return parents[self.parents[i]]

  def to_parents(self, i: int, children: jax.Array, payoffs: jax.Array) -> jax.Array:
    padded = jnp.concatenate([children, jnp.zeros_like(children[:1])])
    return padded[self.children[i - 1]].sum(axis=1) + payoffs


class Scatter(Gather):
  """Sweeps over parent-major levels, values up by a sorted scatter-add."""

  def to_parents(self, i: int, children: jax.Array, payoffs: jax.Array) -> jax.Array:
    size = self.sizes[i - 1]
    sums = jax.ops.segment_sum(children, self.parents[i], size, indices_are_sorted=True)
    return sums + payoffs


LAYOUTS: dict[str, type[Slices] | type[Gather]] = {
  "slices": Slices,
  "gather": Gather,
  "scatter": Scatter,
}


def sweep(layout: Slices | Gather, policy: Levels, payoffs: Levels) -> tuple[Levels, Levels]:
  """Returns reach and values, each `[n, H]` a level."""
  reach = [jnp.ones_like(policy[0])]
  for i in range(1, len(policy)):
    reach.append(layout.to_children(i, reach[-1]) * policy[i])
  values = [payoffs[-1]]
  for i in reversed(range(1, len(policy))):
    values.append(layout.to_parents(i, policy[i] * values[-1], payoffs[i - 1]))
  return tuple(reach), tuple(reversed(values))


def inputs(tree: PublicTree, seed: int = 0) -> tuple[list[np.ndarray], list[np.ndarray]]:
  """Returns a policy and terminal payoffs (zero elsewhere), each `[n, H]` a level."""
  rng = np.random.default_rng(seed)
  policy, payoffs = [], []
  for level in tree.structure.levels:
    shape = (level.size, tree.num_infostates)
    ends = np.arange(level.size)[:, None] >= level.num_inner
    policy.append(rng.uniform(0.2, 1.0, shape).astype(np.float32))
    payoffs.append((rng.normal(size=shape) * ends).astype(np.float32))
  return policy, payoffs


def make_loop(layout: Slices | Gather, payoffs: Levels) -> Callable[[Levels, int], Levels]:
  """Returns a compiled function of (policy, how many sweeps), each sweep needing the last."""

  def step(_, policy: Levels) -> Levels:
    reach, values = sweep(layout, policy, payoffs)
    return tuple(p + 1e-30 * r * v for p, r, v in zip(policy, reach, values))

  return jax.jit(lambda policy, count: lax.fori_loop(0, count, step, policy))


def measure(num_dice: int, num_faces: int, seconds: float) -> list[dict]:
  """Times all layouts on one game, taking turns, and returns a record of each."""
  tree = games.build_public_tree(games.make("liars_dice", num_dice=num_dice, num_faces=num_faces))
  policy, payoffs = inputs(tree)
  loops, arguments, expected = {}, {}, None
  for name, make_layout in LAYOUTS.items():
    layout = make_layout(tree)
    ordered = [tuple(jnp.asarray(x[o]) for x, o in zip(y, layout.order)) for y in (policy, payoffs)]
    root = np.asarray(jax.jit(sweep, static_argnums=0)(layout, *ordered)[1][0])
    expected = root if expected is None else expected
    np.testing.assert_allclose(root, expected, rtol=1e-4)
    arguments[name], loops[name] = ordered[0], make_loop(layout, ordered[1])

  def run(name: str, count: int) -> float:
    start = time.perf_counter()
    jax.block_until_ready(loops[name](arguments[name], count))
    return time.perf_counter() - start

  counts = {}
  for name in LAYOUTS:
    run(name, 1)  # compiles
    counts[name] = max(1, int(seconds / max(run(name, 16) / 16, 1e-6)))
  times: dict[str, list[float]] = {name: [] for name in LAYOUTS}
  for _ in range(_REPEATS):
    for name in LAYOUTS:
      times[name].append(run(name, counts[name]) / counts[name])
  return [
    {
      "benchmark": "layout",
      "device": jax.devices()[0].device_kind,
      "game": f"liars_dice {num_dice}x{num_faces}f",
      "nodes": tree.num_nodes,
      "infostates": tree.num_infostates,
      "layout": name,
      "microseconds_per_sweep": round(1e6 * float(np.median(times[name])), 2),
    }
    for name in LAYOUTS
  ]


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument("--seconds", type=float, default=0.3, help="of timing per measurement")
  seconds = parser.parse_args().seconds
  for num_dice, num_faces in GAMES:
    for record in measure(num_dice, num_faces, seconds):
      print(json.dumps(record), flush=True)


if __name__ == "__main__":
  main()
