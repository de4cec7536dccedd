"""Policy and values of every hand of a solved spot at any node."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.arguments import checked
from games.pairs import compatible_mass, holds
from games.poker import betting
from games.poker.cards import shares_card
from games.poker.lines import Lines, round_up
from games.poker.lines.boards import NONE
from rebel_jax.spots.solved import Node, SolvedSpot
from solvers.sweeps import (
  Levels,
  LinesProblem,
  Part,
  PartedProblem,
  make_lines_problem,
  make_parted_problem,
)
from solvers.xla import Programs


class _Values(NamedTuple):
  """Reach and values of both players at some levels of lines, in some columns.

  Attributes:
    reach: for each player and level `[n, J]`, the belief in a hand at the start times its own
      moves; of one hand of each class.
    values: likewise counterfactual values: the other's reach and the probability of the cards times
      chips.
    first: which level is the first of them.
    board: for each player the column where the board begins; None where columns are those of all
      boards.
  """

  reach: tuple[Levels, Levels]
  values: tuple[Levels, Levels]
  first: int = 0
  board: tuple[int, int] | None = None


def _values_on(lines: Lines, policy: Sequence[Any], street: int, board: int) -> _Values:
  """Returns the values of a policy, `[n, W]` for each level, on a board of a street."""
  levels = tuple(jnp.asarray(level) for level in policy)
  last = len(lines.streets) - 1
  if last == 0:
    return _Values(*jax.tree.map(np.asarray, _one_round(*_rounded(lines, policy))))
  problem = _prepare(lines)
  first = len(levels) - len(problem.levels)
  rows, number, place = _cut(problem, levels[first:]), 0, board
  while street == last and place >= problem.parts[number].boards:
    number, place = number + 1, place - problem.parts[number].boards
  part = problem.parts[number]
  chunk, inside = divmod(place, part.num_boards) if street == last else (0, 0)
  top, below = _in_parts(problem, levels[:first], rows, number, chunk)
  if street < last:
    return _Values(*jax.tree.map(np.asarray, top))
  starts = inside * part.group.width(0), inside * part.group.width(1)
  return _Values._make([*jax.tree.map(np.asarray, below), first, starts])


def _rounded(lines: Lines, policy: Sequence[Any]) -> tuple[Lines, Any]:
  """Returns a river's lines and policy with columns added at the end, as `round_up` does."""
  wide = round_up(lines)[0]
  spare = [wide.streets[0].width(p) - lines.streets[0].width(p) for p in (0, 1)]
  pairs = zip(lines.levels, policy)
  return wide, tuple(np.pad(x, ((0, 0), (0, spare[own.mover or 0]))) for own, x in pairs)


@Programs
def _one_round(lines: Lines, policy: Levels) -> Any:
  problem = make_lines_problem(lines)
  reach = problem.both_reach(policy)
  return reach, tuple(problem.values_up(policy, reach[1 - p], None, p).nodes for p in (0, 1))


_prepare = Programs(make_parted_problem)


def _cut(problem: PartedProblem, policy: Levels) -> tuple[Levels, ...]:
  """Returns the last round's policy part by part: `[K, n, W]` for each level."""
  parts, start = [], [0, 0]
  for part in problem.parts:
    rows = []
    for level, own in zip(problem.levels, policy):
      p = level.mover or 0
      width = part.belief[p].shape[1] * part.num_chunks
      mine = own[:, start[p] : start[p] + part.boards * part.group.width(p)]
      filled = jnp.pad(mine, ((0, 0), (0, width - mine.shape[1])))
      rows.append(jnp.moveaxis(filled.reshape(len(mine), part.num_chunks, -1), 1, 0))
    parts.append(tuple(rows))
    start = [start[p] + part.boards * part.group.width(p) for p in (0, 1)]
  return tuple(parts)


@functools.partial(Programs, static_argnames="number")
def _in_parts(
  problem: PartedProblem, policy: Levels, rows: tuple[Levels, ...], number: int, index: Any
) -> Any:
  """Returns reach and values of the rounds before, and of a chunk of a part."""
  reach = problem.top.both_reach(policy)
  arrivals = [problem.arrivals(own) for own in reach]

  def sweep(part: Part, own: Levels, i: Any, player: int) -> tuple[Levels, Levels]:
    chunk: LinesProblem = problem.chunk(part, i)
    levels = tuple(level[i] for level in own)
    start = problem.deal(part, i, arrivals[1 - player], 1 - player)
    other = chunk.own_reach(levels, 1 - player, start)
    return other, chunk.values_up(levels, other, None, player).nodes

  values, below = [], []
  for player in (0, 1):
    collected = [
      jax.lax.map(
        lambda i, part=part, own=own, player=player: sweep(part, own, i, player)[1][0].T,
        jnp.arange(part.num_chunks),
      )
      for part, own in zip(problem.parts, rows)
    ]
    leaves = problem.collect(collected, player)
    values.append(problem.top.values_up(policy, reach[1 - player], leaves, player).nodes)
    below.append(sweep(problem.parts[number], rows[number], index, player))
  last = (below[1][0], below[0][0]), (below[0][1], below[1][1])
  return (reach, tuple(values)), last


