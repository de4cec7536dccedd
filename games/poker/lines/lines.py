"""A spot as arrays: lines of betting in rows, boards and hands in columns."""

import dataclasses
from typing import Any

import jax
import numpy as np

from games.arrays import check_rows
from games.card_removal import holds
from games.poker.hands import strengths_on
from games.poker.holdem import Holdem
from games.poker.lines.betting_lines import FOLD, SHOWDOWN, LineLevel, LineNodes, betting_lines
from games.poker.lines.boards import (
  NONE,
  Boards,
  Classes,
  dealt_columns,
  enumerate_boards,
  group_boards,
  hand_classes,
  moved_hands,
  parent_columns,
)
from games.poker.lines.symmetry import say_permutations, suit_permutations

Array = Any
_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Group:
  """Boards of a round with as many columns each, and both players' hands there.

  Attributes:
    cards: `[B, J, 2]` for each player, the cards of each column's hand; -1 in columns that fill up.
    strength: `[B, J]` for each player, where all cards lie; else None.
    size: `[B, J]` for each player, hands of each class; 0 in columns that fill up.
    member: `[B, C, M]` for each player, the columns of a board of the hands that hold each card, in
      order of strength; J fills up.
    place: `[B, 2, J]` for each player, where each column's hand stands among the hands that hold its
      first and its second card, as `card * M + place`.
    twin: `[B, J]` for each player, the other's column of the same hand; the other's J if none.
    plain: for each player, whether every column is one hand; static.
  """

  cards: tuple[Array, Array]
  strength: tuple[Array, Array] | None
  size: tuple[Array, Array]
  member: tuple[Array, Array]
  place: tuple[Array, Array]
  twin: tuple[Array, Array]
  plain: tuple[bool, bool] = dataclasses.field(metadata=_STATIC)

  @property
  def num_boards(self) -> int:
    return self.size[0].shape[0]

  def width(self, player: int) -> int:
    """Returns how many columns a board has."""
    return self.size[player].shape[1]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Street:
  """A round of betting.

  Attributes:
    belief: `[W]` for each player, the belief in a column's hand at the start; 0 if it fills up.
    parent: `[W]` for each player, the column of the round before that a column comes from.
    children: `[W of the round before, M]` for each player, the columns here that a column comes to,
      one for each card; `W` fills up.
    groups: the boards.
  """

  belief: tuple[Array, Array]
  parent: tuple[Array, Array] | None
  children: tuple[Array, Array] | None
  groups: tuple[Group, ...]

  def width(self, player: int) -> int:
    """Returns a player's number of columns."""
    return self.belief[player].shape[0]


@dataclasses.dataclass(frozen=True, eq=False)
class LineMap:
  """Which hands, boards and moves rows and columns stand for, on the host.

  Attributes:
    game: the rules.
    permutations: `[G, num_cards]` of suits that change nothing.
    moved: `[G, H]` the hand that each hand becomes.
    nodes: the lines of each level.
    boards: of each round.
    classes: each player's on each round.
  """

  game: Holdem
  permutations: np.ndarray
  moved: np.ndarray
  nodes: tuple[LineNodes, ...]
  boards: tuple[Boards, ...]
  classes: tuple[tuple[Classes, Classes], ...]

  def sentence(self) -> str:
    """Says which suits are alike."""
    return say_permutations(self.game, self.permutations)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lines:
  """A spot of hold'em for solvers: rows are lines of betting, columns boards and hands.

  Each player has columns of its own, for the hands of its range alone. Suits that may change places
  are found (`suit_permutations`); of cards and of hands that they take to each other there is one.

  Attributes:
    stakes: for each level, `[folds]` and `[showdowns]` what a line is worth to player 0 if it wins,
      times the probability of the cards dealt.
    streets: the rounds.
    levels: static shapes.
  """

  stakes: tuple[tuple[Array, Array], ...]
  streets: tuple[Street, ...]
  levels: tuple[LineLevel, ...] = dataclasses.field(metadata=_STATIC)

  @property
  def dtype(self) -> Any:
    return self.streets[0].belief[0].dtype

  @property
  def num_nodes(self) -> int:
    """The number of lines."""
    return sum(level.size for level in self.levels)


