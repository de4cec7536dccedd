"""Hold'em with the hands of given ranges only: the same game with fewer infostates."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from games.arrays import check_rows
from games.card_removal import compatible_mass, holds
from games.game import CHANCE, Game
from games.poker.holdem import Holdem
from games.public_tree import PublicTree

_TOLERANCE = 1e-3  # of a distribution's sum


class OnlyHands(Holdem):
  """Hold'em in which players are dealt the hands of their ranges and no others.

  Infostates are the hands that either player holds with some belief, in the order of `whole`; those
  that meet no hand of the other's are left out. Public states and actions are those of `whole`, and
  so are all policies and values of hands that are held. What is lost are answers about the others:
  a hand outside a player's range is impossible here, and its value at the root is zero.

  The tree's own prior are the ranges. Other beliefs may be given as long as they stay inside them.

  Args:
    game: hold'em, any of its endgames.
    beliefs: `[P, H of whole]` at the start, each row a distribution.

  Attributes:
    whole: the game itself.
    kept: `[H]` the infostates of `whole` that are infostates here.

  Raises:
    ValueError: the game is not hold'em or has its hands chosen already, or `beliefs` have the wrong
      shape, are not distributions, or leave no pair of hands.
  """

  def __init__(self, game: Holdem, beliefs: Any):
    if not isinstance(game, Holdem) or isinstance(game, OnlyHands):
      raise ValueError(f"game={game!r} must be hold'em with all of its hands")
    rows = np.asarray(beliefs, float)
    _check(rows, game)
    super().__init__(**game.parameters())
    self.whole = game
    self.name = f"{game.name}_only_hands"
    held = (rows > 0) & (game.prior() > 0)
    held &= _met(held, game)
    if not held.any():
      raise ValueError("beliefs leave no compatible pair of hands; some pair must be possible")
    self.kept = np.flatnonzero(held.any(axis=0))
    self.hole_cards = game.hole_cards[self.kept]
    self.num_infostates = len(self.kept)
    self._held = held[:, self.kept]
    self._ranges = self._restricted(rows)

  def replace(self, **changes: Any) -> "OnlyHands":
    """Returns the game with some parameters of `Holdem` changed, and the same ranges."""
    return OnlyHands(self.whole.replace(**changes), self._expand(self._ranges))

  def vary(self, **how):
    return Game.vary(self, **how)

  def templates(self):
    return None  # those are of all hands

  def prior(self):
    return self._ranges

  def beliefs(self, ranges: np.ndarray | Sequence[str]) -> np.ndarray:
    """Turns weights of all pairs of the deck into beliefs, as `Holdem.beliefs` does.

    Raises:
      ValueError: as `Holdem.beliefs` and `restrict_beliefs`.
    """
    return self.restrict_beliefs(self.whole.beliefs(ranges))

  def infostate(self, hand: str) -> int:
    """Returns the infostate of a hand such as `AsKd`, cards in either order.

    Raises:
      ValueError: as `Holdem.infostate`, or neither player holds it.
    """
    found = np.flatnonzero(self.kept == self.whole.infostate(hand))
    if not len(found):
      raise ValueError(f"hand={hand!r} is in neither player's range")
    return int(found[0])

  def restrict_beliefs(self, beliefs: np.ndarray) -> np.ndarray:
    """Turns beliefs over the hands of `whole` into beliefs over those that are held.

    Args:
      beliefs: `[P, H of whole]`, zero outside the ranges.

    Returns:
      `[P, H]`, rows sum to one.

    Raises:
      ValueError: the shape is wrong, a row is no distribution, or a hand outside a player's range
        has weight.
    """
    rows = np.asarray(beliefs, float)
    _check(rows, self.whole)
    outside = rows * (self._expand(self._held) == 0)
    # A hand of the ranges that meets none of the other's is never dealt.
    wrong = np.argwhere((outside > 0) & _met(rows > 0, self.whole))
    if len(wrong):
      player, hand = wrong[0].tolist()
      raise ValueError(
        f"beliefs give player {player} the hand {self.whole.infostate_name(player, hand)!r} with "
        f"{rows[player, hand]:g}, which is outside its range here; its belief must be 0"
      )
    return self._restricted(rows)

  def _restricted(self, rows: np.ndarray) -> np.ndarray:
    kept = rows[:, self.kept] * self._held
    return kept / kept.sum(axis=1, keepdims=True)

  def expand_policy(
    self, tree: PublicTree, policy: np.ndarray, whole_tree: PublicTree
  ) -> np.ndarray:
    """Returns a policy in the numbering of all hands; hands not held take all moves equally often.

    Args:
      tree: a tree of this game.
      policy: `[N, H]` on it, as `solve` returns it.
      whole_tree: the tree of `whole` with the same root and depth.

    Returns:
      `[N, H of whole]`.

    Raises:
      ValueError: a shape is wrong, or the trees do not belong together.
    """
    check_rows("policy", policy, (tree.num_nodes, self.num_infostates), "(N, H)")
    same = tree.num_nodes == whole_tree.num_nodes
    if not same or not np.array_equal(np.asarray(tree.state), np.asarray(whole_tree.state)):
      raise ValueError(
        f"whole_tree of {whole_tree.num_nodes} nodes does not belong to a tree of "
        f"{tree.num_nodes}; build both with the same root and depth"
      )
    parent = np.maximum(np.asarray(tree.parent), 0)
    moves = np.bincount(parent[1:], minlength=tree.num_nodes)
    chosen = (np.asarray(tree.kind)[parent] < CHANCE) & (np.asarray(tree.parent) >= 0)
    equal = np.where(chosen, 1 / np.maximum(moves[parent], 1), 1.0)
    rows = np.asarray(policy)
    expanded = np.repeat(equal[:, None], self.whole.num_infostates, axis=1).astype(rows.dtype)
    expanded[:, self.kept] = rows
    return expanded

  def expand_values(self, values: np.ndarray) -> np.ndarray:
    """Returns values `[..., H]` in the numbering of all hands, `[..., H of whole]`.

    Those of hands that are not held are zero, which says nothing about them.
    """
    return self._expand(np.asarray(values))

  def _expand(self, rows: np.ndarray) -> np.ndarray:
    expanded = np.zeros((*rows.shape[:-1], self.whole.num_infostates), rows.dtype)
    expanded[..., self.kept] = rows
    return expanded

  def __repr__(self) -> str:
    own = [int(row.sum()) for row in self._held]
    return (
      f"<{self.name}: {self.num_infostates} of {self.whole.num_infostates} hands, {own[0]} and "
      f"{own[1]} of the players, of {self.whole!r}>"
    )


def _met(held: np.ndarray, game: Holdem) -> np.ndarray:
  """Says which hands share no card with some hand that the other holds: `[P, H]` both."""
  cards = holds(game.hole_cards, game.deck.num_cards)
  return compatible_mass(held[::-1].astype(float), cards) > 0.5


def _check(beliefs: np.ndarray, game: Holdem) -> None:
  """Checks that beliefs are distributions over the hands of `game`."""
  shape = (2, game.num_infostates)
  check_rows("beliefs", beliefs, shape, "(P, H)")
  if not np.isfinite(beliefs).all() or (beliefs < 0).any():
    raise ValueError("beliefs hold negative or infinite entries; each row must be a distribution")
  sums = beliefs.sum(axis=1)
  if (np.abs(sums - 1) > _TOLERANCE).any():
    raise ValueError(f"beliefs rows sum to {sums.tolist()}; each row must sum to one")
