"""A spot and its solution: its decisions, its file, and solving it, or on."""

import dataclasses
import functools
import itertools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import psutil

import solvers
from games import CHANCE
from games.arrays import checked, short
from games.poker import Holdem, betting
from games.poker.cards import shares_card
from games.poker.holdem import CALL, FIRST_BET, FOLD
from games.poker.lines import Follower, LineMap, Lines, make_lines, round_up
from games.poker.lines.boards import NONE
from games.poker.lines.lines import DECISION
from games.poker.lines.rounding import Shape
from rebel_jax.checkpoints import files
from rebel_jax.config import ConfigError, in_config_errors
from rebel_jax.spots.spot import Spot, check_fits, shown
from rebel_jax.spots.values import Values
from solvers.half import Half, from_half, is_half, to_half
from solvers.resolving import frequency_bounds
from solvers.sweeps.problem import Lock

ALGORITHM = solvers.discounted_cfr()
_FORMATS = 2, 3  # without sums, and with them
_SUMS = "regret", "average"
_KIND = "a solved spot", "spot"  # in words, and what its file says something of
Node = tuple[int, ...]  # public actions since the start


@dataclasses.dataclass(frozen=True)
class SolvedSpot:
  """A spot, and once it is solved its policy.

  A node is the public actions that lead to it, those of chance among them: `()` is the start.

  Attributes:
    spot: what was solved.
    game: its rules, with the hands of both ranges as infostates.
    lines, columns: its lines of betting, and what they stand for (`games.poker.lines`).
    policy: `[n, W]` for each level of lines, as `solvers.solve` returns it.
    iterations: how many there were; one player's update is one.
    exploitability: in chips.
    sealed: whether a checksum binds the numbers to each other; files of earlier versions have none.
    sums: in 16 bits, of `regret` and of policies, `average`, with which `solve` goes on: of level 1
      `regret_1`. Empty in files of earlier versions.
  """

  spot: Spot
  game: Holdem
  lines: Lines
  columns: LineMap
  policy: tuple[np.ndarray, ...] = ()
  iterations: int = 0
  exploitability: float = math.inf
  sealed: bool = True
  sums: Mapping[str, Half] = dataclasses.field(default_factory=dict)

  @checked
  def with_policy(
    self,
    policy: Sequence[Any],
    iterations: int,
    exploitability: float,
    *,
    places: Sequence[np.ndarray] | None = None,
  ) -> "SolvedSpot":
    """Returns the spot with a policy; where its lines are rounded up, columns stand at `places`."""
    if places is not None:
      policy = [np.asarray(x)[:, at] for x, at in zip(policy, places)]
    return dataclasses.replace(
      self, policy=tuple(policy), iterations=iterations, exploitability=exploitability
    )

  def start(self, rounded: Lines, places: Sequence[np.ndarray]) -> solvers.Solution:
    """Returns the start of a solve, on lines that are rounded up."""
    if not self.sums:
      raise ConfigError("load is of an earlier version's file, whose solve cannot go on")

    def spread(name: str, level: Any, at: np.ndarray) -> np.ndarray:
      rows = np.zeros((level.size, rounded.streets[level.street].width(level.mover)), rounded.dtype)
      rows[:, at] = from_half(self.sums[name])
      return rows

    levels = [*zip(itertools.count(), self.lines.levels, places)]
    sums = tuple(
      tuple(None if x.mover is None else spread(f"{kind}_{i}", x, at) for i, x, at in levels)
      for kind in _SUMS
    )
    return solvers.Solution(None, iterations=self.iterations, sums=sums)

  @functools.cached_property
  def follower(self) -> Follower:
    """The places of nodes among the lines."""
    return Follower(self.lines, self.columns)

  @functools.cached_property
  def values(self) -> Values:
    """Reach and values at all nodes."""
    return Values(self.lines, self.columns, self.policy)

  @property
  def percent(self) -> float:
    """The exploitability in percent of the pot."""
    return 100 * max(self.exploitability, 0.0) / self.spot.pot

  @functools.cached_property
  def showdowns(self) -> Callable[[frozenset[int]], tuple[np.ndarray, np.ndarray]]:
    """Function from the cards dealt to two tables `[H, H]` of pairs of hands, which it caches.

    They count the boards to come that the first hand wins, a tie as half, and that both can meet.
    """
    return functools.lru_cache(4)(self._show)

  def _show(self, dealt: frozenset[int]) -> tuple[np.ndarray, np.ndarray]:
    game = self.game
    boards = [k for k, cards in enumerate(game.dealing.final) if dealt <= {*cards.tolist()}]
    strengths, above = game.strengths()[boards], np.zeros((game.num_infostates,) * 2, np.int32)
    for row in strengths:
      above += row[:, None] > row  # those that the board blocks are below all
    live = (strengths >= 0).astype(float)
    both = live.T @ live  # as many boards block one as block the other
    won = (both + above - above.T) / 2
    apart = ~shares_card(game.hole_cards, game.hole_cards)
    return won * apart, both * apart

  @functools.cached_property
  def _nodes(self) -> Callable[[Node], tuple[np.ndarray, dict[str, Node]]]:
    # Every line from the start goes through the nodes before it.
    return functools.lru_cache(4_096)(self._look)

  def _look(self, node: Node) -> tuple[np.ndarray, dict[str, Node]]:
    if node and node in self.children(node[:-1]).values():
      state = self.game.next_states(self.state(node[:-1])[None], np.array(node[-1:]))[0]
    else:
      state = self.game.state_after(node, field="node")  # the start, or an error
    if self.game.actor(state[None])[0] > CHANCE:
      return state, {}
    amounts = self.game.amounts(state[None])[0]
    named: dict[str, tuple[int, int]] = {}
    for action in np.flatnonzero(self.game.legal_actions(state[None])[0]).tolist():
      bet = FIRST_BET <= action < self.game.burn
      to = int(amounts[action - FIRST_BET]) if bet else -1
      named[self._name(state, action, to)] = (to, action)
    ordered = sorted(named.items(), key=lambda item: item[1])
    return state, {name: (*node, action) for name, (_, action) in ordered}

  @checked
  def state(self, node: Node) -> np.ndarray:
    """Returns the public state at a node."""
    return self._nodes(node)[0]

  @checked
  def mover(self, node: Node) -> int:
    """Returns the mover at a node: a player, chance or none (`games.TERMINAL`)."""
    return int(self.game.actor(self.state(node)[None])[0])

  @checked
  def children(self, node: Node) -> dict[str, Node]:
    """Returns the nodes below one, by the names of the moves or cards that lead there.

    Moves are `fold`, `check`, `call`, `bet 66` and `raise 165`; chips are those that the player has
    put in since the round began. Bets come by size, after the others.
    """
    return self._nodes(node)[1]

  def _name(self, state: np.ndarray, action: int, to: int) -> str:
    facing = bool(self.game.rules.may_fold(state[None])[0])
    if action == FOLD:
      return "fold"
    if action == CALL:
      return "call" if facing else "check"
    if to < 0:
      return self.game.action_name(action).removeprefix("deal ")
    return f"{'raise' if facing else 'bet'} {shown(to - int(state[betting.START]), self.spot.unit)}"

  @checked
  def find(self, line: str, start: Node = ()) -> Node:
    """Returns the node after a line of play, `bet 66, call, 2c, check`, or raises a ConfigError.

    Args:
      line: moves and cards, separated by commas; empty for none. `all-in` bets all chips, `*` is
        any card.
      start: the node that they go on from.
    """
    node = self._past_burn(start)
    for word in filter(None, (part.strip() for part in line.split(","))):
      node = self._past_burn(self._child(node, word, line))
    return node

  def _child(self, node: Node, word: str, line: str) -> Node:
    """Returns the node after a move or a card of a line, as it is typed."""
    below = self.children(node)
    wanted = re.sub(r"\s+", " ", word.lower().replace(" to ", " "))
    wanted = re.sub(r"\d*\.\d+$", lambda x: f"{float(x[0]):.12g}", wanted)
    names = {name.lower(): name for name in below}
    state = self.state(node)[None]
    most = self.game.amounts(state).max() == state[0, betting.STACK]
    if wanted in ("all-in", "allin", "a") and self.mover(node) < CHANCE and most:
      wanted = list(names)[-1]  # the largest
    if wanted == "*" and self.mover(node) == CHANCE:
      wanted = next(iter(names))
    if wanted not in names:
      there = ", ".join(below) if len(below) else "nothing, as the hand is over"
      raise ConfigError(f"node={short(line)} holds {short(word)}, and possible there is: {there}")
    return below[names[wanted]]

  def _past_burn(self, node: Node) -> Node:
    """Returns the node after a burned card, which no one sees, if that is next."""
    below = self.children(node)
    return below["burn"] if list(below) == ["burn"] else node

  def lock(self, lines: Lines | None = None) -> Lock | None:
    """Returns the lock's bounds `[lines, 1]`, of hands in columns of `lines`; None without one."""
    parts, streets = self.spot.lock_parts(self.game), (lines or self.lines).streets
    if not parts:
      return None
    whole = all(own.all() for _, own, _ in parts)
    starts = np.cumsum([0, *(level.size for level in self.lines.levels)])
    width = 1 if whole else max(streets[0].width(p) for p in (0, 1))
    rows = [np.zeros((starts[-1], width)), *np.ones((2, starts[-1], width))]
    locked: set[tuple[Node, int]] = set()
    with in_config_errors(f"lock={self.spot.lock!r}"):
      for line, own, wanted in parts:
        node = self.find(line)
        below, place = self.children(node), self.follower.follow(node)
        if self.mover(node) >= CHANCE or line.count("*") != place.street:
          raise ValueError(f"{line.strip()!r} must lead to a move, with * for each card")
        columns = np.unique(self.columns.classes[0][self.mover(node)].column[0][own])
        columns = np.zeros(1, int) if whole else columns[columns != NONE]
        moves = [item.strip().rpartition(" ")[::2] for item in wanted.split(",")]
        held = {self._child(node, move, line)[-1]: float(x) for move, x in moves}
        keys = {(node, int(column)) for column in columns}
        if not keys or keys & locked or len(held) < len(moves):
          raise ValueError(f"{line.strip()!r} locks no hand, or one or a move for the second time")
        locked |= keys
        places = {child[-1]: self.follower.step(place, child[-1]) for child in below.values()}
        numbers = [starts[x.level] + x.row for x in places.values()]
        for row, bounds in zip(rows, frequency_bounds([*places], held)):
          row[np.ix_(numbers, columns)] = bounds[:, None]
    return Lock(*rows)

  @checked
  def line(self, node: Node) -> str:
    """Returns the moves and cards that lead to a node; raises a ValueError if one is not legal."""
    self.state(node)
    starts = [node[:depth] for depth in range(len(node) + 1)]
    below = zip(map(self.children, starts), starts[1:])
    words = [name for moves, after in below for name, child in moves.items() if child == after]
    return ", ".join(word for word in words if word != "burn")

  def save(self, path: str | Path) -> None:
    """Writes the spot and the policy to a file that `load` reads, or raises a ConfigError.

    It is a NumPy archive: the policy of each level of lines, `sums` (`regret_1` times
    `regret_1_scale`), and `about`, JSON text of the spot's fields, `iterations`, `exploitability`,
    and a checksum over all of it. Levels are those of `games.poker.lines.make_lines(spot.game())`.
    """
    where, name, _ = check_output(path)
    about = {
      "format": _FORMATS[bool(self.sums)],
      "spot": dataclasses.asdict(self.spot),
      "iterations": self.iterations,
      "exploitability": self.exploitability,
    }
    levels: dict[str, Any] = {
      f"level_{i}": rows
      for i, (rows, level) in enumerate(zip(self.policy, self.lines.levels))
      if level.mover is not None
    }
    for key, rows in self.sums.items():
      levels |= {key: rows.numbers, f"{key}_scale": rows.scale}
    with in_config_errors(f"{name} cannot be written", OSError):
      files.save_arrays(where, levels, about)


