"""The problem of a spot of hold'em: lines of betting in rows, boards and hands in columns."""
# Each player's policies, reach and values have columns of the hands it holds. A deal is a change
# of columns. Reach counts the belief in a hand at the start.

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.poker.lines.lines import CLOSED, FOLD, SHOWDOWN, Lines, Street
from solvers.sweeps import showdowns
from solvers.sweeps.levels import Levels, take_rows
from solvers.sweeps.lines.ends import Ends, end_values, fold_values, form_of, make_ends
from solvers.sweeps.problem import Lock, Problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LinesProblem(Problem):
  """The problem of lines of betting.

  Rows of a level are its lines; `[n, W]` below, W being the columns of the player in question.

  Attributes:
    lines: of betting.
    ends: for each street and group of boards, folds and showdowns.
    floor: bounds on players' policies, `[n, 1]` or `[n, W]`, or None.
  """

  lines: Lines
  ends: tuple[tuple[Ends, ...], ...]
  floor: Lock | None = None

  hides = False

  @property
  def shapes(self):
    return self.lines.shapes

  @property
  def dtype(self):
    return self.lines.dtype

  @property
  def num_infostates(self):
    return max(self.lines.streets[0].width(p) for p in (0, 1))

  @property
  def zero_sum(self):
    return self.lines.rakes is None

  def join(self, levels):
    return levels

  def _open(self) -> list[int]:
    """Returns the levels of the last round whose lines go on to a round that is not here."""
    last = self.lines.levels[-1].street
    return [i for i, x in enumerate(self.lines.levels) if x.street == last and x.counts[CLOSED]]

  def open_rows(self, rows: Levels, order: Any) -> jax.Array:
    """Returns the rows of lines that leave this problem, in the order of the round below."""
    ends = [rows[i][self.lines.levels[i].rows(CLOSED)] for i in self._open()]
    return take_rows(jnp.concatenate(ends), np.asarray(order))

  @property
  def root_mass(self):
    reach = [self.root_beliefs(p)[None] for p in (0, 1)]
    return jnp.stack([self._pad(self._ends(0, reach[1 - p], p, fold_values)[0]) for p in (0, 1)])

  def payoff_bound(self, index):
    street, rows = self.lines.levels[index].street, zip(self.lines.levels, self.lines.stakes)
    chips = [x for level, own in rows if level.street >= street for x in own if x.size]
    return jnp.stack([jnp.abs(x).max() for x in chips]).max()

  def with_nature(self, index, own, player):
    return own  # it counts the belief, and stakes the cards

  def root_beliefs(self, player):
    return jnp.asarray(self.lines.streets[0].belief[player])

  def root_hands(self, player):
    (group,) = self.lines.streets[0].groups
    return self._pad(self.root_beliefs(player) * jnp.asarray(group.size[player])[0])

  def moves_at(self, index, player):
    return self.lines.levels[index].mover == player

  # Down.

  def own_reach(self, policy, player, root=None):
    reach: list[jax.Array] = []
    for i, level in enumerate(self.lines.levels):
      if i == 0:
        below = self.root_beliefs(player)[None] if root is None else jnp.atleast_2d(root)
      elif level.mover is None:
        ends = [reach[k][self.lines.levels[k].rows(CLOSED)] for k, _ in level.closed]
        rows = take_rows(jnp.concatenate(ends), np.asarray(level.order))
        below = self._deal(rows, level.street, player)
      else:
        below = self.from_parents(i, player, reach[-1])
        if level.mover == player:
          below = below * policy[i]
      reach.append(below)
    return tuple(reach)

  def _deal(self, rows: jax.Array, street: int, player: int) -> jax.Array:
    """Returns reach before a deal `[n, W above]` in the columns after it."""
    parent = self.lines.streets[street].parent
    assert parent is not None
    live = jnp.asarray(self.lines.streets[street].belief[player]) > 0
    dealt = rows.at[:, jnp.asarray(parent[player])].get(mode="promise_in_bounds")
    return jnp.where(live[None], dealt, 0.0)

  # Up.

  def values_up(self, policy, opponent_reach, leaf_values, player):
    """As `Problem.values_up`; leaf values are of the lines that leave, `[n, W]` by level."""
    sweep = super().values_up(policy, opponent_reach, leaf_values, player)
    return sweep._replace(root=self._pad(sweep.root))

  def _rise(self, index, values, policy, player, outer):
    level = self.lines.levels[index]
    if level.mover is not None:
      return super()._rise(index, values, policy, player, outer)
    above = undeal(self.lines.streets[level.street], showdowns.settle(values.T), player)
    _fill(outer, take_rows(above, np.argsort(level.order)), level.closed)
    return None

  def _held_best(self, index, player, values):
    """As `Problem._held_best`; every row is there, so that one that is not finite shows."""
    if self.floor is None:
      return self._answer(index, player, values)
    return super()._held_best(index, player, values)

  def _pad(self, row: jax.Array) -> jax.Array:
    return jnp.pad(row, (0, self.num_infostates - len(row)))

  def _outer_values(self, opponent_reach, leaf_values, player):
    """Returns the values of each level's lines that are closed, folds and showdowns."""
    levels, reach, sign = self.lines.levels, opponent_reach, 1.0 if player == 0 else -1.0
    found: list[list[jax.Array | None]] = [[None, None, None] for _ in levels]
    if leaf_values is not None:
      _fill(found, leaf_values, [(i, levels[i].counts[CLOSED]) for i in self._open()])
    for street in range(len(self.lines.streets)):
      here = [i for i, x in enumerate(levels) if x.street == street]
      ends = [(i, kind) for kind in (FOLD, SHOWDOWN) for i in here if levels[i].counts[kind]]
      if not ends:
        continue
      # A fold's stake is player 0's, a showdown's is the winner's.
      stakes, rakes = self.lines.stakes, self.lines.rakes
      folds, shows = sign * _chips(stakes, ends, FOLD), _chips(stakes, ends, SHOWDOWN)
      if rakes is not None:
        folds = folds - jnp.where(folds > 0, _chips(rakes, ends, FOLD), 0.0)
        # Half of it is taken from all pots, half more of those won and less of those lost.
        half = _chips(rakes, ends, SHOWDOWN) / 2
        shows, folds = shows - half, jnp.concatenate([folds, -half])
      rows = jnp.concatenate([reach[i][levels[i].rows(kind)] for i, kind in ends])
      values = functools.partial(end_values, shows=shows, folds=folds)
      result = self._ends(street, rows, player, values)
      stops = np.cumsum([levels[i].counts[kind] for i, kind in ends])[:-1]
      for (i, kind), part in zip(ends, jnp.split(result, stops)):
        found[i][kind - CLOSED] = part
    return found

  def _ends(self, street: int, reach: jax.Array, player: int, values: Any) -> jax.Array:
    """Returns the values of terminal lines, `[T, W of the other]` to `[T, W]`."""
    groups, number = self.lines.streets[street].groups, len(reach)
    stops = np.cumsum([group.boards * group.width(1 - player) for group in groups])[:-1]
    parts = [
      values(ends, rows.reshape(number, group.boards, -1), player).reshape(number, -1)
      for group, ends, rows in zip(groups, self.ends[street], jnp.split(reach, stops, axis=1))
    ]
    return jnp.concatenate(parts, axis=1)

  def _share(self, index, player, rows):
    total = self._over_children(index, player, rows)
    scale = jnp.where(total > 0, 1.0 / jnp.where(total > 0, total, 1.0), -1.0)
    scale = self.from_parents(index, player, scale)
    return rows * scale, scale >= 0

  # Between levels.

  def _level(self, index):
    return self.lines.levels[index].level


