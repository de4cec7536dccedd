"""Constraints of a problem beyond the game's rules: least probabilities, and promised values."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from games.arrays import as_array
from games.public_tree import Array, PublicTree
from solvers.sweeps.levels import Levels, split_levels


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Alternatives:
  """What the opponent of a search is promised instead of the subgame (thesis, section 5.1).

  Attributes:
    value: `[H]` expected payoff to the opponent for each of its root infostates, the other's
      infostate drawn from the root beliefs; not the counterfactual value.
    spread: `[H]` standard deviation of that promise, for `Distributional`; None if it is exact.
    player: the opponent, 0 or 1, where that is known; static.
    beliefs: `[H]` what the opponent is believed to hold, for `ContinualResolve`; None for the
      root beliefs.
  """

  value: Array
  spread: Array | None = None
  player: int | None = dataclasses.field(default=None, metadata={"static": True})
  beliefs: Array | None = None

  def __post_init__(self):
    rows = {x: y for x, y in vars(self).items() if isinstance(y, list | tuple)}
    vars(self).update({name: as_array(row) for name, row in rows.items()})


class Lock(NamedTuple):
  """What players are held to: a policy is `least` plus `free` times one over the `open` moves.

  Attributes:
    least: `[N, H]` the least probability of each move.
    free: `[N, H]` what is left of the choice that the move belongs to; zero where it is locked.
    open: `[N, H]` 1 for moves that the rest may go to, else 0; None for all.
  """

  least: Array
  free: Array
  open: Array | None = None


def make_lock(locked: Any, policy: Array | None, dtype: Any) -> Lock | None:
  """Returns a `Lock`, of one tree or of many, from one or from the parts of `policy` to keep to."""
  if locked is None:
    return None
  if isinstance(locked, Lock):
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), locked)
  policy, kept = jnp.asarray(policy, dtype), jnp.asarray(locked, dtype)
  kept = jnp.broadcast_to(kept if kept.ndim == policy.ndim else kept[..., None], policy.shape)
  return Lock(policy * kept, 1.0 - kept)


class Floor(NamedTuple):
  """A `Lock` by level, `[n, H]` each."""

  rows: Levels
  free: Levels
  open: Levels | None


def make_floor(tree: PublicTree, lock: Lock) -> Floor:
  """Cuts a lock into levels."""
  least, free = split_levels(tree, lock.least), split_levels(tree, lock.free)
  return Floor(least, free, None if lock.open is None else split_levels(tree, lock.open))
