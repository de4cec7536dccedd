"""Folds and showdowns on many boards at once, between hands of two lists."""
# A fold is worth the other's reach over the hands that share no card with one's own, a showdown
# the reach that one beats less the reach that one loses to. *Dense*, a showdown is a product with
# a table; *sorted*, sums over the other's hands in order of strength, less those over the hands
# that hold one's first card, and one's second. *Walked*, C++ takes these sums for all lines at
# once (`walk.cc`): in 32 bits on a CPU. Tables have an axis of boards, of one where these are
# alike (`Group`).

from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from games.poker.lines.lines import Group
from solvers import native, tuning
from solvers.sweeps import showdowns
from solvers.sweeps.showdowns import SortedShowdowns, hands_of_card, product, sort_between

_MAX_DENSE = 2**17  # entries of a table of the players' hands
_SOURCE = Path(__file__).with_name("walk.cc")
_MOST_CARDS = 8  # of the hands of a class: two ranks in four suits
_BY_CARD = 2.5  # sums by card where a table has so many times their entries


class Folds(NamedTuple):
  """Tables for folds: the other player's reach that shares no card with each hand."""

  # Each player's table `[D, J of the other, J]`; where sums by card are faster, how many hands of
  # each of the other's classes hold a card, and how many there are: `[D, J of the other, C + 1]`
  down: tuple[jax.Array, jax.Array]
  # by card `[D, C + 1, J]` -1 where the hand of a class holds the card, then 1; else None
  up: tuple[jax.Array, jax.Array] | None = None
  # by card `[J]` the other's class of the same hand; None where both have the same classes
  twin: tuple[jax.Array, jax.Array] | None = None


class Order(NamedTuple):
  """One player's hands on boards, the weakest first: `[B, J]` each."""

  hand: jax.Array
  strength: jax.Array


class Cards(NamedTuple):
  """The cards of one player's hands, by class."""

  held: jax.Array  # `[D, J, M]` the cards of the hands of a class, then any
  number: jax.Array  # `[D, J, M]` how many of its hands hold each, then 0
  size: jax.Array  # `[D, J]` hands of each class
  own: jax.Array  # `[D, J, 2]` the cards of one of them
  twin: jax.Array  # `[D, J]` as `Group.twin`


class Ends(NamedTuple):
  """Folds, and each player's showdowns in one of three forms."""

  folds: Folds  # what folds are worth by XLA
  # Dense, `[B, J of the other, J]`: how many hands of the other's class share no card and lose to a
  # hand, less those that beat it. Where both have the same classes it is one array: one of 272
  # hands fits a core's cache, two do not. Sorted, as `SortedShowdowns`, or walked, as `Order`.
  showdowns: Any  # None where nothing is shown
  cards: tuple[Cards, Cards] | None = None  # what each player's hands hold, where C++ walks them


Form = Literal["dense", "sorted", "walked"]


def form_of(group: Group, dtype: Any) -> Form:
  """Returns the fastest form of the ends on a group of boards."""
  if group.strength and dtype == jnp.float32 and tuning.on_cpu() and _target() is not None:
    return "walked"
  return "dense" if group.width(0) * group.width(1) <= _MAX_DENSE else "sorted"


def _target() -> str | None:
  return native.target(_SOURCE, "walk_lines")


def make_ends(group: Group, dtype: Any, form: Form | None = None) -> Ends:
  """Prepares the ends on a group of boards; `form=None` chooses the form."""
  folds = make_folds(group, dtype)
  if group.strength is None:
    return Ends(folds, None)
  return join_ends(group, folds, *make_showdowns(group, dtype, form or form_of(group, dtype)))


def make_showdowns(group: Group, dtype: Any, form: Form) -> tuple[Any, Any]:
  """Returns tables for `join_ends`: a pair of all boards, and a pair alike or of each."""
  if form == "sorted":
    return tuple(sort(group, p) for p in (0, 1)), None
  strength: Any = jax.tree.map(jnp.asarray, group.strength)
  if form == "dense":
    return strength, (fold_table(group, 0, dtype), fold_table(group, 1, dtype))
  order = [jnp.argsort(own, axis=1, stable=True).astype(jnp.int32) for own in strength]
  ranked = [jnp.take_along_axis(*pair, axis=1) for pair in zip(strength, order)]
  return tuple(map(Order, order, ranked)), tuple(_cards(group, p, dtype) for p in (0, 1))


def _cards(group: Group, player: int, dtype: Any) -> Cards:
  holding = jnp.asarray(group.holding[player], dtype)
  most = 2 if group.plain else min(_MOST_CARDS, holding.shape[2])
  held = jnp.argsort(holding == 0, axis=2, stable=True)[..., :most]
  number = jnp.take_along_axis(holding, held, axis=2)
  twin = jnp.broadcast_to(jnp.asarray(group.twin[player]), holding.shape[:2])
  own = jnp.asarray(group.size[player]), jnp.asarray(group.cards[player])
  return Cards(held.astype(jnp.int32), number, *own, twin)


def join_ends(group: Group, folds: Folds, tables: Any, shared: Any) -> Ends:
  """Returns the ends from `make_showdowns`, of all boards or of some."""
  if shared is None or isinstance(shared[0], Cards):
    return Ends(folds, tables, shared)

  def dense(player: int) -> jax.Array:
    ours, theirs = tables[player], tables[1 - player]
    wins = jnp.sign(ours[:, None] - theirs[:, :, None])
    return shared[player] * wins.astype(shared[player].dtype)

  first = dense(0)
  return Ends(folds, (first, first if group.same else dense(1)))


