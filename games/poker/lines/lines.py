"""A spot as arrays: lines of betting in rows, boards and hands in columns.

Lines of betting are the public tree of a game with one card for all that chance may deal. Policies
on them are expanded to the numbering of all hands and nodes.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from games.arrays import checked
from games.build import find_runs
from games.game import CHANCE, TERMINAL
from games.pairs import holds
from games.poker import betting
from games.poker.cards import shares_card
from games.poker.holdem import Holdem
from games.poker.lines.boards import (
  NONE,
  Alike,
  Boards,
  Classes,
  dealt_columns,
  enumerate_boards,
  find_alike,
  hand_classes,
  parent_columns,
  say_permutations,
)
from games.public_tree import Level, PublicTree
from games.tabulate import check_tree_of

DECISION, CLOSED, FOLD, SHOWDOWN = range(4)


@dataclasses.dataclass(frozen=True)
class LineLevel:
  """The static shape of a level: lines of as many moves in a round of betting."""

  # Decisions come first, then lines that end the round, folds and showdowns; within each those of
  # one move follow each other.

  street: int  # the round, from 0
  mover: int | None  # who moved to get here; None at the first level of a round
  counts: tuple[int, ...]  # of decisions, ends of the round, folds and showdowns
  level: Level  # the shape for sweeps, decisions as its inner nodes
  # levels (index, number) whose ends of the round before lead to a first level
  closed: tuple[tuple[int, int], ...] = ()
  order: tuple[int, ...] = ()  # at that level, which of these ends each row comes from

  @property
  def size(self) -> int:
    return sum(self.counts)

  def rows(self, kind: int) -> slice:
    """Returns the rows of a kind of line."""
    start = sum(self.counts[:kind])
    return slice(start, start + self.counts[kind])


@dataclasses.dataclass(frozen=True, eq=False)
class LineNodes:
  """The lines of a level, on the host."""

  # [n] row of the line before, in the level above; -1 at the first level of a round
  parent: np.ndarray
  action: np.ndarray  # [n] the move that led here
  # [n] worth of a fold or showdown to player 0 if it wins, without rake, in chips
  stake: np.ndarray
  next: np.ndarray  # [n] for ends of the round, the row in the first level of the next; else -1


def betting_lines(
  game: Holdem, most: float = math.inf
) -> tuple[tuple[LineLevel, ...], tuple[LineNodes, ...]]:
  """Returns the levels of a game's lines of betting, round by round; at most `most` lines."""
  shapes: list[LineLevel] = []
  nodes: list[LineNodes] = []
  states = game.initial_state()[None]
  closed: list[tuple[int, int]] = []
  for street in range(len(game.deals) + 1):
    parent = action = np.full(len(states), -1)
    mover, ends, origins = None, [], []
    while len(states):
      actor = np.asarray(game.actor(states))
      over = states[:, betting.STATUS] == betting.CLOSED
      kind = np.where(actor == TERMINAL, np.where(over, SHOWDOWN, FOLD), DECISION)
      kind = np.where(actor == CHANCE, CLOSED, kind)
      order = np.argsort(kind, kind="stable")
      columns = (actor, states, kind, parent, action)
      actor, states, kind, parent, action = (x[order] for x in columns)
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
      nodes.append(LineNodes(parent, action, scale, np.full(len(kind), -1)))
      if counts[CLOSED]:
        ends.append(states[kind == CLOSED])
        origins.append((len(shapes) - 1, counts[CLOSED]))
      before = states[: counts[DECISION]]
      if not len(before):
        break
      mover = int(actor[0])
      assert (actor[: len(before)] == mover).all(), "players take turns"
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
  cards = np.asarray(game.legal_actions(states))[:, game.first_deal :].argmax(axis=1)
  return game.next_states(states, game.first_deal + cards)


