"""A spot and its solution: memory that it needs, solving, files, and its decisions."""

import dataclasses
import functools
import itertools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
import psutil
import tyro

import solvers
from games import CHANCE
from games.arrays import checked, short
from games.poker import RANKS, SUITS, BetSizes, Betting, Deck, Holdem, betting
from games.poker.betting import MAX_CHIPS
from games.poker.cards import shares_card
from games.poker.dealing import place_among
from games.poker.holdem import CALL, FIRST_BET, FOLD
from games.poker.lines import Follower, LineMap, Lines, make_lines, round_up
from games.poker.lines.boards import NONE, enumerate_boards, find_alike, hand_classes
from games.poker.lines.lines import DECISION, betting_lines
from games.poker.lines.rounding import Columns, Shape
from games.poker.notation import parse_donk, parse_range, parse_sizes
from rebel_jax.checkpoints import files
from rebel_jax.config import ConfigError, allowed, in_config_errors
from rebel_jax.devices import memory
from rebel_jax.spots.values import Values
from solvers.half import Half, from_half, is_half, to_half
from solvers.resolving import frequency_bounds
from solvers.sweeps.problem import Lock

_BOARDS = (3, 4, 5)  # cards
PLAYERS = ("OOP", "IP")
TEXT = allowed.text("TEXT")


