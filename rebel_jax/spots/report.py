"""One spot on many boards: what it is worth and what is done there, by texture of the board."""

import dataclasses
import functools
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import solvers
from games.arrays import checked, short
from games.poker import Deck
from games.poker.lines import round_up, shape_of, share_shapes
from games.poker.lines.rounding import Shape
from rebel_jax.config import ConfigError, in_config_errors
from rebel_jax.spots.solved import ALGORITHM, SolvedSpot, prepare, solve
from rebel_jax.spots.spot import PLAYERS, Spot
from rebel_jax.spots.study import hand_table
from solvers import tuning
from solvers.xla import num_cores, run_ahead


@dataclasses.dataclass(frozen=True)
class BoardRow:
  """The results of one board."""

  board: str
  textures: tuple[str, ...]  # such as `two-tone` and `paired`; one of each kind
  ev: np.ndarray  # `[P]` chips that each player gets, the pot included
  equity: np.ndarray  # `[P]` each player's share of the pot if all cards came and nobody bet
  frequency: dict[str, float]  # of each move at the start, over pairs of hands as EV is
  percent: float  # exploitability in percent of the pot
  iterations: int


@checked
def textures(board: str, deck: Deck) -> tuple[str, str, str]:
  """Returns a board's suits, its pairs and its highest card, in words."""
  # `rainbow`: all suits differ; `two-tone`, `monotone`: two, or three or more, are alike.
  rank, suit = np.divmod(np.array(deck.parse(board, field="board")), len(deck.suits))
  alike = int(np.bincount(suit).max())
  same = int(np.bincount(rank).max())
  suits = {1: "rainbow", 2: "two-tone"}.get(alike, "monotone")
  pairs = {1: "unpaired", 2: "paired"}.get(same, "trips")
  return suits, pairs, f"{deck.ranks[rank.max()]} high"


@checked
def solve_boards(
  spot: Spot,
  boards: Sequence[str],
  *,
  target: float = 0.5,
  max_iterations: int = 10_000,
  half_tables: bool = False,
  progress: Callable[[int, str, float], bool | None] = lambda number, board, percent: None,
) -> Iterator[BoardRow]:
  """Yields the results of a spot on each of `boards`, which have as many cards each, in turn."""
  # Boards are rounded up to few shapes (`share_shapes`), each of which is compiled once. Rivers of
  # a shape are solved together, turns one on each core, and flops one after another, each on all
  # devices. `progress` gets the number of boards done, a board, of rivers the worst, and its
  # exploitability so far in percent of the pot; True ends the solve of a flop.
  if spot.lock is not None:
    raise ConfigError(f"lock={spot.lock!r} is for one board, not for several")
  spots = [dataclasses.replace(spot, board=board) for board in boards]
  rounds = len(spots[0].game().deals) if spots else 0
  how: Any = {"target": target, "max_iterations": max_iterations, "half_tables": half_tables}
  if rounds > 1:
    for number, there in enumerate(spots):
      look = lambda _, gap, number=number, board=there.board: progress(number, board, gap)  # noqa: E731
      yield _row(solve(there, progress=look, **how))
    return
  made = [prepare(there) for there in spots]
  shapes = share_shapes([shape_of(own.lines) for own in made])
  if not rounds:
    yield from _solve_rivers(made, shapes, target, max_iterations, progress)
    return

  def find(item: tuple[SolvedSpot, Shape]) -> BoardRow:
    own, shape = item
    alone = [tuning.chosen_device() or jax.local_devices()[0]]
    return _row(solve(own, shape=shape, devices=alone, **how))

  found = run_ahead(find, zip(made, shapes), kind=lambda item: item[1][:-1])
  for number, (_, row) in enumerate(found, start=1):
    progress(number, row.board, row.percent)
    yield row