Array = Any
_STATIC = {"static": True}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Group:
  """Boards of a round with one list of classes of hands; of each player."""

  # D is 1 where all boards are alike, else the number of boards: there some hands of a class may
  # hold a card of a board.

  cards: tuple[Array, Array]  # [D, J, 2] the cards of a hand of each class
  size: tuple[Array, Array]  # [D, J] hands of each class
  holding: tuple[Array, Array]  # [D, J, C] how many hands of each class hold a card
  # [J] the other's class of the same hand; the other's J if it does not hold it
  twin: tuple[Array, Array]
  # [B, J] where all cards lie, -1 for hands that the board blocks
  strength: tuple[Array, Array] | None
  boards: int = dataclasses.field(metadata=_STATIC)
  plain: bool = dataclasses.field(metadata=_STATIC)  # every class is one hand
  same: bool = dataclasses.field(metadata=_STATIC)  # both have the same classes

  def width(self, player: int) -> int:
    """Returns how many columns a board has."""
    return self.twin[player].shape[0]

  @property
  def alone(self) -> bool:
    """Whether classes are of other hands on each board."""
    return self.size[0].shape[0] > 1


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Street:
  """A round of betting; of each player."""

  # [W] in a column's hand at the start; 0 where it holds a card of the board
  belief: tuple[Array, Array]
  parent: tuple[Array, Array] | None  # [W] the column of the round before that each comes from
  # [W before, M] the columns here that a column comes to, by card; W fills up
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
    alike: cards and hands that may change places.
    nodes: the lines of each level.
    boards: of each round.
    classes: each player's on each round.
  """

  game: Holdem
  alike: Alike
  nodes: tuple[LineNodes, ...]
  boards: tuple[Boards, ...]
  classes: tuple[tuple[Classes, Classes], ...]

  def sentence(self) -> str:
    """Says which suits are alike."""
    if self.alike.hands is not None:
      return "Cards of a rank in suits without a flush are alike: of hands of such there is one."
    return say_permutations(self.game, self.alike.permutations)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lines:
  """A spot of hold'em for solvers: rows are lines of betting, columns boards and hands.

  Each player has columns of its own, for the hands of its range alone. Of cards and of hands that
  suits which may change places (`suit_permutations`) take to each other, one stands for all.

  Attributes:
    stakes: for each level, `[folds]` and `[showdowns]` what a line is worth to player 0 if it wins,
      times the probability of the cards dealt.
    rakes: likewise what the house takes; None for nothing.
    streets: the rounds.
    levels: static shapes.
  """

  stakes: tuple[tuple[Array, Array], ...]
  rakes: tuple[tuple[Array, Array], ...] | None
  streets: tuple[Street, ...]
  levels: tuple[LineLevel, ...] = dataclasses.field(metadata=_STATIC)

  @property
  def dtype(self) -> Any:
    return self.streets[0].belief[0].dtype

  @property
  def shapes(self) -> list[tuple[int, int]]:
    """The shape of an array kept by level, in the columns of who moved."""
    return [(x.size, self.streets[x.street].width(x.mover or 0)) for x in self.levels]

  @property
  def num_nodes(self) -> int:
    """The number of lines."""
    return sum(level.size for level in self.levels)


@checked
def make_lines(game: Holdem, apart: np.ndarray | None = None) -> tuple[Lines, LineMap]:
  """Writes a spot out as lines of betting, and returns what they stand for.

  Args:
    game: hold'em of which cards are dealt one by one, without bets that `with_bet` added.
    apart: `[n, H]` hands that are told from others by more than beliefs, such as by a lock.

  Raises:
    ValueError: the game is of another kind.
  """
  if any(k != 1 for k in game.deals):
    raise ValueError(f"game={game!r} must be hold'em whose cards to come are dealt one by one")
  if game.parameters()["added_bets"] or game.every_hand:
    raise ValueError(f"game={game!r} must have no added bets and no fresh boards")
  rows = np.asarray(game.prior(), float)
  shapes, nodes = betting_lines(game)
  alike = find_alike(game, rows if apart is None else np.concatenate([rows, apart]))
  boards = enumerate_boards(game, alike)
  classes: Any = [tuple(hand_classes(game, row > 0, own, alike) for row in rows) for own in boards]
  streets: list[Street] = []
  for number, (own, both) in enumerate(zip(boards, classes)):
    shown = number == len(game.deals)
    strengths = game.dealing.strengths_on(game.hole_cards, own.cards) if shown else None
    belief: Any = tuple(
      np.where(hands.hand == NONE, 0.0, row[hands.hand]) for hands, row in zip(both, rows)
    )
    groups = tuple(
      _group(game, both, alike, i, first, last, strengths)
      for i, (first, last) in enumerate(own.groups)
    )
    parent: Any = None  # columns of the round before
    children: Any = None  # columns here that those of the round before come to
    if number:
      above, before = boards[number - 1], classes[number - 1]
      children = tuple(dealt_columns(above, before[p], both[p], alike.moved) for p in (0, 1))
      parent = tuple(parent_columns(children[p], len(both[p].hand)) for p in (0, 1))
    streets.append(Street(belief, parent, children, groups))
  chance = np.cumprod([1.0, *game.dealing.probability(np.arange(len(game.deals)))])

  def ends(chips: list[np.ndarray]) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    worth = [own * chance[level.street] for own, level in zip(chips, shapes)]
    return tuple((x[y.rows(FOLD)], x[y.rows(SHOWDOWN)]) for x, y in zip(worth, shapes))

  rakes = ends([game.rules.raked(2 * np.abs(x.stake)) for x in nodes]) if game.rules.rake else None
  lines = Lines(ends([x.stake for x in nodes]), rakes, tuple(streets), shapes)
  dtype = jax.dtypes.canonicalize_dtype(float)
  lines = jax.tree.map(lambda x: x.astype(dtype if x.dtype.kind == "f" else np.int32), lines)
  return lines, LineMap(game, alike, nodes, tuple(boards), tuple(classes))


def _group(game, classes, alike, number, first, last, strengths) -> Group:
  held = holds(game.hole_cards, game.deck.num_cards)  # [H, C]
  hands = [own.lists[number] for own in classes]

  def side(p: int) -> tuple[Any, ...]:
    """Returns a player's `cards`, `size`, `holding` and `twin`, and `strength`."""
    width, other = len(hands[p]), hands[1 - p]
    column, starts = classes[p].column[first:last], classes[p].starts[first:last]
    place = np.where(column == NONE, NONE, column - starts[:, None])
    named = classes[p].hand[starts[:, None] + np.arange(width)]
    strength = None
    if strengths is not None:
      found = np.take_along_axis(strengths[first:last], np.maximum(named, 0), axis=1)
      strength = np.where(named == NONE, -1, found)
    if alike.hands is None:  # a board leaves all hands of a class, or none
      place, named = place.max(axis=0)[None], named.max(axis=0)[None]
    table = np.zeros((len(place), width, held.shape[1]))
    row, hand = np.nonzero(place != NONE)
    np.add.at(table, (row, place[row, hand]), held[hand])
    found = np.minimum(np.searchsorted(other, hands[p]), len(other) - 1)
    twin = np.where(other[found] == hands[p], found, len(other))
    return game.hole_cards[named], table.sum(axis=2) / 2, table, twin, strength

  cards, size, holding, twin, strength = zip(side(0), side(1))
  shown = None if strengths is None else strength
  plain = bool(all((x <= 1).all() for x in size))
  same = len(hands[0]) == len(hands[1]) and bool((hands[0] == hands[1]).all())
  return Group(cards, size, holding, twin, shown, last - first, plain, same)