@dataclasses.dataclass(frozen=True)
class Spot:
  """A spot between two players; the one out of position (OOP, player 0) acts first.

  Attributes:
    board: three, four or five cards, such as `Td9d6hQc`.
    oop, ip: the players' ranges, strings for `games.poker.parse_range`.
    pot: chips in the pot. Where chips have decimals, big blinds say, a hundredth is the least.
    stack: chips that each player has left.
    bets: Bet sizes, then after / raises: 33% of the pot, 2.5x the bet, 100c chips more, e (at most
      half the pot: e50%) for geometric, a for all-in, - for none; | separates streets.
    oop_bets: Sizes of the player out of position, if they are others.
    ip_bets: Sizes of the player in position, if they are others.
    donk_bets: Sizes of a first bet into who bet last on the street before, with | between streets
      after the first; - for none.
    near_all_in: Bets of at least this percentage of the chips left become all-in.
    add_all_in: All-in is a move wherever the chips left are at most this percentage of the pot.
    merge: Of two sizes whose pots after a call differ by at most this percentage the one listed
      first is kept.
    min_bet: The smallest bet, in chips; None for the least.
    rake: Percentage of every pot that the house takes.
    rake_cap: The most that it takes, in chips.
    lock: Frequencies that a player's range, or hands in brackets, keep to, the rest solved around
      them, such as "bet 66: fold 0.6, call 0.3; check, check, * [AA,KdQd]: bet 66 1"; * is any
      card, and moves that are not named share what is left.
    ranks, suits: the deck.
  """

  board: str
  oop: str
  ip: str
  pot: Annotated[float, allowed.chips(0.02, MAX_CHIPS)]
  stack: Annotated[float, allowed.chips(0.01, MAX_CHIPS)]
  bets: Annotated[str, allowed.text("SIZES")] = "33%,75%,a / 2.5x,a"
  oop_bets: Annotated[str | None, allowed.optional(TEXT)] = None
  ip_bets: Annotated[str | None, allowed.optional(TEXT)] = None
  donk_bets: Annotated[str | None, allowed.optional(TEXT)] = None
  near_all_in: Annotated[float | None, allowed.optional(allowed.number(100))] = None
  add_all_in: Annotated[float | None, allowed.optional(allowed.number(100_000))] = None
  merge: Annotated[float | None, allowed.optional(allowed.number(100))] = None
  min_bet: Annotated[float | None, allowed.optional(allowed.chips(0.01, MAX_CHIPS))] = None
  rake: Annotated[float, allowed.number(50, zero=True)] = 0.0
  rake_cap: Annotated[float | None, allowed.optional(allowed.chips(0, MAX_CHIPS))] = None
  lock: Annotated[str | None, allowed.optional(TEXT)] = None
  ranks: Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress] = RANKS
  suits: Annotated[str, tyro.conf.Fixed, tyro.conf.Suppress] = SUITS

  @property
  def unit(self) -> int:
    """Chips of `game` that make one of the spot's: 100 where some have decimals."""
    sizes = filter(None, (self.bets, self.oop_bets, self.ip_bets, self.donk_bets))
    decimals = (
      self.pot < 2
      or any(x and x % 1 for x in (self.pot, self.stack, self.min_bet, self.rake_cap))
      or re.search(r"\.\d+\s*c", " ".join(sizes).lower())
    )
    return 100 if decimals else 1

  @property
  def form(self) -> str:
    """The format of values in the spot's chips."""
    return ".2f" if self.unit > 1 else ".1f"

  @in_config_errors()
  def game(self) -> Holdem:
    """Returns the rules of the spot, with the hands of the ranges alone as infostates.

    Raises:
      ConfigError: a setting is not allowed, a range is not understood, the board leaves none of
        it, or every hand of one player shares a card with every hand of the other.
    """
    allowed.check(self)
    deck = Deck(self.ranks, self.suits)
    board = deck.parse(self.board, field="board")
    if len(board) not in _BOARDS:
      raise ValueError(f"board={short(self.board)} holds {len(board)} cards; a spot has 3, 4 or 5")
    deals = (1,) * (_BOARDS[-1] - len(board))
    numbers = self.pot, self.stack, self.min_bet or 1 / self.unit, self.rake_cap or 0
    pot, stack, least, cap = (round(self.unit * x) for x in numbers)
    if pot // 2 + stack > MAX_CHIPS:
      raise ValueError(
        f"stack={self.stack} and half of pot={self.pot} are more than {MAX_CHIPS // self.unit}"
      )
    rules = Betting(
      (pot // 2 + stack,) * 2,
      (pot // 2,) * 2,
      least,
      dead=pot % 2,
      rake=self.rake / 100,
      rake_cap=None if self.rake_cap is None else cap,
    )
    bets = self._bet_sizes(len(deals) + 1)
    whole = Holdem(deck=deck, board=board, deals=deals, rules=rules, bets=bets)
    ranges = {"oop": _weights(self.oop, deck, "oop"), "ip": _weights(self.ip, deck, "ip")}
    free = ~np.isin(deck.hole_cards(), board).any(axis=1)
    for field in (x for x, weights in ranges.items() if not weights[free].any()):
      raise ValueError(f"{field}={short(getattr(self, field))} holds no hand that the board leaves")
    beliefs = whole.beliefs(np.stack([*ranges.values()]))
    if not (~shares_card(*(whole.hole_cards[row > 0] for row in beliefs))).any():
      raise ValueError(
        f"oop={short(self.oop)} and ip={short(self.ip)} cannot both be held: all their hands share "
        "cards"
      )
    return whole.only(beliefs)

  @in_config_errors()
  def lock_parts(self, game: Holdem) -> list[tuple[str, np.ndarray, str]]:
    """Returns the line, the hands `[H]` and the frequencies of each part of the lock."""
    found, places = [], place_among(game.deck.hole_cards(), game.hole_cards)
    for part in filter(str.strip, (self.lock or "").split(";")):
      head, _, wanted = part.rpartition(":")
      line, bracket, hands = head.partition("[")
      named = _weights(hands.rstrip("] "), game.deck, "lock") if bracket else np.ones(len(places))
      found.append((line, named[places] > 0 if bracket else named > 0, wanted))
    return found

  def _bet_sizes(self, rounds: int) -> BetSizes:
    fields = {"bets": self.bets, "oop_bets": self.oop_bets, "ip_bets": self.ip_bets}
    sizes = {
      name: parse_sizes(x, rounds, field=name, unit=self.unit)
      for name, x in fields.items()
      if x is not None
    }
    shares: Any = {
      name: None if getattr(self, name) is None else getattr(self, name) / 100
      for name in ("near_all_in", "add_all_in", "merge")
    }
    first, second = (sizes.get(name, sizes["bets"]) for name in ("oop_bets", "ip_bets"))
    donk = None
    if self.donk_bets is not None:
      donk = parse_donk(self.donk_bets, rounds, field="donk_bets", unit=self.unit)
    return BetSizes(first, all_in=False, second=second, donk=donk, **shares)


def shown(number: int, unit: int) -> str:
  """Returns a number of chips as text, in those that `unit` of them make."""
  return f"{number / unit:.2f}".rstrip("0").rstrip(".") if unit > 1 else str(number)


@functools.lru_cache(maxsize=16)
def _weights(text: str, deck: Deck, field: str) -> np.ndarray:
  """Returns `parse_range`, which takes longer than a river to solve; of many boards it is one."""
  return parse_range(text, deck, field=field)


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
    places: Columns | None = None,
  ) -> "SolvedSpot":
    """Returns the spot with a policy; where its lines are rounded up, columns stand at `places`."""
    if places is not None:
      policy = [np.asarray(x)[:, at] for x, at in zip(policy, self._places(places))]
    return dataclasses.replace(
      self, policy=tuple(policy), iterations=iterations, exploitability=exploitability
    )

  def _places(self, places: Columns) -> list[np.ndarray]:
    """Returns where each level's columns stand in lines that are rounded up."""
    return [places[level.street][level.mover or 0] for level in self.lines.levels]

  def start(self, rounded: Lines, places: Columns) -> solvers.Solution:
    """Returns the start of a solve, on lines that are rounded up."""
    if not self.sums:
      raise ConfigError("load is of an earlier version's file, whose solve cannot go on")

    def spread(name: str, level: Any, at: np.ndarray) -> np.ndarray | None:
      if name not in self.sums:
        return None
      rows = np.zeros((level.size, rounded.streets[level.street].width(level.mover)), rounded.dtype)
      rows[:, at] = from_half(self.sums[name])
      return rows

    levels: Any = [*zip(itertools.count(), self.lines.levels, self._places(places))]
    sums = tuple(tuple(spread(f"{kind}_{i}", *own) for i, *own in levels) for kind in _SUMS)
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
    where, name = check_output(path)
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


def check_output(path: str | Path) -> tuple[Path, str]:
  """Returns where `SolvedSpot.save` writes a file, which does not exist or holds a solved spot."""
  where, name = Path(os.path.realpath(path)), f"output={str(path)!r}"
  files.check_replaceable(where, name, *_KIND)
  return where, name


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
  return SolvedSpot(spot, game, *make_lines(game, _apart(spot, game)))


def _apart(spot: Spot, game: Holdem) -> np.ndarray:
  """Returns the hands that parts of a lock tell from others: `[parts, H]`."""
  return np.array([own for _, own, _ in spot.lock_parts(game)]).reshape(-1, game.num_infostates)


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
    for i, (x, at) in enumerate(zip(levels, made._places(places)))
    if (rows := x if x is None or is_half(x) else to_half(np.asarray(x)))
  }
  return dataclasses.replace(
    made.with_policy(found.average_policy, found.iterations, gap, places=places),
    sealed=True,
    sums=sums,
  )