def _chips(chips: Any, ends: list[tuple[int, int]], kind: int) -> jax.Array:
  """Returns the chips of the lines of a kind, level by level."""
  rows = [jnp.asarray(chips[i][kind - FOLD]) for i, own in ends if own == kind]
  return jnp.concatenate([*rows, jnp.zeros(0, chips[0][0].dtype)])


def undeal(street: Street, values: jax.Array, player: int) -> jax.Array:
  """Returns the sums over cards of values after a deal, `[W, n]` to `[n, W above]`."""
  # A CPU is three times as fast where rows lie together in memory, which `settle` makes of others.
  assert street.children is not None
  children = jnp.asarray(street.children[player])
  rows = jnp.pad(values, ((0, 1), (0, 0)))
  total = jnp.zeros((len(children), rows.shape[1]), values.dtype)
  for column in children.T:
    total = total + rows.at[column].get(mode="promise_in_bounds")
  return showdowns.settle(total).T


def _fill(outer: Any, rows: jax.Array, numbers: Sequence[tuple[int, int]]) -> None:
  """Puts rows of values in the place of closed lines; `numbers` are `(level, rows of it)`."""
  stops = np.cumsum([number for _, number in numbers])[:-1]
  for (i, _), part in zip(numbers, jnp.split(rows, stops)):
    outer[i][0] = part


def largest_table(lines: Lines) -> int:
  """Returns the bytes of the largest table that solving one spot holds: a player's, or of pairs."""
  rows = [sum(x.size * lines.streets[x.street].width(p) for x in lines.levels) for p in (0, 1)]
  groups = [group for street in lines.streets for group in street.groups]
  dense = sum(
    x.boards * x.width(0) * x.width(1) for x in groups if form_of(x, lines.dtype) == "dense"
  )
  return max(*rows, dense) * np.dtype(lines.dtype).itemsize


def origins(streets: Sequence[Street]) -> list[Any]:
  """Returns the column of the first round that each comes from: `[W]`, by round and player."""
  found: list[Any] = [[jnp.arange(streets[0].width(p)) for p in (0, 1)]]
  for street in streets[1:]:
    parent: Any = street.parent
    found.append([found[-1][p][parent[p]] for p in (0, 1)])
  return found


def hold(lock: Lock | None, levels: Sequence[Any], places: Any) -> Any:
  """Returns a lock by level, from rows of all lines; see `make_lines_problem`."""

  def own(rows: Any) -> Any:
    parts = jnp.split(rows, np.cumsum([level.size for level in levels])[:-1])
    if rows.shape[1] == 1:
      return tuple(parts)
    return tuple(x[:, places[y.street][y.mover or 0]] for x, y in zip(parts, levels))

  return jax.tree.map(own, lock)


def make_lines_problem(lines: Lines, lock: Lock | None = None) -> LinesProblem:
  """Returns the problem of solving lines of betting.

  A lock has a row for each line, of one number or one for each column of the first round of the
  player who moves, which all columns that come from it keep to.
  """
  lines = jax.tree.map(jnp.asarray, lines)
  ends = tuple(
    tuple(make_ends(group, lines.dtype) for group in street.groups) for street in lines.streets
  )
  lock = jax.tree.map(lambda x: jnp.asarray(x, lines.dtype), lock)
  return LinesProblem(lines, ends, hold(lock, lines.levels, origins(lines.streets)))
