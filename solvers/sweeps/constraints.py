"""What a problem adds to the game's rules: least probabilities of moves, and promised values."""

import dataclasses
from typing import NamedTuple

import jax

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
  """

  value: Array
  spread: Array | None = None
  player: int | None = dataclasses.field(default=None, metadata={"static": True})


class Floor(NamedTuple):
  """The least that players must do: a policy is `rows` plus `free` times a policy of their own.

  Attributes:
    rows: for each level `[n, H]`, the least probability of each move.
    free: for each level `[n, H]`, what the rows leave of the choice that the move belongs to.
  """

  rows: Levels
  free: Levels


def make_floor(tree: PublicTree, policy: Array, share: Array) -> Floor:
  """Returns the floor that holds `share` of each choice to `policy`, both `[N, H]`."""
  return Floor(split_levels(tree, policy * share), split_levels(tree, 1.0 - share))
