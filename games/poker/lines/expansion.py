"""Policies on lines of betting, in the numbering of all hands and nodes."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from games.poker.lines.betting_lines import CLOSED, DECISION
from games.poker.lines.boards import NONE
from games.poker.lines.lines import LineMap, Lines
from games.public_tree import PublicTree


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a public state stands among lines, boards and hands.

  Attributes:
    level, row: its line.
    street, board: the board that stands for the state's.
    hands: `[H]` each hand as it is named on that board; -1 for those that the state's board blocks.
    cards: `[num_cards]` each card likewise.
  """

  level: int
  row: int
  street: int
  board: int
  hands: np.ndarray
  cards: np.ndarray


class Follower:
  """Places of public states of a spot among its lines, move by move."""

  def __init__(self, lines: Lines, spot: LineMap):
    self.lines, self.spot = lines, spot
    self._next = {
      (i - 1, int(parent), int(action)): (i, row)
      for i, nodes in enumerate(spot.nodes)
      if lines.levels[i].mover is not None
      for row, (parent, action) in enumerate(zip(nodes.parent, nodes.action))
    }
    self._first = [i for i, level in enumerate(lines.levels) if level.mover is None]

  def start(self) -> Place:
    """Returns the place of the first state."""
    game = self.spot.game
    hands = np.arange(game.num_infostates)
    return Place(0, 0, 0, 0, hands, np.arange(game.deck.num_cards))

  def kind(self, place: Place) -> int:
    """Returns which kind of line it is, such as `betting_lines.DECISION`."""
    counts = self.lines.levels[place.level].counts
    return int(np.searchsorted(np.cumsum(counts), place.row, "right"))

  def mover(self, place: Place) -> int | None:
    """Returns the player who decides at a place, or None."""
    decides = self.kind(place) == DECISION
    return self.lines.levels[place.level + 1].mover if decides else None

  def step(self, place: Place, move: int) -> Place:
    """Returns the place after a legal move, burn or card."""
    game = self.spot.game
    if self.kind(place) != CLOSED:
      level, row = self._next[place.level, place.row, move]
      return dataclasses.replace(place, level=level, row=row)
    if move < game.first_deal:
      return place
    own, board = self.spot.boards[place.street], place.board
    card = place.cards[move - game.first_deal]
    by, child = own.by[board, card], int(own.child[board, card])
    hands = np.where(place.hands == NONE, NONE, self.spot.moved[by][place.hands])
    street = place.street + 1
    blocked = self.spot.dead[street][child][hands]
    return Place(
      self._first[street],
      int(self.spot.nodes[place.level].next[place.row]),
      street,
      child,
      np.where(blocked, NONE, hands),
      self.spot.permutations[by][place.cards],
    )

  def follow(self, history: Sequence[int]) -> Place:
    """Returns the place after public actions of the game."""
    place = self.start()
    for move in history:
      place = self.step(place, int(move))
    return place

  def columns(self, place: Place, player: int) -> np.ndarray:
    """Returns a player's column of each hand, -1 for hands that it cannot hold there: `[H]`."""
    own = self.spot.classes[place.street][player].column[place.board]
    return np.where(place.hands == NONE, NONE, own[place.hands])


def expand_policy(
  lines: Lines, spot: LineMap, policy: Sequence[Any], tree: PublicTree
) -> np.ndarray:
  """Gives every hand the policy of its class, at every node of the tree of the same game.

  Args:
    lines, spot: from `make_lines`.
    policy: `[n, W]` for each level of lines.
    tree: the whole tree of `spot.game`.

  Returns:
    `[N, H]`. Hands that the player who moves does not hold take all moves equally often.
  """
  parent, action = np.asarray(tree.parent), np.asarray(tree.action)
  rows = [np.asarray(level) for level in policy]
  result = np.ones((tree.num_nodes, tree.num_infostates), rows[0].dtype)
  moves = np.bincount(parent[1:], minlength=tree.num_nodes)
  follower = Follower(lines, spot)
  places = [follower.start()]
  for node in range(1, tree.num_nodes):
    above = places[parent[node]]
    places.append(follower.step(above, int(action[node])))
    mover = follower.mover(above)
    if mover is not None:
      columns = follower.columns(above, mover)
      found = rows[places[node].level][places[node].row][np.maximum(columns, 0)]
      result[node] = np.where(columns == NONE, 1 / moves[parent[node]], found)
  return result