@dataclasses.dataclass(frozen=True)
class Place:
  """Where a public state stands among lines, boards and hands."""

  level: int  # of its line
  row: int  # of its line
  street: int  # of the board that stands for the state's
  board: int
  # [H] each hand as named on that board; -1 for those that the state's board blocks
  hands: np.ndarray
  cards: np.ndarray  # [num_cards] each card likewise


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
    return Place(0, 0, 0, 0, np.arange(game.num_infostates), np.arange(game.deck.num_cards))

  def kind(self, place: Place) -> int:
    """Returns which kind of line it is, such as `DECISION`."""
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
    hands = np.where(place.hands == NONE, NONE, self.spot.alike.moved[by][place.hands])
    street = place.street + 1
    blocked = shares_card(game.hole_cards, self.spot.boards[street].cards[child][None])[hands, 0]
    return Place(
      self._first[street],
      int(self.spot.nodes[place.level].next[place.row]),
      street,
      child,
      np.where(blocked, NONE, hands),
      self.spot.alike.permutations[by][place.cards],
    )

  @checked
  def follow(self, history: Sequence[int]) -> Place:
    """Returns the place after public actions of the game."""
    place = self.start()
    self.spot.game.state_after(history, field="history")
    for move in history:
      place = self.step(place, int(move))
    return place

  def columns(self, place: Place, player: int) -> np.ndarray:
    """Returns a player's column of each hand, -1 for hands that it cannot hold there: `[H]`."""
    own = self.spot.classes[place.street][player].column[place.board]
    return np.where(place.hands == NONE, NONE, own[place.hands])


@checked
def expand_policy(
  lines: Lines, spot: LineMap, policy: Sequence[np.ndarray | jax.Array], tree: PublicTree
) -> np.ndarray:
  """Gives every hand the policy of its class, at every node of the tree of the same game.

  Args:
    lines, spot: from `make_lines`.
    policy: `[n, W]` for each level of lines.
    tree: the whole tree of `spot.game`.

  Returns:
    `[N, H]`. Hands that the player who moves does not hold take all moves equally often.
  """
  check_tree_of(spot.game, tree)
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