class HandTable(NamedTuple):
  """Every hand at a node, of both players.

  Attributes:
    reach: `[P, H]` each player's range there, rows sum to one; zeros if a player never comes there.
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

  def mean(self, values: np.ndarray) -> np.ndarray:
    """Returns the mean of `ev` or `equity` over each player's range: `[P]`.

    Hands count by how often both players hold what they hold, so shared cards are left out.
    """
    joint = self.reach * self.mass
    total = joint.sum(axis=1)
    return np.where(joint > 0, joint * values, 0).sum(axis=1) / np.where(total > 0, total, 1)


@checked
def hand_table(solved: SolvedSpot, node: Node = ()) -> HandTable:
  """Returns the policy and the values of every hand at a node of a solved spot."""
  game, follower = solved.game, solved.follower
  place = follower.follow(node)
  found = _values_on(solved.lines, solved.policy, place.street, place.board)
  columns = [follower.columns(place, p) for p in (0, 1)]
  starts = [0, 0]
  if found.board is not None:
    own = solved.columns.classes[place.street]
    starts = [own[p].starts[place.board] - found.board[p] for p in (0, 1)]

  def of_hands(levels, player: int, at) -> np.ndarray:
    own = np.where(columns[player] == NONE, 0, columns[player] - starts[player])
    return np.where(columns[player] == NONE, 0.0, levels[at.level - found.first][at.row][own])

  reach = np.stack([of_hands(found.reach[p], p, place) for p in (0, 1)])
  mass = compatible_mass(reach[::-1], holds(game.hole_cards, game.deck.num_cards))
  mass = np.where(place.hands == NONE, 0.0, np.maximum(mass, 0.0))
  # Values hold the probability of the cards dealt as well.
  left = game.deck.num_cards - len(game.board) - 4
  scale = mass / np.prod([left - k for k in range(place.street)])
  state = solved.state(node)
  paid = state[[betting.PAID_0, betting.PAID_1]] + game.rules.dead / 2
  there = scale > 1e-12 * scale.max()

  def chips(at, player: int) -> np.ndarray:
    values = of_hands(found.values[player], player, at)
    held = there[player] & (columns[player] != NONE)
    return np.where(held, values / np.where(held, scale[player], 1), np.nan) + paid[player]

  mover = follower.mover(place)
  below = [] if mover is None else list(solved.children(node).values())
  children = [follower.step(place, child[-1]) for child in below]
  total = reach.sum(axis=1, keepdims=True)
  ranges = reach / np.where(total > 0, total, 1)
  nothing = np.zeros((0, game.num_infostates))
  frequency, move_ev = nothing, nothing
  if mover is not None:
    rows = [solved.policy[x.level][x.row][np.maximum(columns[mover], 0)] for x in children]
    frequency = np.where(columns[mover] == NONE, 1 / len(children), np.stack(rows))
    move_ev = np.stack([chips(x, mover) for x in children])
  ev = np.stack([chips(place, p) for p in (0, 1)])
  return HandTable(ranges, ev, _equity(solved, node, ranges), frequency, move_ev, mass)


def _equity(solved: SolvedSpot, node: Node, ranges: np.ndarray) -> np.ndarray:
  game = solved.game
  dealt = [card for card in game.dealt(solved.state(node)[None])[0].tolist() if card >= 0]
  boards = [k for k, cards in enumerate(game.dealing.final) if set(dealt) <= set(cards.tolist())]
  apart = (~shares_card(game.hole_cards, game.hole_cards)).astype(np.float32)
  won, held = np.zeros((2, *ranges.shape))
  for strength in game.strengths()[boards]:
    live = strength >= 0
    better = (np.sign(strength[:, None] - strength[None]) + 1) / 2 * apart
    for p in (0, 1):
      other = ranges[1 - p] * live
      won[p] += live * (better @ other)
      held[p] += live * (apart @ other)
  return np.where(held > 1e-12, won / np.where(held > 1e-12, held, 1), np.nan)
