"""What every hand of a solved spot does, and is worth, at any node."""

from typing import NamedTuple

import numpy as np

from games.card_removal import compatible_mass, holds
from games.poker import betting
from games.poker.cards import shares_card
from games.poker.lines.boards import NONE
from rebel_jax.spots.solved import Node, SolvedSpot
from solvers.metrics.line_values import board_values


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
    """Returns what each player's range has on average of `ev` or `equity`: `[P]`.

    Hands count by how often both players hold what they hold, so shared cards are left out.
    """
    joint = self.reach * self.mass
    total = joint.sum(axis=1)
    return np.where(joint > 0, joint * values, 0).sum(axis=1) / np.where(total > 0, total, 1)


def hand_table(solved: SolvedSpot, node: Node = ()) -> HandTable:
  """Returns what every hand does, and is worth, at a node of a solved spot."""
  game, follower = solved.game, solved.follower
  place = follower.follow(node)
  first = next(i for i, x in enumerate(solved.lines.levels) if x.street == place.street)
  found = board_values(solved.lines, solved.policy, street=place.street, board=place.board)
  columns = [follower.columns(place, p) for p in (0, 1)]
  starts = [solved.columns.classes[place.street][p].starts[place.board] for p in (0, 1)]

  def of_hands(levels, player: int, at) -> np.ndarray:
    own = np.where(columns[player] == NONE, 0, columns[player] - starts[player])
    return np.where(columns[player] == NONE, 0.0, levels[at.level - first][at.row][own])

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
