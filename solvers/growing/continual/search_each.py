"""Many searches of one game side by side, each after another of the same player."""

import functools
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from games import Game
from solvers import tuning
from solvers.growing.continual.start import ChainStart, Left, PublicState, alone, next_start
from solvers.growing.settings import GTCFR
from solvers.growing.states import StateFunction

T = TypeVar("T")


class ChainSearch(NamedTuple):
  """The start of a search, and the decision that it is for."""

  start: ChainStart
  here: PublicState


class AskedState(NamedTuple):
  """One of a search's questions: a public belief state; see `Asked`.

  Attributes:
    here: the public state.
    beliefs: `[P, H]` there, player 0's first; none where an infostate is not possible.
    total: `[]` how many questions there were.
  """

  here: PublicState
  beliefs: jax.Array
  total: jax.Array


class Found(NamedTuple):
  """The result of a search.

  Attributes:
    policy: `[M, H]` the average policy where it was for, as `moves_of` numbers moves.
    values: `[P, H]` expected payoffs there.
    root_values, root_mass: `[P, H]`, see `Grown`.
    left: for the next search.
    asked: one of its questions.
  """

  policy: jax.Array
  values: jax.Array
  root_values: jax.Array
  root_mass: jax.Array
  left: Left
  asked: AskedState


class How(NamedTuple):
  """How searches are made; static.

  Attributes:
    search: settings, of any length.
    network: what they ask; see `gt_cfr`.
  """

  search: GTCFR
  network: StateFunction | None = None


class Ground(Protocol):
  """A game for searches to follow each other in, with the stores that they grow.

  Attributes:
    rules: the game's.
    child: `[C, A]` places after each action that all searches have in common; None if there are
      none.
  """

  @property
  def rules(self) -> Game: ...

  @property
  def child(self) -> jax.Array | None: ...

  def nothing(self) -> Left:
    """Returns the empty result, before the first search of a game."""
    ...

  def kinds(self, roots: jax.Array) -> list[tuple[Any, jax.Array]]:
    """Returns the grounds for searches from states `roots` `[B, S]`, and which are theirs `[B]`."""
    ...

  def search(self, row: ChainSearch, key: jax.Array, how: How, rounds: Any, params: Any) -> Found:
    """Makes one search, here or in a part."""
    ...


def search_each(
  ground: Ground,
  about: ChainSearch,
  keys: jax.Array,
  active: jax.Array,
  *,
  how: How,
  rounds: int | jax.Array,
  params: Any = None,
) -> Found:
  """Runs those of `B` searches that `active` marks; the results of the others are meaningless.

  Args:
    ground: of the game.
    about, keys: `[B, ...]` what they are about, and a key for each.
    active: `[B]` bool.
    how: settings and what leaves are asked of.
    rounds: of each search.
    params: passed on to what is asked.
  """
  found = None
  for part, here in ground.kinds(about.start.root.state):
    one = functools.partial(part.search, how=how, rounds=rounds, params=params)
    if found is None:
      shapes = jax.eval_shape(jax.vmap(one), about, keys)
      found = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    found = in_blocks(one, about, keys, active & here, found)
  assert found is not None
  return found


def next_starts(
  ground: Ground, left: Left | None, here: PublicState, since: Any, searcher: jax.Array
) -> ChainStart:
  """Returns the starts of `B` searches for `here` from what others left; see `next_start`.

  In games of perfect information they start from the states themselves.
  """
  rules = ground.rules
  if rules.num_infostates == 1:
    beliefs = jnp.ones((len(searcher), 2, 1))
    return jax.vmap(functools.partial(alone, rules))(here, beliefs)

  def one(left, since, searcher):
    child = left.child if ground.child is None else ground.child
    return next_start(rules, left, child, since, searcher)

  return jax.vmap(one)(left, since, searcher)


def in_blocks(search: Any, about: Any, keys: Any, active: jax.Array, found: T) -> T:
  """Makes the active searches, so many at a time, and puts what they find in their places."""
  number, pieces = len(active), tuning.pieces().searches
  if pieces is None:
    new = jax.vmap(search)(about, keys)
    return jax.tree.map(
      lambda x, y: jnp.where(active.reshape(-1, *[1] * (x.ndim - 1)), y, x), found, new
    )
  least, blocks = pieces
  block = min(number, max(least, -(-number // blocks)))
  padded = -(-number // block) * block
  places = jnp.nonzero(active, size=padded, fill_value=number)[0]

  def search_block(i: jax.Array, found: T) -> T:
    some = lax.dynamic_slice_in_dim(places, i * block, block)
    rows = jnp.minimum(some, number - 1)
    new = jax.vmap(search)(*jax.tree.map(lambda x: x[rows], (about, keys)))
    return jax.tree.map(lambda x, y: x.at[some].set(y, mode="drop"), found, new)

  turns = -(-active.sum(dtype=jnp.int32) // block)
  return lax.fori_loop(0, turns, search_block, found)