_MOST_LINES = 1_000_000
# Bytes, as measured on a flop of 184 and 269 hands (docs/results/poker.md).
_OF_EDGE = 12, 10  # two tables, in 32 or 16 bits, and what is read at the end
_OF_START = 16  # of an edge, where a solve goes on: sums twice and the policy (14 on a turn)
_OF_COLUMN = 60  # of the last round: beliefs, strengths, places of sorted hands
_OF_ARRIVAL = 12  # a line that comes to the last round, and a column
_OF_PROGRAM = 0.3e9


class Size(NamedTuple):
  """The size of a spot."""

  lines: int  # of betting
  boards: int  # of the last round, of those that suits take to each other one
  edges: int  # entries of a table: moves by boards and hands, both players' together
  gigabytes: float  # about what a solve takes

  def sentence(self) -> str:
    """Says how large it is."""
    return f"{self.lines:,} lines of betting, {self.boards:,} boards"


@in_config_errors()
@checked
def measure(spot: Spot, half_tables: bool = False, begun: bool = False) -> Size:
  """Returns the size of a spot; nothing of that size is made."""
  game = spot.game()
  levels, _ = betting_lines(game, _MOST_LINES)
  beliefs = np.asarray(game.prior())
  alike = find_alike(game, np.concatenate([beliefs, _apart(spot, game)]))
  boards = enumerate_boards(game, alike)
  widths = [
    [hand_classes(game, row > 0, own, alike).hand.size for row in beliefs] for own in boards
  ]
  edges = sum(x.size * widths[x.street][x.mover] for x in levels if x.mover is not None)
  arrivals = next(x.size for x in levels if x.street == len(boards) - 1)
  needed = (_OF_EDGE[half_tables] + _OF_START * begun) * edges
  needed += sum(widths[-1]) * (_OF_COLUMN + _OF_ARRIVAL * arrivals)
  lines = sum(level.size for level in levels)
  return Size(lines, len(boards[-1].cards), edges, (needed + _OF_PROGRAM) / 1e9)


@checked
def check_fits(
  spot: Spot, gigabytes: float | None = None, half_tables: bool = False, begun: bool = False
) -> Size:
  """Returns the size of a spot, at most `gigabytes`, None for 3/4 of the machine's."""
  size = measure(spot, half_tables, begun)
  limit = 0.75e-9 * (memory()[1] or math.inf) if gigabytes is None else gigabytes
  if size.gigabytes > limit:
    raise ConfigError(
      f"board={spot.board!r} with these bets and ranges makes {size.sentence()}, which "
      f"take about {size.gigabytes:,.1f} GB to solve, and {limit:,.1f} are allowed; take fewer "
      "bet sizes, narrower ranges, a later street or more --memory"
    )
  return size
