"""Many searches of one game side by side, each in the smallest tree that it fits."""

import functools
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from games.public_tree import Array, largest_payoff
from solvers.growing.asked import Asked
from solvers.growing.continual.grounds import Grounds
from solvers.growing.continual.next_start import Left, next_start
from solvers.growing.gt_cfr import Given, Grown, grow
from solvers.growing.resolving import Promises
from solvers.growing.settings import GTCFR
from solvers.growing.simulate import child_slots
from solvers.growing.states import StateFunction
from solvers.xla.compiler_options import Programs, work_on_trees

# Searches at a time: a share of all, so that few places of the last block stay empty.
_BLOCKS = 4
_LEAST = 8
T = TypeVar("T")


class Search(NamedTuple):
  """What `M` searches are about, in nodes of the whole game; see `gt_cfr`.

  Attributes:
    root, current: `[M]`.
    beliefs: `[M, P, H]`.
    promises: `[M, ...]`.
  """

  root: Array
  current: Array
  beliefs: Array
  promises: Promises


class Found(NamedTuple):
  """What each search found, in nodes of the whole game.

  Attributes:
    policy: `[M, A, H]` the average policy of the moves at `current`, in the order of
      `child_slots`.
    root_values, root_mass: `[M, P, H]`, see `Grown`.
    left: `[M, ...]` for the next search.
    asked: `[M, ...]` one of its questions.
  """

  policy: jax.Array
  root_values: jax.Array
  root_mass: jax.Array
  left: Left
  asked: Asked


class How(NamedTuple):
  """How searches are made; static.

  Attributes:
    search: settings, of any length.
    network: what they ask; see `gt_cfr`.
  """

  search: GTCFR
  network: StateFunction | None = None


def search_each(
  grounds: Grounds,
  about: Search,
  keys: jax.Array,
  active: jax.Array,
  *,
  how: How,
  rounds: int | jax.Array,
  params: Any = None,
) -> Found:
  """Makes those of `M` searches that `active` marks; what the others found is meaningless.

  Args:
    grounds: of the game.
    about, keys: `[M, ...]` what they are about, and a key for each.
    active: `[M]` bool.
    how: settings and what leaves are asked of.
    rounds: of each search.
    params: passed on to what is asked.
  """
  tree = grounds.tree
  slots, scale = jnp.asarray(child_slots(tree.structure)), largest_payoff(tree)

  def in_whole(row: Search, key: jax.Array) -> Found:
    given = Given(params, *row, scale)
    grown = grow(tree, grounds.nodes, key, given, rounds, how.search, network=how.network)
    return _found(row, grown, slots)

  shapes = jax.eval_shape(jax.vmap(in_whole), about, keys)
  found = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
  if grounds.parts is None:
    return in_blocks(in_whole, about, keys, active, found)
  parts = jax.tree.map(jnp.asarray, grounds.parts)

  def in_part(row: Search, key: jax.Array) -> Found:
    number = parts.part[row.root]
    part, nodes, places = jax.tree.map(
      lambda x: x[number], (parts.trees, parts.nodes, parts.places)
    )
    here = row._replace(root=parts.local[row.root], current=parts.local[row.current])
    given = Given(params, *here, scale)
    grown = grow(part, nodes, key, given, rounds, how.search, network=how.network)
    return _found(row, _spread(grown, places, tree.num_nodes), slots)

  small = parts.part[about.root] >= 0
  found = in_blocks(in_whole, about, keys, active & ~small, found)
  return in_blocks(in_part, about, keys, active & small, found)


def search_next(*arguments: Any, **settings: Any) -> Found:
  """Searches for `M` decisions, each from what another search above it left, or from none.

  It compiles by itself.

  Args:
    arguments: those of `search_each` with three for what it is about: `grounds`, what was left
      `[M, ...]`, the decisions and who searches `[M]`, `keys`, `active`.
    settings: `how`, `rounds` and `params` as for `search_each`.
  """
  return _search_next[work_on_trees()](*arguments, **settings)


def _search_onwards(
  grounds: Grounds,
  left: Left,
  nodes: jax.Array,
  searchers: jax.Array,
  keys: jax.Array,
  active: jax.Array,
  *,
  how: How,
  rounds: int,
  params: Any,
) -> Found:
  starts = jax.vmap(functools.partial(next_start, grounds.tree))(left, nodes, searchers)
  about = Search(starts.root, nodes, starts.beliefs, starts.promises)
  return search_each(grounds, about, keys, active, how=how, rounds=rounds, params=params)


_search_next = Programs(_search_onwards, static_argnames="how")


def _found(row: Search, grown: Grown, slots: jax.Array) -> Found:
  kids = slots[row.current]
  policy = jnp.where((kids >= 0)[:, None], grown.average_policy[jnp.maximum(kids, 0)], 0.0)
  left = Left.of(row.root, grown)
  return Found(policy, grown.root_values, grown.root_mass, left, grown.asked)


def _spread(grown: Grown, places: jax.Array, num_nodes: int) -> Grown:
  """Returns what was found in a part as if in the whole tree."""

  def put(x: jax.Array, axis: int) -> jax.Array:
    rows = jnp.moveaxis(x, axis, 0)
    empty = jnp.zeros((num_nodes, *rows.shape[1:]), x.dtype)
    return jnp.moveaxis(empty.at[places].set(rows, mode="drop"), 0, axis)

  return grown._replace(
    average_policy=put(grown.average_policy, 0),
    values=put(grown.values, 1),
    reach=put(grown.reach, 1),
    known=put(grown.known, 1),
    present=put(grown.present, 0),
    visits=put(grown.visits, 0),
    asked=grown.asked._replace(node=places[grown.asked.node].astype(jnp.int32)),
  )


def in_blocks(search: Any, about: Any, keys: Any, active: jax.Array, found: T) -> T:
  """Makes the active searches, so many at a time, and puts what they find in their places."""
  number = len(active)
  block = min(number, max(_LEAST, -(-number // _BLOCKS)))
  padded = -(-number // block) * block
  places = jnp.nonzero(active, size=padded, fill_value=number)[0]

  def search_block(i: jax.Array, found: T) -> T:
    some = lax.dynamic_slice_in_dim(places, i * block, block)
    rows = jnp.minimum(some, number - 1)
    new = jax.vmap(search)(*jax.tree.map(lambda x: x[rows], (about, keys)))
    return jax.tree.map(lambda x, y: x.at[some].set(y, mode="drop"), found, new)

  blocks = -(-active.sum(dtype=jnp.int32) // block)
  return lax.fori_loop(0, blocks, search_block, found)