def _solve_rivers(
  made: Sequence[SolvedSpot],
  shapes: Sequence[Shape],
  target: float,
  max_iterations: int,
  tell: Callable[[int, str, float], object],
) -> Iterator[BoardRow]:
  rows: dict[int, BoardRow] = {}
  given = 0  # rows are given in order, as soon as they are there
  unit = made[0].spot.unit
  # Of a call that takes all cores; nothing ends it on the way.
  spots = tuning.pieces().spots
  together = 64 if spots is None else num_cores() * spots
  alike: dict[Shape, list[int]] = {}
  for i, shape in enumerate(shapes):
    alike.setdefault(shape, []).append(i)
  for shape, places in alike.items():
    # Equal parts: each number of spots is a program of its own.
    size = -(-len(places) // -(-len(places) // together))
    for start in range(0, len(places), size):
      part = places[start : start + size]
      rounded = [round_up(made[i].lines, shape=shape) for i in part]
      filled = [*rounded, *rounded[-1:] * (size - len(part))]
      found = solvers.solve_batch(
        [lines for lines, _ in filled],
        algorithm=ALGORITHM,
        num_iterations=max_iterations,
        target=target / 100 * made[0].spot.pot * unit,
      )
      found = jax.tree.map(np.asarray, found)
      for k, i in enumerate(part):
        policy = [level[k] for level in found.average_policy]
        number, gap = int(found.iterations[k]), float(found.exploitability[k]) / unit
        rows[i] = _row(made[i].with_policy(policy, number, gap, places=rounded[k][1]))
      worst = max((rows[i] for i in part), key=lambda row: row.percent)
      tell(len(rows), worst.board, worst.percent)
      while given in rows:
        yield rows[given]
        given += 1


def _row(solved: SolvedSpot) -> BoardRow:
  table = hand_table(solved)
  played = [float(table.mean(x)[solved.mover(())]) for x in table.frequency]
  board = solved.spot.board
  return BoardRow(
    board,
    textures(board, solved.game.deck),
    table.mean(table.ev),
    table.mean(table.equity),
    dict(zip(solved.children(()), played)),
    solved.percent,
    solved.iterations,
  )


@checked
def read_boards(text: str) -> tuple[list[str], list[float]]:
  """Returns boards and weights of a list, or a file of one a line: `Td9d6h,AsKd2c:0.5`."""
  with in_config_errors(f"boards={short(text)} cannot be read", (OSError, UnicodeDecodeError)):
    is_file = os.path.isfile(text)  # unlike Path's, it takes lists of any length
    listed = Path(text).read_text().split() if is_file else text.split(",")
  parts = [board.strip().partition(":") for board in listed if board.strip()]
  boards = [board for board, _, _ in parts]
  if not boards or len({len(board) for board in boards}) > 1:
    raise ConfigError(
      f"boards={short(text)} must be boards of as many cards each, separated by commas, or a file "
      "of one a line"
    )
  with in_config_errors(f"boards={short(text)} hold a weight that is no positive number"):
    weights = [float(weight) if colon else 1.0 for _, colon, weight in parts]
    if not all(0 < weight < math.inf for weight in weights):
      raise ValueError("weights are above 0, as in Td9d6h:0.5")
  return boards, weights


@checked
def summary(
  rows: Sequence[BoardRow],
  pot: float,
  weights: Sequence[float] | None = None,
  form: str = ".1f",
) -> str:
  """Returns a table: every board, then means by texture and of all, by `weights` of the boards."""
  counted = {id(row): weight for row, weight in zip(rows, weights or [1.0] * len(rows))}
  moves = [*dict.fromkeys(move for row in rows for move in row.frequency)]
  heads = [f"{name} {what}" for name in PLAYERS for what in ("EV", "% of pot", "equity")]
  lines = [_line("board", "boards", heads + moves)]

  def add(name: str, part: Sequence[BoardRow]) -> None:
    mean = functools.partial(np.average, axis=0, weights=[counted[id(x)] for x in part])
    ev, equity = (mean([getattr(x, key) for x in part]) for key in ("ev", "equity"))
    both = [(f"{x:{form}}", f"{100 * x / pot:.1f}", f"{y:.1%}") for x, y in zip(ev, equity)]
    played = [f"{mean([x.frequency.get(move, 0.0) for x in part]):.1%}" for move in moves]
    lines.append(_line(name, str(len(part)), [*both[0], *both[1], *played]))

  for row in rows:
    add(row.board, [row])
  for kind in range(len(rows[0].textures)):
    for texture in dict.fromkeys(row.textures[kind] for row in rows):
      add(texture, [row for row in rows if row.textures[kind] == texture])
  add("all", rows)
  return "\n".join(lines)


def _line(name: str, number: str, cells: Sequence[str]) -> str:
  return "".join([f"{name:<12}{number:>7}", *(f"{cell:>13}" for cell in cells)])
