"""Helpers of the benchmarks: commands, games by short name, versions, synchronised timing."""

import contextlib
import dataclasses
import functools
import inspect
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import Any, NamedTuple, NoReturn, TypeVar

import jax
import numpy as np
import tyro

import games
import solvers
from games import Game, PublicTree
from rebel_jax import flags
from rebel_jax.checkpoints.files import check_picture
from rebel_jax.config.allowed import ConfigError, in_config_errors, unknown

T = TypeVar("T")
GAMES: dict[str, Callable[[], Game]] = {
  "kuhn": functools.partial(games.make, "kuhn_poker"),
  "leduc": functools.partial(games.make, "leduc_poker"),
  **{
    f"liars_dice_{n}x{f}f": functools.partial(games.make, "liars_dice", num_dice=n, num_faces=f)
    for n, f in ((1, 3), (1, 4), (1, 5), (1, 6), (2, 3))
  },
}


def command(main: Callable[..., int | None]) -> NoReturn:
  """Runs `main` on what a command line sets, and ends the process with its exit code."""
  # Numbers below zero, and pictures that cannot be drawn, are refused before the work.

  @functools.wraps(main)
  def checked(*ordered: Any, **named: Any) -> int | None:
    check(flat(inspect.signature(main).bind(*ordered, **named).arguments))
    with in_sentences():
      return main(*ordered, **named)

  sys.exit(flags.command(lambda: tyro.cli(checked, config=(tyro.conf.OmitArgPrefixes,))))


def given(part: str, takes: Iterable[str], **settings: Any) -> dict[str, Any]:
  """Returns the settings that are not None or empty.

  Raises:
    ConfigError: the command's part does not take one of them, or one is 0.
  """
  found = {name: value for name, value in settings.items() if value not in (None, ())}
  for name, value in found.items():
    if name not in takes or value == 0:
      allowed = ", ".join(x for x in takes if x in settings) or "no such setting"
      wrong = "must be at least 1" if name in takes else f"is not for {part}, which takes {allowed}"
      raise ConfigError(f"{name}={value!r} {wrong}")
  return found


def run_part(parts: dict[str, Any], part: str, **settings: Any) -> Any:
  """Runs one of a command's parts with the settings that are `given`, which it must take."""
  takes = inspect.signature(parts[part]).parameters
  return parts[part](**given(part, takes, **settings))


def flat(values: dict[str, Any]) -> dict[str, Any]:
  """Returns values by name, those of groups of options by their own."""
  return {k: v for x, y in values.items() for k, v in getattr(y, "__dict__", {x: y}).items()}


def check(values: dict[str, Any]) -> None:
  """Checks the values of flags by themselves: numbers below zero and impossible pictures."""
  for name, value in values.items():
    numbers = value if isinstance(value, tuple) else (value,)
    if any(isinstance(x, int | float) and not x >= 0 for x in numbers):
      raise ConfigError(f"{name}={value!r} must be at least 0")
    if name in ("figure", "picture", "draw") and value is not None:
      check_picture(value, name)


@contextlib.contextmanager
def in_sentences() -> Iterator[None]:
  """Raises a ConfigError for a file, a package or, in a sentence that names it, a setting."""
  try:
    with in_config_errors(kinds=(OSError, ImportError)):
      yield
  except ValueError as error:
    if not re.match(r"\w+=", str(error)):
      raise
    raise ConfigError(str(error)) from None


def look_up(field: str, name: str, known: dict[str, Any]) -> Any:
  """Returns `known[name]`; a command ends with a sentence if there is no such entry."""
  if name not in known:
    raise unknown(field, name, known)
  return known[name]


def make_game(name: str, field: str = "games") -> Game:
  """Returns the game of a short name; a command ends with a sentence if there is none."""
  return look_up(field, name, GAMES)()


def environment() -> dict[str, Any]:
  """Returns the conditions of a figure: the device, how many there are, and versions."""
  device = jax.devices()[0]
  return {
    "device": f"{device.platform}:{device.device_kind}",
    "devices": jax.device_count(),
    "versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "flax")},
  }


