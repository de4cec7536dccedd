"""One node of a solved spot by hand, kind of hand and next card, and a hand played against it.

A node has strategy and values; a `Trial` is one hand of a person against the solution.
"""

import contextlib
import csv
import dataclasses
import functools
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from games import CHANCE
from games.arrays import checked
from games.pairs import compatible_mass, holds
from games.poker import betting
from games.poker.cards import NO_DRAW, draws, made_hands
from games.poker.lines.boards import NONE
from rebel_jax.agents import range_grids
from rebel_jax.agents.dealer import Dealer, Move
from rebel_jax.checkpoints import files
from rebel_jax.config import ConfigError, in_config_errors
from rebel_jax.spots.solved import Node, SolvedSpot
from rebel_jax.spots.spot import PLAYERS, shown


class HandTable(NamedTuple):
  """Every hand at a node, of both players.

  Attributes:
    reach: `[P, H]` each player's range there, rows sum to one; zeros if a player never comes to it.
    ev: `[P, H]` chips that a hand gets from there on, with what is in the pot; NaN where the other
      can hold nothing, and for hands that are not the player's.
    equity: `[P, H]` share of the pot if all cards came and nobody bet; NaN likewise.
    frequency: `[A, H]` how often the player to move makes each move of `SolvedSpot.children`.
    move_ev: `[A, H]` `ev` of the player to move if it makes each move; what the move costs is
      taken off.
    mass: `[P, H]` how much of the other's range shares no card with a hand, in any unit.
  """

  reach: np.ndarray
  ev: np.ndarray
  equity: np.ndarray
  frequency: np.ndarray
  move_ev: np.ndarray
  mass: np.ndarray

  def mean(self, values: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
    """Returns the mean of `ev` or `equity` over each player's range: `[P]`; NaN of none.

    Hands count `weights` `[H]` by how often both players hold what they hold, so shared cards are
    left out.
    """
    joint = self.reach * self.mass * weights
    total = joint.sum(axis=1)
    found = np.where(joint > 0, joint * values, 0).sum(axis=1)
    return np.where(total > 0, found / np.where(total > 0, total, 1), np.nan)


@checked
def hand_table(solved: SolvedSpot, node: Node = ()) -> HandTable:
  """Returns the policy and the values of every hand at a node of a solved spot."""
  game, follower = solved.game, solved.follower
  state = solved.state(node)  # checks the moves, from the node before on
  place = functools.reduce(follower.step, node, follower.start())
  held_reach, values = solved.values.on(place.street, place.board)
  last = place.street == len(solved.lines.streets) - 1
  columns = [follower.columns(place, p) for p in (0, 1)]
  starts = [own.starts[place.board] * last for own in solved.columns.classes[place.street]]

  def of_hands(levels, player: int, at) -> np.ndarray:
    own = np.where(columns[player] == NONE, 0, columns[player] - starts[player])
    return np.where(columns[player] == NONE, 0.0, levels[player][at.level][at.row][own])

  reach = np.stack([of_hands(held_reach, p, place) for p in (0, 1)])
  mass = compatible_mass(reach[::-1], holds(game.hole_cards, game.deck.num_cards))
  mass = np.where(place.hands == NONE, 0.0, np.maximum(mass, 0.0))
  # Values hold the probability of the cards dealt as well.
  left = game.deck.num_cards - len(game.board) - 4
  scale = mass / np.prod([left - k for k in range(place.street)])
  paid = state[[betting.PAID_0, betting.PAID_1]] + game.rules.dead / 2
  there = scale > 1e-12 * scale.max()

  def chips(at, player: int) -> np.ndarray:
    own = of_hands(values, player, at)
    held = there[player] & (columns[player] != NONE)
    return (
      np.where(held, own / np.where(held, scale[player], 1), np.nan) + paid[player]
    ) / solved.spot.unit

  mover = follower.mover(place)
  below = [] if mover is None else list(solved.children(node).values())
  children = [follower.step(place, child[-1]) for child in below]
  total = reach.sum(axis=1, keepdims=True)
  ranges = reach / np.where(total > 0, total, 1)
  own, shape = columns[mover or 0], (len(children), game.num_infostates)
  rows = [solved.policy[x.level][x.row][np.maximum(own, 0)] for x in children]
  frequency = np.where(own == NONE, 1 / max(len(rows), 1), np.reshape(rows, shape))
  move_ev = np.reshape([chips(x, mover or 0) for x in children], shape)
  ev = np.stack([chips(place, p) for p in (0, 1)])
  return HandTable(ranges, ev, _equity(solved, node, ranges), frequency, move_ev, mass)


def _equity(solved: SolvedSpot, node: Node, ranges: np.ndarray) -> np.ndarray:
  dealt = [card for card in solved.game.dealt(solved.state(node)[None])[0].tolist() if card >= 0]
  won, both = solved.showdowns(frozenset(dealt))
  worth, mass = ranges[::-1] @ won.T, ranges[::-1] @ both
  return np.where(mass > 1e-12, worth / np.where(mass > 1e-12, mass, 1), np.nan)


FIELDS = ("line", "player", "hand", "move", "share", "frequency", "ev")


class Row(NamedTuple):
  """Some hands of a player at a node."""

  name: str
  share: float  # of the player's range
  # chips that the player gets from there on, the pot included; NaN where it never has them
  ev: float
  equity: float  # share of the pot if all cards came and nobody bet
  frequency: tuple[float, ...]  # of each move over the share; empty where the player does not move


@dataclasses.dataclass(frozen=True)
class Study:
  """A solved spot at one of its nodes, public actions since the start."""

  solved: SolvedSpot
  node: Node = ()

  @functools.cached_property
  def table(self) -> HandTable:
    """Every hand of both players at the node."""
    return hand_table(self.solved, self.node)

  @functools.cached_property
  def moves(self) -> dict[str, Node]:
    """The nodes below, by the names of moves or cards."""
    return self.solved.children(self.node)

  @functools.cached_property
  def mover(self) -> int:
    """Returns the player to move, chance or none (`games.TERMINAL`)."""
    return self.solved.mover(self.node)

  @property
  def acts(self) -> bool:
    """Whether a player moves at the node."""
    return self.mover < CHANCE

  @functools.cached_property
  def line(self) -> str:
    """Moves and cards that lead to the node."""
    return self.solved.line(self.node)

  @property
  def situation(self) -> str:
    """Board, pot and stacks."""
    return self.solved.game.situation(
      self.node, functools.partial(shown, unit=self.solved.spot.unit)
    )

  def at(self, line: str) -> "Study":
    """Returns the node after a line of play from the start."""
    return Study(self.solved, self.solved.find(line))

  def go(self, word: str) -> "Study":
    """Returns the node after one more move or card, or the node before for `back`."""
    if word == "back":
      return self.at(", ".join(self.line.split(", ")[:-1]))
    return Study(self.solved, self.solved.find(word, self.node))

  def grid(self, player: int | None = None) -> range_grids.RangeGrid:
    """Returns the range grid of a player, of the one to move if None."""
    player = check_acts(self) if player is None else player
    reach = self.table.reach[player]
    if not reach.any():
      raise ConfigError(f"node={self.line!r} has no strategy: {PLAYERS[player]} never comes to it")
    own = player == self.mover
    rows = self.table.frequency if own else np.ones((1, len(reach)))
    moves = tuple(self.moves) if own else ("holds",)
    return range_grids.make_range_grid(self.solved.game, reach, rows, moves)

  def row(self, name: str, player: int, held: np.ndarray | list[int] | slice = slice(None)) -> Row:
    """Returns the row of a player's hands `held` `[H]`, or of all."""
    table, chosen = self.table, np.zeros(self.table.reach.shape[1])
    chosen[held] = 1
    share = float(table.reach[player] @ chosen)
    ev, equity = (float(table.mean(x, chosen)[player]) for x in (table.ev, table.equity))
    played: tuple[float, ...] = ()
    if player == self.mover:
      weights = table.reach[player] * chosen
      played = tuple((table.frequency @ weights / (weights.sum() or 1)).tolist())
    return Row(name, share, ev, equity, played)

  def hands(self, player: int) -> list[Row]:
    """Returns a row for each hand of a player's range, the highest first."""
    name, places = self.solved.game.infostate_name, np.flatnonzero(self.table.reach[player])[::-1]
    return [self.row(name(player, int(h)), player, [h]) for h in places]

  def kinds(self, player: int) -> list[Row]:
    """Returns a row for each made hand and each draw of a player's range, the likeliest first."""
    game, state = self.solved.game, self.solved.state(self.node)
    board = [card for card in game.on_board(state[None])[0].tolist() if card >= 0]
    rows = []
    for names_of in (made_hands, draws):
      names = np.array(names_of(game.deck, game.hole_cards, board))
      own = [self.row(name, player, names == name) for name in np.unique(names).tolist() if name]
      own = [x for x in own if x.share > 0]
      if any(x.name != NO_DRAW for x in own):
        rows += sorted(own, key=lambda x: -x.share)
    return rows

  def cards(self) -> list[Row]:
    """Returns a row for each next card, of the player to act after it, or else the first."""
    below = {card: self.go(card) for card in self.moves if self.mover == CHANCE}
    after = [(card, x, x.mover if x.acts else 0) for card, x in below.items()]
    return [x.row(f"{card} {PLAYERS[player]}", player) for card, x, player in after]

  def summary(self) -> str:
    """Returns how well the spot is solved, both players' values and the mover's strategy."""
    game, solved, state = self.solved.game, self.solved, self.solved.state(self.node)
    pot = (int(state[2] + state[3]) + game.rules.dead) / solved.spot.unit
    sealed = "" if solved.sealed else ", says a file without a checksum"
    lines = [
      self.situation,
      f"exploitable by {solved.percent:.2f}% of the pot after {solved.iterations:,} iterations, "
      f"{solved.iterations // 2:,} of both players" + sealed,
      solved.columns.sentence(),
    ]
    if self.acts:
      comes = self.table.reach[self.mover].any()
      strategy = self.grid().text() if comes else f"{PLAYERS[self.mover]} never comes to it"
      lines += [f"{PLAYERS[self.mover]} to act", strategy]
    for p, name in enumerate(PLAYERS):
      row = self.row(name, p)
      share = 100 * np.nan_to_num(row.ev) / pot
      lines.append(
        f"{name:<4} EV {np.nan_to_num(row.ev):{solved.spot.form}} ({share:.1f}% of the pot), "
        f"{np.nan_to_num(row.equity):.1%} equity"
      )
    return "\n".join(lines)

  def listing(self, rows: Sequence[Row]) -> str:
    """Returns rows as text, with tabs between."""
    head, form = ["hand", "share", "EV", "equity"], self.solved.spot.form
    lines = [
      [
        x.name,
        f"{x.share:.4f}",
        f"{x.ev:{form}}",
        f"{x.equity:.3f}",
        *map("{:.3f}".format, x.frequency),
      ]
      for x in rows
    ]
    return "\n".join(map("\t".join, [[*head, *(self.moves if self.acts else ())], *lines]))


def check_acts(study: Study) -> int:
  """Returns the player to move at a node."""
  if not study.acts:
    raise ConfigError(f"node={study.line!r} has no strategy: no player moves at it")
  return study.mover


def records(study: Study) -> Iterator[dict[str, Any]]:
  """Yields every move of every hand at every decision from a node on."""
  if study.acts:
    table = study.table
    for h in np.flatnonzero(table.reach[study.mover] > 0).tolist():
      hand = study.solved.game.infostate_name(study.mover, h)
      for a, move in enumerate(study.moves):
        numbers = table.reach[study.mover, h], table.frequency[a, h], table.move_ev[a, h]
        texts = study.line, PLAYERS[study.mover], hand, move
        yield dict(zip(FIELDS, (*texts, *map(float, numbers)), strict=True))
  for move in study.moves:
    yield from records(study.go(move))


def _writing(path: str) -> contextlib.AbstractContextManager[None]:
  return in_config_errors(f"table={path!r} cannot be written", (OSError, ValueError))


def check_table(path: str) -> None:
  """Checks before the work that `export` can write a file, and replaces none of another kind."""
  with _writing(path), files.replacing(Path(path), rehearse=True):
    before = files.read_bytes(Path(path)) if os.path.exists(path) else b""
    start = '{"line": "' if path.endswith(".jsonl") else ",".join(FIELDS)
    if before and not before.startswith(start.encode()):
      raise ValueError("it is there and no table of that kind")


def export(study: Study, path: str, progress: Callable[[int], object]) -> None:
  """Replaces a file by `records`: a JSON object a line if its name ends in `.jsonl`, else CSV."""
  with _writing(path), files.replacing(Path(path)) as raw:
    file = io.TextIOWrapper(raw, newline="")
    table = csv.DictWriter(file, FIELDS)
    lines = path.endswith(".jsonl")
    file.write("" if lines else ",".join(FIELDS) + "\r\n")
    write = (lambda x: file.write(json.dumps(x) + "\n")) if lines else table.writerow
    for number, record in enumerate(records(study)):
      write(record)
      if number % 1_000 == 0:
        progress(number)
    file.detach()  # what was written stays open for `replacing`


class Trial:
  """One hand from a spot's start; the solution plays the player that is not in `seat`."""

  def __init__(self, study: Study, seat: int, rng: np.random.Generator):
    # Where the house takes a rake, what players win does not add up to zero, and dealers refuse.
    free = dataclasses.replace(study.solved.spot, rake=0.0)
    self.dealer, self.seat, self.rng = Dealer(free.game()), seat, rng
    self.study = study.at("")
    self.dealer.deal(rng)
    self.record = [f"You are {PLAYERS[seat]} and hold {self._hand(seat)}."]
    self._continue()

  def _hand(self, seat: int) -> str:
    return self.dealer.game.infostate_name(seat, self.dealer.infostates[seat])

  def play(self, move: str) -> None:
    """Makes the person's move, and those of chance and of the solution until its next turn."""
    study = self.study
    after, held = study.go(move), self.dealer.infostates[self.seat]
    table, place = study.table, list(study.moves).index(move)
    best = int(np.argmax(table.move_ev[:, held]))
    cost = table.move_ev[best, held] - table.move_ev[place, held]
    said = f"You {move}: the solution does {table.frequency[place, held]:.0%} of the time"
    self.record.append(
      f"{said}, {cost:{study.solved.spot.form}} chips below {list(study.moves)[best]}."
    )
    self._make(after)
    self._continue()

  def _make(self, study: Study) -> None:
    for action in study.node[len(self.dealer.history) :]:
      held = self.dealer.infostates[self.dealer.actor] if self.dealer.actor < CHANCE else -1
      self.dealer.apply(Move(action, held), self.rng)
    self.study = study

  def _continue(self) -> None:
    dealer, other = self.dealer, 1 - self.seat
    if not dealer.history:  # a burned card
      self._make(self.study)
    while not dealer.is_over() and dealer.actor != self.seat:
      names = {node[-1]: name for name, node in self.study.moves.items()}
      if dealer.actor == CHANCE:
        name = names[dealer.sample_chance(self.rng)]
        self.record.append(f"{name} is dealt.")
      else:
        chances = self.study.table.frequency[:, dealer.infostates[other]]
        name = str(self.rng.choice(list(names.values()), p=chances / chances.sum()))
        self.record.append(f"{PLAYERS[other]}: {name}")
      self._make(self.study.go(name))
    if dealer.is_over():
      net = dealer.payoff() * (1 - 2 * self.seat)
      rules, state = self.study.solved.game.rules, dealer.state[None]
      rake = float(rules.raked(2 * np.abs(rules.stakes(state)))[0])
      spot = self.study.solved.spot
      won = round((net - rake * (1 + np.sign(net)) / 2) / spot.unit + spot.pot / 2, 2)
      held = self._hand(other)
      self.record.append(f"{PLAYERS[other]} held {held}; you get {won:.12g} of the pot.")
