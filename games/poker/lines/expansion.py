"""Policies on lines of betting, in the numbering of all hands and nodes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from games.game import CHANCE
from games.poker.lines.boards import NONE
from games.poker.lines.lines import LineMap, Lines
from games.public_tree import PublicTree


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
  game = spot.game
  kind, parent = np.asarray(tree.kind), np.asarray(tree.parent)
  action = np.asarray(tree.action)
  rows = [np.asarray(level) for level in policy]
  result = np.ones((tree.num_nodes, tree.num_infostates), rows[0].dtype)
  following = _moves(lines, spot)
  street_level = [i for i, level in enumerate(lines.levels) if level.mover is None]
  index = np.zeros(tree.num_nodes, int)  # where each node's line is: level, row
  row = np.zeros(tree.num_nodes, int)
  board = np.zeros(tree.num_nodes, int)
  street = np.zeros(tree.num_nodes, int)
  # Hand h at a node plays as hand `place[h]` on the board that stands for the node's.
  place: list[np.ndarray] = [np.arange(tree.num_infostates)] * tree.num_nodes
  cards = [np.arange(game.deck.num_cards)] * tree.num_nodes
  moves = np.bincount(parent[1:], minlength=tree.num_nodes)
  for node in range(1, tree.num_nodes):
    above, move = parent[node], int(action[node])
    index[node], row[node], street[node] = index[above], row[above], street[above]
    board[node], place[node], cards[node] = board[above], place[above], cards[above]
    mover = int(kind[above])
    if mover == CHANCE:
      if move < game.first_deal:
        continue
      own = spot.boards[street[above]]
      card = cards[above][move - game.first_deal]
      by = own.by[board[above], card]
      board[node] = own.child[board[above], card]
      place[node] = np.where(place[above] == NONE, NONE, spot.moved[by][place[above]])
      cards[node] = spot.permutations[by][cards[above]]
      street[node] += 1
      row[node] = spot.nodes[index[above]].next[row[above]]
      index[node] = street_level[street[node]]
      continue
    index[node], row[node] = following[index[above], row[above], move]
    column = spot.classes[street[node]][mover].column[board[node]][place[node]]
    held = (column != NONE) & (place[node] != NONE)
    found = rows[index[node]][row[node]][np.maximum(column, 0)]
    result[node] = np.where(held, found, 1 / moves[above])
  return result


def _moves(lines: Lines, spot: LineMap) -> dict[tuple[int, int, int], tuple[int, int]]:
  """Returns the line (level, row) after each line and move."""
  found = {}
  for i, nodes in enumerate(spot.nodes):
    if lines.levels[i].mover is None:
      continue
    for row, (parent, action) in enumerate(zip(nodes.parent.tolist(), nodes.action.tolist())):
      found[i - 1, parent, action] = (i, row)
  return found
