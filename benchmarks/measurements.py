"""Rates of the main programs, the most valuable first, each with the floor of one H100.

A floor is arithmetic: launches of 1.5 µs a kernel in a CUDA graph, 2.5 µs outside, 3.0 TB/s.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import games
import solvers
from benchmarks import batch_solve, timing
from benchmarks.poker import FLOP
from games.poker.lines import make_lines
from rebel_jax import Config, get_preset
from rebel_jax.spots.spot import Spot
from rebel_jax.training.loop import place
from rebel_jax.training.setup import make_setup


class Prepared(NamedTuple):
  """A program that is compiled and warm."""

  once: Callable[[], Any]  # runs it and returns arrays to wait for
  figure: Callable[[float], float]  # the rate, of the seconds of a call


class Rate(NamedTuple):
  """A rate to measure."""

  prepare: Callable[[], Prepared]  # compiles and warms up the program
  unit: str  # of the figure
  # the figure that arithmetic leaves on an H100; None where none was counted
  floor: float | None = None
  accelerator: bool = False  # whether only an accelerator measures it


def rates(small: bool = False) -> dict[str, Rate]:
  """Returns the rates by name; `small` ones are of tiny sizes, to see that each program runs."""

  def play(
    preset: str, lanes: int, floor: float | None = None, unit: str = "examples/s", **changes: Any
  ) -> Rate:
    if small:
      lanes = 8
      changes |= {"iterations": 16} if unit == "examples/s" else {"simulations": 4}
    prepare = functools.partial(self_play, preset, lanes, **changes)
    return Rate(prepare, unit, floor, accelerator=lanes > 64)

  def solve(name: str, floor: float | None, batch: int = 0) -> Rate:
    prepare = functools.partial(solve_game, name, min(batch, 4) if small else batch)
    return Rate(prepare, "µs an update", floor)

  def subgames(size: int, floor: float) -> Rate:
    prepare = functools.partial(solve_subgames, 8 if small else size)
    return Rate(prepare, "solved/s", floor, accelerator=size > 1024 and not small)

  def ceiling(program: Callable, size: int, each: float, unit: str, floor: float) -> Rate:
    size = size // 1_024 if small else size
    prepare = functools.partial(run_plain, program, size, lambda s: each * size / s)
    return Rate(prepare, unit, floor)

  paper, large = "liars_dice_1x4f_paper", "liars_dice_2x3f_paper"
  return {
    # The card's own, beside which the others are read: 20 µs a turn say that CUDA graphs are off.
    "copy": ceiling(lambda x: x + 1, 2**28, 8e-12, "TB/s", 3.0),
    "products of 256, default": ceiling(products("default"), 2**22, _CHAIN, "TFLOP/s", 400),
    "products of 256, highest": ceiling(products("highest"), 2**22, _CHAIN, "TFLOP/s", 50),
    "turn of two small kernels": Rate(
      functools.partial(run_plain, small_turns, 64, lambda s: 1e6 * s / _TURNS), "µs", 3.0
    ),
    "generation 1x4f_paper, 64 lanes": play(paper, 64, 6_000),
    "generation 1x4f_paper, 4,096 lanes": play(paper, 4096, 41_000),
    "batch of 16,384 subgames": subgames(16_384, 500_000),
    "training step, default": Rate(
      functools.partial(train_steps, "kuhn_poker" if small else "liars_dice_1x4f"), "ms a step", 2.2
    ),
    "solve leduc": solve("leduc", 28),
    "solve liars_dice_1x4f": solve("liars_dice_1x4f", 19),
    "PoG(100, 1) on Leduc, 512 lanes": play("pog_leduc", 512, 5_000, "searches/s"),
    "turn of two ranges": Rate(turn, "ms an update", 0.043),
    "batch of 65,536 subgames": subgames(65_536, 500_000),
    "batch of 1,024 subgames": subgames(1_024, 157_000),
    "hunl_small, 256 lanes": play("hunl_small", 256),
    "generation 2x3f_paper, 4,096 lanes": play(large, 4096),
    "generation 1x4f_paper, 4,096 lanes, bfloat16": play(
      paper, 4096, precision="bfloat16_activations"
    ),
    "solve liars_dice_1x6f": solve("liars_dice_1x6f", 35),
    "batch of 4,096 liars_dice_1x4f": solve("liars_dice_1x4f", None, 4096),
  }


_TURNS, _PRODUCTS = 1_000, 20
_CHAIN = 2e-12 * 256 * _PRODUCTS  # operations of a number in a chain of products, in 10**12


def products(precision: str) -> Callable[[jax.Array], jax.Array]:
  """Returns a chain of products `[R, 256] x [256, 256]` of numbers `[256 R]`."""

  def chain(numbers: jax.Array) -> jax.Array:
    weights = jax.random.normal(jax.random.key(0), (256, 256)) / 16  # keeps the size of numbers
    product = functools.partial(jnp.matmul, b=weights, precision=precision)
    rows = numbers.reshape(-1, 256)
    # Written out: a turn of a loop costs a GPU some 10 µs of its own.
    return jax.lax.fori_loop(0, _PRODUCTS, lambda _, x: product(x), rows, unroll=True)

  return chain


def small_turns(numbers: jax.Array) -> jax.Array:
  """Returns a few numbers after a loop whose turn is a product and a sort."""
  turn = lambda _, x: jnp.sort(x @ x * 1e-2, axis=0) + x  # noqa: E731
  return jax.lax.fori_loop(0, _TURNS, turn, numbers.reshape(8, 8))


def run_plain(program: Callable, size: int, figure: Callable[[float], float]) -> Prepared:
  """Prepares a program of `size` ones."""
  run, numbers = jax.jit(program), jnp.ones(size)
  jax.block_until_ready(run(numbers))
  return Prepared(lambda: run(numbers), figure)


class Run:
  """A run that takes steps one call at a time; `state` and `report` are of the last ones."""

  def __init__(self, config: Config, num_devices: int | None = None, **changes: Any):
    """Places lanes on the devices, all or so many; `changes` are of the trainer."""
    self.setup = make_setup(config, num_devices)
    self.trainer = dataclasses.replace(self.setup.trainer, **changes)
    self.state = self.trainer.init(self.setup.table, config.seed, self.setup.mesh)
    self.report: Any = None
    self._table = place(self.setup.table, self.setup.mesh)

  def take(self, steps: int) -> int:
    """Takes steps; returns how many subgames they solved beside those that were played."""
    before, mesh = int(self.state.solves), self.setup.mesh
    self.state, self.report = self.trainer.run(self._table, self.state, steps, mesh)
    jax.block_until_ready(self.state)
    return int(self.state.solves) - before


def play_only(config: Config, num_devices: int | None = None) -> Run:
  """Returns a run that learns nothing, with a buffer that holds what steps make."""
  room = max(config.learning.buffer_size, 16 * config.self_play.lanes)
  return Run(config.replace(buffer_size=room), num_devices, min_solves=2**30)


def self_play(preset: str, lanes: int, **changes: Any) -> Prepared:
  """Prepares a step of self-play on one device."""
  config = get_preset(preset).replace(lanes=lanes, **changes)
  play = play_only(config, num_devices=1)
  solves = [play.take(1) for _ in range(4)]  # games begin together; then they spread

  def once() -> None:
    solves.append(play.take(1))

  def figure(seconds: float) -> float:
    return (solves[-1] + lanes if config.grows else 2 * solves[-1]) / seconds

  return Prepared(once, figure)


def train_steps(preset: str, steps: int = 20) -> Prepared:
  """Prepares whole steps of training, self-play and learning."""
  run = Run(get_preset(preset), num_devices=1)
  for _ in range(2):
    run.take(steps)
  return Prepared(lambda: run.take(steps), lambda seconds: 1_000 * seconds / steps)


def solve_game(name: str, batch: int = 0, number: int = 512) -> Prepared:
  """Prepares a solve of a whole game, alone or of a batch of beliefs."""
  tree = games.build_public_tree(timing.make_game(name))
  once = timing.Solves(iterations=number).solver(tree, batch=batch)
  jax.block_until_ready(once())
  return Prepared(once, lambda seconds: 1e6 * seconds / number / max(batch, 1))


def solve_subgames(size: int) -> Prepared:
  """Prepares a batch of subgames of Liar's Dice 1x4f, 256 updates of each."""
  trees, _ = batch_solve.make_subgames(timing.make_game("liars_dice_1x4f"), 2, size)
  beliefs = timing.random_beliefs(trees, size)
  trees, beliefs = jax.device_put((jax.tree.map(jnp.asarray, trees), jnp.asarray(beliefs)))
  settings: dict[str, Any] = {"algorithm": solvers.linear_cfr(), "num_iterations": 256}
  run = jax.jit(lambda trees, beliefs: solvers.solve_batch(trees, beliefs=beliefs, **settings))
  jax.block_until_ready(run(trees, beliefs))
  return Prepared(lambda: run(trees, beliefs), lambda seconds: size / seconds)


def turn(number: int = 96) -> Prepared:
  """Prepares a turn of two ranges, the looks at its exploitability included."""
  spot = Spot(board=FLOP.board + "2c", oop=FLOP.oop, ip=FLOP.ip, pot=200, stack=900, bets="66% / -")
  lines, _ = make_lines(spot.game())
  once = functools.partial(
    solvers.solve,
    lines,
    algorithm=solvers.discounted_cfr(),
    target=0,
    num_iterations=number,
  )
  once()
  return Prepared(lambda: once().exploitability, lambda seconds: 1_000 * seconds / number)