def say(benchmark: str, **figures: Any) -> None:
  """Prints one JSON line."""
  print(json.dumps({"benchmark": benchmark, **environment(), **figures}), flush=True)


def timed(function: Callable[[], T]) -> tuple[T, float, float]:
  """Returns a call's result, its seconds, and those that all threads of the process computed."""
  start, of_cores = time.perf_counter(), time.process_time()
  found = jax.block_until_ready(function())
  return found, time.perf_counter() - start, time.process_time() - of_cores


class Timing(NamedTuple):
  """Seconds that calls take."""

  first: float  # of the first call, which compiles
  median: float
  fastest: float

  @property
  def compile_seconds(self) -> float:
    """Seconds by which the first call took longer than the others."""
    return max(self.first - self.median, 0.0)


def time_calls(
  function: Callable[[], Any], *, repeats: int, seconds: float = 0.0, clock: str = "wall"
) -> Timing:
  """Times `repeats` calls of `function` or more, until `seconds` are over, waiting for results."""
  # `clock` "cpu" is the time that all threads of the process spent computing, which other programs
  # on the same cores disturb less.

  def once() -> float:
    _, *seconds = timed(function)
    return seconds[clock == "cpu"]

  first = once()
  once()
  times = [once() for _ in range(repeats)]
  while not times or sum(times) < seconds:
    times.append(once())
  return Timing(first, statistics.median(times), min(times))


@dataclasses.dataclass(frozen=True)
class Solves:
  """Options of commands that time solves.

  Attributes:
    algorithm: As it is called in solvers.
    iterations: Updates of a solve, both players together.
    repeats: Timed calls; the median counts.
    seconds: Timed calls go on for at least this long.
  """

  algorithm: str = "linear_cfr"
  iterations: int = 256
  repeats: int = 5
  seconds: float = 0.2

  def solver(
    self, tree: PublicTree, *, batch: int = 0, piece: int | None = None, iterations: int = 0
  ) -> Callable[..., solvers.Solution]:
    """Returns the solve of `tree`; with `batch`, at so many random beliefs, `piece` at a time."""
    settings: dict[str, Any] = {
      "algorithm": solvers.make_algorithm(self.algorithm),
      "num_iterations": iterations or self.iterations,
    }
    if not batch:
      return functools.partial(solvers.solve, tree, **settings)
    settings |= {"beliefs": random_beliefs(tree, batch), "batch_size": piece}
    return functools.partial(solvers.solve_batch, tree, **settings)

  def time(self, function: Callable[[], Any], clock: str = "wall") -> Timing:
    """Times calls of `function`."""
    return time_calls(function, repeats=self.repeats, seconds=self.seconds, clock=clock)

  def describe(self, game: str, tree: PublicTree) -> dict[str, Any]:
    """Returns the head of a line about solves of `tree`."""
    return {
      "game": game,
      "nodes": tree.num_nodes,
      "infostates": tree.num_infostates,
      "algorithm": self.algorithm,
      "iterations": self.iterations,
    }


SOLVES = Solves()


def average_policy(
  tree: PublicTree, algorithm: solvers.Algorithm, num_iterations: int, **settings: Any
) -> np.ndarray:
  """Returns the average policy `[N, H]` of a solve."""
  solved = solvers.solve(tree, algorithm=algorithm, num_iterations=num_iterations, **settings)
  return np.asarray(solved.average_policy)


def random_beliefs(tree: PublicTree, batch: int, seed: int = 0) -> np.ndarray:
  """Returns random beliefs at the root of `tree`, or of each of `B` stacked trees: `[B, P, H]`."""
  # Each row is uniform over the distributions on the infostates that the rules make possible.
  stacked = np.ndim(tree.prior) == 3
  shape = (batch, 2, tree.num_infostates)
  weights = np.random.default_rng(seed).exponential(size=shape)
  if tree.possible is not None:
    possible = np.asarray(tree.possible)
    weights = weights * (possible[:, 0] if stacked else possible[0])
  return (weights / weights.sum(axis=-1, keepdims=True)).astype(tree.dtype)


def significant(value: float, digits: int = 4) -> float:
  """Rounds to so many significant digits."""
  return float(f"{value:.{digits}g}")
