"""Many searches of one game side by side, each of which makes its own tree."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.on_device.game import DeviceGame
from games.on_device.moves import num_moves
from solvers.growing.continual.inserted_start import (
  InsertedStart,
  LeftInserted,
  PublicState,
  longest_wait,
)
from solvers.growing.continual.search_each import in_blocks
from solvers.growing.insertion.search import grow_inserted, most_nodes
from solvers.growing.settings import GTCFR
from solvers.growing.states import StateFunction


class InsertedSearch(NamedTuple):
  """What `M` searches are about.

  Attributes:
    start: `[M, ...]` where they start.
    here: `[M, ...]` the states that they are for.
  """

  start: InsertedStart
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


class FoundInserted(NamedTuple):
  """What each search found.

  Attributes:
    policy: `[M, moves, H]` the average policy where it was for, as `moves_of` numbers moves.
    root_values, root_mass: `[M, P, H]`, see `GrownByInsertion`.
    left: `[M, ...]` for the next search.
    asked: `[M, ...]` one of its questions.
  """

  policy: jax.Array
  root_values: jax.Array
  root_mass: jax.Array
  left: LeftInserted
  asked: AskedState


class HowInserted(NamedTuple):
  """How searches are made; static.

  Attributes:
    game: the rules.
    search: settings, of any length.
    capacity: nodes that a tree has room for.
    network: what they ask.
  """

  game: DeviceGame
  search: GTCFR
  capacity: int
  network: StateFunction | None = None


def most_room(game: DeviceGame, search: GTCFR) -> int:
  """Returns the capacity with which a search loses nothing, whatever the way to its decision."""
  return most_nodes(game, search, longest_wait(game))


def search_each_inserted(
  about: InsertedSearch,
  keys: jax.Array,
  active: jax.Array,
  *,
  how: HowInserted,
  rounds: int | jax.Array,
  params: Any = None,
) -> FoundInserted:
  """Makes those of `M` searches that `active` marks; what the others found is meaningless.

  Args:
    about, keys: `[M, ...]` what they are about, and a key for each.
    active: `[M]` bool.
    how: settings and what leaves are asked of.
    rounds: of each search.
    params: passed on to what is asked.
  """
  one = functools.partial(_search, how, rounds, params)
  shapes = jax.eval_shape(jax.vmap(one), about, keys)
  found = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
  return in_blocks(one, about, keys, active, found)


def _search(
  how: HowInserted, rounds: Any, params: Any, row: InsertedSearch, key: jax.Array
) -> FoundInserted:
  start = row.start
  given = params, start.root.state, start.root.possible, start.path, start.beliefs
  settings = how.search, how.network, how.capacity
  grown = grow_inserted(how.game, key, given, start.promises, rounds, *settings)
  policy = grown.policy_at()
  assert len(policy) == num_moves(how.game)
  node = grown.asked.node
  asked = PublicState(grown.tree.state[node], grown.tree.possible[node])
  return FoundInserted(
    policy,
    grown.root_values,
    grown.root_mass,
    LeftInserted.of(row.here, grown),
    AskedState(asked, _allowed(grown.asked.beliefs, asked.possible), grown.asked.total),
  )


def _allowed(beliefs: jax.Array, possible: jax.Array) -> jax.Array:
  """Returns beliefs `[P, H]` in what is possible alone; uniform there where they were in none."""
  kept = jnp.where(possible, beliefs, 0.0)
  kept = jnp.where(kept.sum(axis=1, keepdims=True) > 0, kept, possible.astype(kept.dtype))
  return kept / jnp.maximum(kept.sum(axis=1, keepdims=True), jnp.finfo(beliefs.dtype).tiny)