def check_output(path: str | Path) -> tuple[Path, str, dict[str, Any]]:
  """Returns where `SolvedSpot.save` writes, that name, and the description of a spot there."""
  where, name = Path(os.path.realpath(path)), f"output={str(path)!r}"
  return where, name, files.check_replaceable(where, name, *_KIND)


def path_for(spot: Spot, path: str) -> str:
  """Returns `path`, or one with a number that is free, where the file there is another spot's."""
  stem, suffix = os.path.splitext(path)
  named = itertools.chain([path], (f"{stem}-{number}{suffix}" for number in itertools.count(2)))
  own = dataclasses.asdict(spot)
  return next(x for x in named if check_output(x)[2].get("spot", own) == own)


@checked
def load(path: str | Path, gigabytes: float | None = None) -> SolvedSpot:
  """Returns a spot that `SolvedSpot.save` wrote, or raises a ConfigError; nothing is solved.

  Args:
    path: the file, refused if it is of another kind or was altered.
    gigabytes: how large it may be, as of `check_fits`.
  """
  where, name = Path(os.path.realpath(path)), f"load={str(path)!r}"
  about = files.read_about(where, name, *_KIND)
  with files.reading(name, _KIND[0]):
    if about["format"] not in _FORMATS:
      raise ValueError(f"it has format {about['format']!r}; this version reads {_FORMATS}")
    spot = Spot(**about["spot"])
    numbers = int(about["iterations"]), float(about["exploitability"])
  # Before anything of its size is made, on the host; files do not say in how many bits to solve.
  check_fits(spot, gigabytes or 0.75e-9 * psutil.virtual_memory().total, half_tables=True)
  made = prepare(spot)
  rows = [(x.size, made.lines.streets[x.street].width(x.mover or 0)) for x in made.lines.levels]
  moved = {f"level_{i}": i for i, x in enumerate(made.lines.levels) if x.mover is not None}
  kinds = _SUMS[: 2 * _FORMATS.index(about["format"])]
  sums = {f"{kind}_{i}": rows[i] for kind in kinds for i in moved.values()}
  scales = {f"{key}_scale": size[:1] for key, size in sums.items()}
  sizes: Any = {key: rows[i] for key, i in moved.items()} | sums | scales
  shapes = {key: (size, "f") for key, size in sizes.items()}
  levels: Any = files.read_arrays(where, name, _KIND[0], about, shapes)
  for key, i in moved.items():  # of each decision above, probabilities of its moves
    total = levels[key].sum(axis=0) / made.lines.levels[i - 1].counts[DECISION]
    if (levels[key] < 0).any() or not np.allclose(total, 1, atol=1e-3):
      raise ConfigError(f"{name} holds no policy: probabilities do not add up to one")
  policy = [levels.get(f"level_{i}", np.broadcast_to(1.0, x)) for i, x in enumerate(rows)]
  return dataclasses.replace(
    made.with_policy(policy, *numbers),
    sealed="checksum" in about,
    sums={key: Half(levels[key], levels[f"{key}_scale"]) for key in sums},
  )


