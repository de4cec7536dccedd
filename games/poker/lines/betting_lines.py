"""The lines of betting of a game: its public tree with one card for all that chance may deal."""

import dataclasses
import math

import numpy as np

from games.build import find_runs
from games.game import CHANCE, TERMINAL
from games.poker import betting
from games.poker.holdem import Holdem
from games.public_tree import Level

DECISION, CLOSED, FOLD, SHOWDOWN = range(4)


@dataclasses.dataclass(frozen=True)
class LineLevel:
  """The static shape of a level: lines of as many moves in a round of betting.

  Decisions come first, then lines that end the round, folds and showdowns; within each those of
  one move follow each other.

  Attributes:
    street: the round, from 0.
    mover: who moved to get here; None at the first level of a round.
    counts: how many decisions, ends of the round, folds and showdowns there are.
    level: the shape for sweeps, decisions as its inner nodes.
    closed: at the first level of a later round: the levels `(index, number)` whose ends of the
      round before lead here, in order.
    order: at that level, which of these ends each row comes from.
  """

  street: int
  mover: int | None
  counts: tuple[int, ...]
  level: Level
  closed: tuple[tuple[int, int], ...] = ()
  order: tuple[int, ...] = ()

  @property
  def size(self) -> int:
    return sum(self.counts)

  def rows(self, kind: int) -> slice:
    """Returns the rows of a kind of line."""
    start = sum(self.counts[:kind])
    return slice(start, start + self.counts[kind])


@dataclasses.dataclass(frozen=True, eq=False)
class LineNodes:
  """The lines of a level, on the host.

  Attributes:
    parent: `[n]` the row of the line before, in the level above; -1 at the first level of a round.
    action: `[n]` the move that led here.
    stake: `[n]` what a fold or a showdown is worth to player 0 if it wins, rake left out, in chips.
    rake: `[n]` what the house takes of a pot, in chips.
    next: `[n]` for ends of the round, the row in the first level of the next; else -1.
  """

  parent: np.ndarray
  action: np.ndarray
  stake: np.ndarray
  rake: np.ndarray
  next: np.ndarray


def betting_lines(
  game: Holdem, most: float = math.inf
) -> tuple[tuple[LineLevel, ...], tuple[LineNodes, ...]]:
  """Returns the levels of a game's lines of betting, round by round.

  Raises:
    ValueError: there are more than `most` lines.
  """
  shapes: list[LineLevel] = []
  nodes: list[LineNodes] = []
  states = game.initial_state()[None]
  closed: list[tuple[int, int]] = []
  for street in range(len(game.deals) + 1):
    parent = action = np.full(len(states), -1)
    mover, before, ends, origins = None, None, [], []
    while len(states):
      actor = np.asarray(game.actor(states))
      over = states[:, betting.STATUS] == betting.CLOSED
      kind = np.where(actor == TERMINAL, np.where(over, SHOWDOWN, FOLD), DECISION)
      kind = np.where(actor == CHANCE, CLOSED, kind)
      order = np.argsort(kind, kind="stable")
      states, kind, parent, action = states[order], kind[order], parent[order], action[order]
      if mover is None and nodes:  # which row each end of the round before has become
        stops = np.cumsum([number for _, number in closed])[:-1]
        for (index, _), rows in zip(closed, np.split(np.argsort(order), stops)):
          nodes[index].next[shapes[index].rows(CLOSED)] = rows
      counts = tuple(np.bincount(kind, minlength=4).tolist())
      runs = () if mover is None else find_runs(parent)
      level = Level(counts[DECISION], 0, len(kind) - counts[DECISION], runs, mover)
      first = (tuple(closed), tuple(order.tolist())) if mover is None else ((), ())
      shapes.append(LineLevel(street, mover, counts, level, *first))
      if sum(x.size for x in shapes) > most:
        raise ValueError(f"bets make more than {most} lines of betting; allow fewer sizes")
      scale = np.where(kind >= FOLD, np.asarray(game.rules.stakes(states)), 0.0)
      rake = game.rules.raked(2 * np.abs(scale))
      nodes.append(LineNodes(parent, action, scale, rake, np.full(len(kind), -1)))
      if counts[CLOSED]:
        ends.append(states[kind == CLOSED])
        origins.append((len(shapes) - 1, counts[CLOSED]))
      before = states[: counts[DECISION]]
      if not len(before):
        break
      mover = int(game.actor(before[:1])[0])
      assert (game.actor(before) == mover).all(), "players take turns"
      action, parent = np.nonzero(game.legal_actions(before).T)
      states = game.next_states(before[parent], action)
    closed = origins
    states = _dealt(game, np.concatenate(ends)) if ends else states[:0]
  return tuple(shapes), tuple(nodes)


def _dealt(game: Holdem, states: np.ndarray) -> np.ndarray:
  """Returns the states after a card: any, since nothing but hands depends on it."""
  burned = np.asarray(game.burns(states))
  following = game.next_states(states, np.full(len(states), game.burn))
  states = np.where(burned[:, None], following, states)
  cards = np.asarray(game.legal_deals(states)).argmax(axis=1)
  return game.next_states(states, game.first_deal + cards)