def make_lines(
  game: Holdem, beliefs: Array | None = None, *, permutations: np.ndarray | None = None
) -> tuple[Lines, LineMap]:
  """Writes a spot out as lines of betting, and returns what they stand for.

  Args:
    game: hold'em of which cards are dealt one by one, without bets that `with_bet` added.
    beliefs: `[P, H]` at the start, rows sum to one; None for `game.prior()`.
    permutations: `[G, num_cards]` of suits that change nothing, the identity first; None for all.

  Raises:
    ValueError: the game is of another kind.
  """
  if not isinstance(game, Holdem) or any(k != 1 for k in game.deals):
    raise ValueError(f"game={game!r} must be hold'em whose cards to come are dealt one by one")
  if game.parameters()["added_bets"] or game.every_hand:
    raise ValueError(f"game={game!r} must have no added bets and no fresh boards")
  rows = np.asarray(game.prior() if beliefs is None else beliefs, float)
  check_rows("beliefs", rows, (2, game.num_infostates), "(P, H)")
  shapes, nodes = betting_lines(game)
  permutations = suit_permutations(game, rows) if permutations is None else permutations
  moved = moved_hands(game, permutations)
  boards = enumerate_boards(game, permutations)
  streets, classes = [], []
  for number, own in enumerate(boards):
    strengths = None
    if number == len(game.deals):
      hands = np.asarray(game.hole_cards)
      shown = [np.array([*game.board, *dealt], int) for dealt in own.cards]
      strengths = np.stack([strengths_on(game.deck, hands, board) for board in shown])
    both = tuple(hand_classes(game, row > 0, own, moved, strengths) for row in rows)
    before = None if not classes else (boards[number - 1], classes[-1])
    streets.append(_street(game, rows, own, both, before, moved, strengths))
    classes.append(both)
  left = game.deck.num_cards - len(game.board) - 4
  chance = np.cumprod([1.0, *(1 / (left - k) for k in range(len(game.deals)))])
  stakes = []
  for level, lines in zip(shapes, nodes):
    worth = lines.stake * chance[level.street]
    stakes.append((worth[level.rows(FOLD)], worth[level.rows(SHOWDOWN)]))
  lines = Lines(tuple(stakes), tuple(streets), shapes)
  dtype = jax.dtypes.canonicalize_dtype(float)
  lines = jax.tree.map(lambda x: x.astype(dtype if x.dtype.kind == "f" else np.int32), lines)
  return lines, LineMap(game, permutations, moved, nodes, tuple(boards), tuple(classes))


def _street(game, rows, boards, classes, before, moved, strengths) -> Street:
  belief = tuple(
    np.where(own.hand == NONE, 0.0, row[own.hand]) for own, row in zip(classes, rows)
  )
  parent = children = None
  if before is not None:
    above, of_above = before
    found = [parent_columns(game, above, of_above[p], classes[p]) for p in (0, 1)]
    parent = tuple(np.maximum(x, 0) for x in found)
    children = tuple(dealt_columns(above, of_above[p], classes[p], moved) for p in (0, 1))
  groups = tuple(
    _group(game, boards, classes, first, last, strengths) for first, last in group_boards(boards)
  )
  return Street(belief, parent, children, groups)


def _group(game, boards, classes, first, last, strengths) -> Group:
  number = last - first
  hands, sizes, cards, strength, members, places, twins = [], [], [], [], [], [], []
  for own in classes:
    ends = [*own.starts, len(own.hand)]
    part = slice(ends[first], ends[last])
    hands.append(own.hand[part].reshape(number, -1))
    sizes.append(own.size[part].reshape(number, -1))
    cards.append(np.where(hands[-1][..., None] == NONE, NONE, game.hole_cards[hands[-1]]))
    if strengths is not None:
      found = np.take_along_axis(strengths[first:last], np.maximum(hands[-1], 0), axis=1)
      strength.append(np.where(hands[-1] == NONE, NONE, found))
  for p, own in enumerate(classes):
    width = sizes[p].shape[1]
    other, others = classes[1 - p], sizes[1 - p].shape[1]
    twin = np.take_along_axis(other.column[first:last], np.maximum(hands[p], 0), axis=1)
    twin = np.where((twin == NONE) | (hands[p] == NONE), others, twin - other.starts[first:last, None])
    twins.append(twin)
    member, place = _by_card(game, own, first, last, hands[p], width)
    members.append(member)
    places.append(place)
  return Group(
    tuple(cards),
    tuple(strength) if strength else None,
    tuple(x.astype(float) for x in sizes),
    tuple(members),
    tuple(places),
    tuple(twins),
    tuple(bool((x == 1).all()) for x in sizes),
  )


def _by_card(game, own: Classes, first: int, last: int, hands: np.ndarray, width: int):
  """Returns `Group.member` and `Group.place` of one player."""
  num_cards = game.deck.num_cards
  held = holds(game.hole_cards, num_cards, bool)  # [H, C]
  lists = []
  for b in range(first, last):
    column = own.column[b]
    live = np.flatnonzero(column != NONE)
    live = live[np.argsort(column[live], kind="stable")]  # of strength, where columns are
    lists.append([live[held[live, card]] for card in range(num_cards)])
  most = max(1, max(len(x) for board in lists for x in board))
  member = np.full((last - first, num_cards, most), width)
  place = np.zeros((last - first, 2, width), int)
  for i, board in enumerate(lists):
    start = own.starts[first + i]
    where = np.zeros((num_cards, len(held)), int)
    for card, members in enumerate(board):
      member[i, card, : len(members)] = own.column[first + i, members] - start
      where[card, members] = np.arange(len(members))
    there = hands[i] != NONE
    two = game.hole_cards[hands[i][there]]
    for k in (0, 1):
      place[i, k, there] = two[:, k] * most + where[two[:, k], hands[i][there]]
  return member, place