@checked
def prepare(spot: Spot) -> SolvedSpot:
  """Writes a spot out as lines of betting, not solved yet."""
  game = spot.game()
  return SolvedSpot(spot, game, *make_lines(game, spot.apart(game)))


@checked
def solve(
  spot: Spot | SolvedSpot,
  *,
  target: float = 0.5,
  max_iterations: int = 10_000,
  progress: Callable[[int, float], bool | None] | None = None,
  shape: Shape | None = None,
  devices: Sequence[jax.Device] | None = None,
  half_tables: bool = False,
) -> SolvedSpot:
  """Solves a spot by discounted CFR until its exploitability is small enough.

  Shapes are rounded up, so that most spots of a kind with other boards share compiled programs.

  Args:
    spot: what to solve; a solved one is gone on with.
    target: exploitability to stop at, in percent of the pot.
    max_iterations: to stop at in any case, even, and earlier ones count; a player's update is one.
    progress: called with the iterations and the exploitability in percent of the pot; the solve
      ends where it returns True.
    shape: what lines are rounded up to (`games.poker.lines.share_shapes`); None for a little more.
    devices: as of `solvers.solve`.
    half_tables: keep sums of flops and turns in 16 bits; rivers have none that large.

  Raises:
    ConfigError: a setting of the spot is not allowed, or it has `max_iterations` already.
  """
  made = prepare(spot) if isinstance(spot, Spot) else spot
  if made.iterations >= max_iterations:
    raise ConfigError(f"max_iterations={max_iterations} must be above {made.iterations} so far")
  pot = made.spot.pot * made.spot.unit

  def look(found: solvers.Solution) -> bool | None:
    return progress and progress(found.iterations, 100 * found.exploitability / pot)

  rounded, places = round_up(made.lines, shape=shape)
  found = solvers.solve(
    rounded,
    algorithm=ALGORITHM,
    target=target / 100 * pot,
    num_iterations=max_iterations,
    progress=look,
    devices=devices,
    tables="float16" if half_tables and made.game.deals else None,
    locked=made.lock(rounded),
    start=made.start(rounded, places) if made.policy else None,
  )
  gap = found.exploitability / made.spot.unit
  sums = {
    f"{kind}_{i}": rows._replace(numbers=rows.numbers[:, at])
    for kind, levels in zip(_SUMS, found.sums)
    for i, (x, at) in enumerate(zip(levels, places))
    if (rows := x if x is None or is_half(x) else to_half(np.asarray(x)))
  }
  return dataclasses.replace(
    made.with_policy(found.average_policy, found.iterations, gap, places=places),
    sealed=True,
    sums=sums,
  )