def make_folds(group: Group, dtype: Any, table: bool | None = None) -> Folds:
  """Prepares the folds of a group of boards; `table=None` chooses the form."""
  widths = group.width(0), group.width(1)
  cards = group.holding[0].shape[2]
  if table is None:
    table = widths[0] * widths[1] <= _BY_CARD * cards * sum(widths)
  if table:
    return Folds((fold_table(group, 0, dtype), fold_table(group, 1, dtype)))

  def down(player: int) -> jax.Array:
    size = jnp.asarray(group.size[player], dtype)[..., None]
    return jnp.concatenate([jnp.asarray(group.holding[player], dtype), size], axis=2)

  def up(player: int) -> jax.Array:
    held = jnp.pad(-_held(group, player, dtype), ((0, 0), (0, 0), (0, 1)), constant_values=1)
    return jnp.swapaxes(held, 1, 2)

  twin = None if group.same else (jnp.asarray(group.twin[0]), jnp.asarray(group.twin[1]))
  return Folds((down(1), down(0)), (up(0), up(1)), twin)


def _held(group: Group, player: int, dtype) -> jax.Array:
  """Returns 1 where the hand of a class holds a card: `[D, J, C]`."""
  cards = jnp.asarray(group.cards[player])[..., None]
  every = jnp.arange(group.holding[player].shape[2], dtype=cards.dtype)
  return (cards == every.reshape((1,) * (cards.ndim - 1) + (-1,))).any(axis=2).astype(dtype)


def fold_table(group: Group, player: int, dtype: Any) -> jax.Array:
  """Returns how many hands of the other's classes share no card: `[D, J of the other, J]`."""
  other = 1 - player
  holding = jnp.asarray(group.holding[other], dtype)
  shared = product("djc,dhc->djh", holding, _held(group, player, dtype))
  twin = jnp.asarray(group.twin[player])
  own = jnp.arange(group.width(other), dtype=twin.dtype)[:, None] == twin[None]
  return jnp.asarray(group.size[other], dtype)[..., None] - shared + own[None].astype(dtype)


def sort(group: Group, player: int) -> SortedShowdowns:
  """Returns `player`'s values against the other's hands, board by board."""
  group, other = jax.tree.map(jnp.asarray, group), 1 - player
  strength: Any = group.strength
  most = group.holding[other].shape[2] - 1  # hands that hold one card hold another, too
  of_card = jax.vmap(lambda x: hands_of_card(x, most))(group.holding[other])

  def sort_board(board):
    theirs, ours, of_card, cards, size = board
    return sort_between(theirs, of_card, ours, cards, None if group.plain else size)

  alike = jax.tree.map(
    lambda x: jnp.broadcast_to(x, (group.boards, *x.shape[1:])),
    (of_card, group.cards[player], group.size[other]),
  )
  return lax.map(sort_board, (strength[other], strength[player], *alike))


def fold_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns the other's reach that shares no card with each hand of `player`: `[T, B, J]`."""
  # `reach` is `[T, B, J of the other]` of one hand of each class, zero where the board blocks it;
  # values of hands that the board blocks have no meaning.
  folds = ends.folds
  values = _by_board(reach, folds.down[player])
  if folds.up is None:
    return values
  values = _by_board(values, folds.up[player])
  own = reach  # of the same hand, which each of its two cards has taken out
  if folds.twin is not None:
    own = jnp.pad(reach, ((0, 0), (0, 0), (0, 1)))
    own = own.at[..., folds.twin[player]].get(mode="promise_in_bounds")
  return values + own


def _by_board(rows: jax.Array, tables: jax.Array) -> jax.Array:
  """Returns products on each board: `[T, B, J]` and `[B or 1, J, W]` to `[T, B, W]`."""
  if len(tables) > 1:
    return product("tbj,bjw->tbw", rows, tables)
  flat = product("tj,jw->tw", rows.reshape(-1, rows.shape[-1]), tables[0])
  return flat.reshape(*rows.shape[:2], -1)


def showdown_values(ends: Ends, reach: jax.Array, player: int) -> jax.Array:
  """Returns the showdown values of `player`'s hands, wins less losses: as `fold_values`."""
  rows = jnp.swapaxes(reach, 0, 1)
  return jnp.swapaxes(showdowns.showdown_values(ends.showdowns[player], rows), 0, 1)


def end_values(
  ends: Ends, reach: jax.Array, player: int, shows: jax.Array, folds: jax.Array
) -> jax.Array:
  """Returns the values of lines that end: `[T, B, J]`, for reach as of `fold_values`."""
  # `folds` is the worth of the reach that shares no card, of the first lines, `shows` that of wins
  # less losses, of the last lines.
  if ends.cards is not None:
    return _walk(ends, ends.cards, reach, player, shows, folds)
  first = len(reach) - len(shows)
  if len(folds):
    values = fold_values(ends, reach[: len(folds)] * folds[:, None, None], player)
  if not len(shows):
    return values
  shown = showdown_values(ends, reach[first:] * shows[:, None, None], player)
  if not len(folds):
    return shown
  if len(folds) > first:
    shown = shown + values[first:]
  return jnp.concatenate([values[:first], shown])


def _walk(
  ends: Ends, cards: Any, reach: jax.Array, player: int, shows: Any, folds: Any
) -> jax.Array:
  name = _target()
  assert name is not None
  shows = jnp.pad(shows, (len(reach) - len(shows), 0))
  folds = jnp.pad(folds, (0, len(reach) - len(folds)))
  others, own = cards[1 - player], cards[player]
  order = *ends.showdowns[1 - player], *ends.showdowns[player]
  held = others.held, others.number, others.size, own.own, own.twin
  values = jax.ShapeDtypeStruct((*reach.shape[:2], own.size.shape[1]), reach.dtype)
  call = jax.ffi.ffi_call(name, values, vmap_method="broadcast_all")
  return call(reach, shows, folds, *order, *held)
