"""Sizes of the pieces that programs cut their work into, by kind of device."""
# A CPU's cores want few rows at a time, which stay in a cache, and no row that nobody needs; a
# turn of a loop costs them nothing. An accelerator waits for the host wherever a loop's number of
# turns depends on numbers, and wants all rows at once. On both a program computes the same to
# rounding. `platform` alone says which kind it is: whoever compiles for another replaces it.

import dataclasses
from typing import Any

import jax


@dataclasses.dataclass(frozen=True)
class Pieces:
  """Sizes of the pieces of work of one kind of device."""

  table_bytes: int  # of one table of all subgames that are solved side by side
  spots: int | None  # lines of betting that are solved side by side at most; None for any
  leaves: tuple[int, int] | None  # rows of a network at a time: of few and of many infostates
  questions: tuple[int, int] | None  # least rows of a network at a time, and the number of pieces
  searches: tuple[int, int] | None  # growing searches at a time, likewise
  cells: int  # lines by hands of one player that are taken at once in the last round of a spot
  apart: bool  # whether each such piece is a program of its own, by a branch that is always taken
  dense: int  # entries of matrices of showdowns, at most; beyond it hands are sorted
  dense_of_few: int  # likewise where hands are few and no row has a matrix of its own
  of_all_lanes: bool  # whether these count the matrices of all trees that are solved side by side
  nodes: int | None  # of a board at once where hands are sorted; None for all, of all boards
  call: tuple[int, int]  # leaves and subgames that an agent searches in one call, at most
  hands: int  # of hold'em that are played out at once to measure an agent
  chains: int  # searches in one call where an agent searches at every decision of a game
  states: int  # searches in one call of games of perfect information


# Measured on CPUs. `table_bytes`: a solver reads and writes some eight tables `[N, H]` at each
# update, which should stay in the cache nearest to the core (`benchmarks.tabular --pieces`).
# `spots`: with 16 side by side an update of each takes a fifth longer. `leaves`: weights for the
# beliefs of many infostates fit no cache, so that each reading of them has to serve more rows.
# `questions`, `searches`: shares of all that may be asked, so that a piece is neither mostly empty
# nor too small for matrix products. `cells`: a core's cache holds what one board of two hundred
# hands needs; several of those at once took a third longer. `dense_of_few`: sorting so few takes
# longer than their products. `nodes`: whole registers, within a core's cache; 0.5 ms a node at 16,
# 0.7 at 8, 1.1 at 48, two or three times as long at 18 or 37 (48 boards of 1,128 hands).
ON_CPU = Pieces(
  table_bytes=16 * 1024,
  spots=4,
  leaves=(64, 128),
  questions=(64, 24),
  searches=(8, 4),
  cells=2**13,
  apart=True,
  dense=2**20,
  dense_of_few=2**22,
  of_all_lanes=False,
  nodes=16,
  call=(512, 256),
  hands=64,
  chains=32,
  states=256,
)

# Arithmetic: what fills an accelerator and takes no more than about a gigabyte of its memory.
ON_ACCELERATOR = Pieces(
  table_bytes=64 * 1024 * 1024,
  spots=None,
  leaves=None,
  questions=None,
  searches=None,
  cells=2**24,
  apart=False,
  dense=2**27,
  dense_of_few=2**27,
  of_all_lanes=True,
  nodes=None,
  call=(16_384, 4_096),
  hands=512,
  chains=1_024,
  states=4_096,
)


def platform() -> str:
  """Returns the platform that programs are compiled for, `cpu` or another."""
  device = chosen_device()
  return jax.default_backend() if device is None else getattr(device, "platform", device)


def chosen_device() -> Any:
  """Returns this thread's `jax.default_device`; None for JAX's own."""
  config: Any = jax.config
  return config.jax_default_device


def on_cpu() -> bool:
  """Says whether programs are compiled for a CPU."""
  return platform() == "cpu"


def pieces() -> Pieces:
  """Returns the sizes for the device that programs are compiled for."""
  return ON_CPU if on_cpu() else ON_ACCELERATOR
