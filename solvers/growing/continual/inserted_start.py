"""Where a search starts that makes its tree: what the same player's last one left (section B.1).

As `next_start`, for trees by insertion. What lies between two decisions of a player is told by its
public actions, since no tree of the game numbers its states.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from games.on_device.game import DeviceGame
from solvers.growing.continual.next_start import beliefs_and_promises
from solvers.growing.insertion.search import GrownByInsertion
from solvers.growing.resolving import Promises


class PublicState(NamedTuple):
  """A public state, `[S]`, and which infostates the rules allow there, `[P, H]` bool."""

  state: jax.Array
  possible: jax.Array


class LeftInserted(NamedTuple):
  """What a search leaves to the next one of the same player.

  Attributes:
    current: `[]` the place of the decision that it was for; -1 if there was none.
    here: that decision; before the first search, where the game begins.
    child: `[C, A]` the places after each action, -1 where there is none.
    values: `[P, C, H]` mean expected payoffs at its inner nodes.
    reach: `[P, C, H]` players' ranges.
    known: `[P, C]` at which places something is known of a player's values.
  """

  current: jax.Array
  here: PublicState
  child: jax.Array
  values: jax.Array
  reach: jax.Array
  known: jax.Array

  @classmethod
  def of(cls, here: PublicState, grown: GrownByInsertion) -> "LeftInserted":
    """Returns what the search for `here` left."""
    place = grown.current.astype(jnp.int32)
    return cls(place, here, grown.tree.child, grown.values, grown.reach, grown.known)

  @classmethod
  def nothing(cls, game: DeviceGame, capacity: int, dtype: Any) -> "LeftInserted":
    """Returns what there is before the first search of a game, of trees of `capacity` nodes."""
    rows = jnp.zeros((2, capacity, game.num_infostates), dtype)
    child = jnp.full((capacity, game.num_actions), -1, jnp.int32)
    known = jnp.zeros((2, capacity), bool)
    return cls(jnp.full((), -1, jnp.int32), beginning(game), child, rows, rows, known)


class InsertedStart(NamedTuple):
  """What a search starts from; see `gt_cfr_inserted`.

  Attributes:
    root: the public state there.
    path: `[D]` public actions from there to the decision that the search is for; -1 for none.
    beliefs: `[P, H]` at the root.
    promises: there.
  """

  root: PublicState
  path: jax.Array
  beliefs: jax.Array
  promises: Promises


def beginning(game: DeviceGame) -> PublicState:
  """Returns where a game begins; infostates that are never dealt are not possible."""
  return PublicState(jnp.asarray(game.initial_state()), jnp.asarray(np.asarray(game.prior()) > 0))


def longest_wait(game: DeviceGame) -> int:
  """Returns D: public actions from one decision of a player to its next at most, both counted once.

  A game that knows says it as `longest_wait`; else it is `max_moves`.
  """
  return getattr(game, "longest_wait", game.max_moves)


def decision_key(key: jax.Array, history: jax.Array) -> jax.Array:
  """Returns the key of the search for one decision of an agent whose own is `key`.

  It is another for every public history, so that an agent of one key has one policy, whether it
  comes to its decisions in a game or all are searched.

  Args:
    key: a random key.
    history: `[D]` all public actions before the decision, then -1.
  """

  def follow(key: jax.Array, action: jax.Array) -> tuple[jax.Array, None]:
    # Number 0 is left for the search itself.
    folded = jax.random.fold_in(key, jnp.maximum(action, 0) + 1)
    return jnp.where(action >= 0, folded, key), None

  return jax.random.fold_in(lax.scan(follow, key, history)[0], 0)


def next_inserted_start(
  game: DeviceGame, left: LeftInserted, since: jax.Array, searcher: jax.Array
) -> InsertedStart:
  """Returns what a search starts from after another of the same player, or after none.

  It starts at the last state on the way at which that search knows what the opponent may be
  promised: of a state that has just joined its tree it knows nothing. The searcher's range
  and the opponent's values there are what it found; the opponent's own row of the beliefs is
  uniform, since the gadget weighs its infostates. All arguments but `game` may be traced.

  Args:
    game: the rules.
    left: by the search before.
    since: `[D]` the public actions since the decision of that search, or since the game began,
      then -1.
    searcher: who moves after them.
  """
  dtype = left.reach.dtype
  place = jnp.maximum(left.current, 0)

  def follow(carry, action):
    root, place, known = carry
    moved = jnp.maximum(action, 0)
    child = left.child[place, moved]
    known = known & (action >= 0) & (child >= 0) & left.known[1 - searcher, child]
    after = PublicState(
      game.next_state(root.state, moved), game.possible_after(root.state, moved, root.possible)
    )
    root = jax.tree.map(lambda x, y: jnp.where(known, y.astype(x.dtype), x), root, after)
    return (root, jnp.where(known, child, place), known), jnp.where(known, -1, action)

  here = jax.tree.map(jnp.asarray, left.here)
  first = here, place.astype(left.child.dtype), left.current >= 0
  (root, place, _), path = lax.scan(follow, first, since)
  prior, possible = jnp.asarray(game.prior(), dtype), root.possible.astype(dtype)
  reach, worth = left.reach[:, place], left.values[1 - searcher, place]
  brought = beliefs_and_promises(left.current < 0, prior, possible, reach, worth, searcher)
  return InsertedStart(root, path, *brought)
