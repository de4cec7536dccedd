"""Helpers of the solver benchmarks: games by short name, versions, synchronised timing."""

import dataclasses
import json
import math
import statistics
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

import jax
import numpy as np

import games
import solvers
from games import Game, PublicTree
from solvers.algorithms.algorithm import Algorithm


@dataclasses.dataclass(frozen=True)
class NamedGame:
  """A game under a short name.

  Attributes:
    name, parameters: as for `games.make`.
    open_spiel: the same game's name in OpenSpiel.
  """

  name: str
  parameters: dict[str, int]
  open_spiel: str

  def make(self) -> Game:
    return games.make(self.name, **self.parameters)


def _dice(dice: int, faces: int) -> NamedGame:
  return NamedGame(
    "liars_dice",
    {"num_dice": dice, "num_faces": faces},
    f"liars_dice(numdice={dice},dice_sides={faces})",
  )


GAMES = {
  "kuhn": NamedGame("kuhn_poker", {}, "kuhn_poker"),
  "leduc": NamedGame("leduc_poker", {}, "leduc_poker"),
  **{f"liars_dice_{n}x{f}f": _dice(n, f) for n, f in ((1, 3), (1, 4), (1, 5), (1, 6), (2, 3))},
}


def look_up(field: str, name: str, known: dict[str, Any]) -> Any:
  """Returns `known[name]`; a command ends with a sentence if there is no such entry."""
  if name not in known:
    raise SystemExit(f"{field}={name!r} is unknown; known: {', '.join(known)}")
  return known[name]


def make_game(name: str, field: str = "games") -> Game:
  """Returns the game of a short name; a command ends with a sentence if there is none."""
  return look_up(field, name, GAMES).make()


def make_algorithm(field: str, text: str) -> Algorithm:
  """Returns the algorithm that a field names; a command ends with a sentence if there is none."""
  try:
    return solvers.make_algorithm(text, field)
  except ValueError as error:
    raise SystemExit(str(error)) from None


def environment() -> dict[str, Any]:
  """Returns what a figure depends on: the device, how many there are, and versions."""
  device = jax.devices()[0]
  return {
    "device": f"{device.platform}:{device.device_kind}",
    "devices": jax.device_count(),
    "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "flax")},
  }


def describe(benchmark: str, game: str, tree: PublicTree, options: Any) -> dict[str, Any]:
  """Returns what a line about solving `tree` by `options` says first."""
  return {
    "benchmark": benchmark,
    **environment(),
    "game": game,
    "nodes": tree.num_nodes,
    "infostates": tree.num_infostates,
    "algorithm": options.algorithm,
    "iterations": options.iterations,
  }


def say(row: dict[str, Any]) -> None:
  """Prints one JSON line."""
  print(json.dumps(row), flush=True)


class Timing(NamedTuple):
  """Seconds that calls take.

  Attributes:
    first: seconds of the first call, which compiles.
    median, fastest: seconds of the calls that are timed.
  """

  first: float
  median: float
  fastest: float

  @property
  def compile_seconds(self) -> float:
    """Seconds by which the first call took longer than the others."""
    return max(self.first - self.median, 0.0)


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}


def time_calls(
  function: Callable[[], Any], *, repeats: int, seconds: float = 0.0, clock: str = "wall"
) -> Timing:
  """Times `function`, waiting for its results.

  Args:
    function: what to call; it returns JAX arrays, or a pytree of them, or nothing.
    repeats: how many calls to time, after one that compiles and one that warms up.
    seconds: further calls are timed until this much time has gone by.
    clock: "wall", or "cpu" for the time that all threads of the process spent computing, which
      other programs on the same cores disturb less.

  Returns:
    The times.
  """
  now = CLOCKS[clock]

  def once() -> float:
    start = now()
    jax.block_until_ready(function())
    return now() - start

  first = once()
  once()
  times = [once() for _ in range(repeats)]
  while sum(times) < seconds:
    times.append(once())
  return Timing(first, statistics.median(times), min(times))


def random_beliefs(tree: PublicTree, batch: int, seed: int = 0) -> np.ndarray:
  """Returns random beliefs at the root of `tree`, or of each of `B` stacked trees: `[B, P, H]`.

  Each row is uniform over the distributions on the infostates that the rules make possible.
  """
  stacked = np.ndim(tree.prior) == 3
  shape = (batch, 2, tree.num_infostates)
  weights = np.random.default_rng(seed).exponential(size=shape)
  if tree.possible is not None:
    possible = np.asarray(tree.possible)
    weights = weights * (possible[:, 0] if stacked else possible[0])
  return (weights / weights.sum(axis=-1, keepdims=True)).astype(tree.dtype)


def significant(value: float, digits: int = 4) -> float:
  """Rounds to so many significant digits."""
  if value == 0 or not math.isfinite(value):
    return value
  return round(value, digits - 1 - math.floor(math.log10(abs(value))))
