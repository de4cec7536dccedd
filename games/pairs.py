"""Pairs of infostates, compatible or not, and each pair's payoff: in tables, or of hands of cards.

Sums over reach run in numpy and in JAX, deals and tables of all pairs on the host.
"""

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import Rows, lookup, one_hot, xp
from games.public_tree import PublicTree


def holds(hands: Any, num_cards: int, dtype: Any = float) -> Any:
  """Returns which cards each hand holds, as numbers: `[..., H, 2]` to `[..., H, num_cards]`."""
  return one_hot(hands, num_cards).any(axis=-2).astype(dtype)


def num_live_cards(num_hands: int) -> int:
  """Returns how many cards make so many pairs; a `ValueError` where no number does."""
  cards = (1 + math.isqrt(1 + 8 * num_hands)) // 2
  if cards * (cards - 1) // 2 != num_hands:
    raise ValueError(f"hands={num_hands} must be all pairs of some number of cards")
  return cards


@functools.cache
def all_pairs(num_hands: int) -> np.ndarray:
  """Returns the two cards of each hand, cards numbered by their order: `[H, 2]`."""
  return np.array(list(itertools.combinations(range(num_live_cards(num_hands)), 2)), np.int32)


def _held_by_all(num_hands: int, dtype: Any) -> np.ndarray:
  hands = all_pairs(num_hands)
  return holds(hands, int(hands.max()) + 1, dtype)


# A program that asks often holds one table.
_held_by_all_once = jax.jit(lambda *how: jnp.asarray(_held_by_all(*how)), static_argnums=(0, 1))


def compatible_mass(reach: Any, held: Any = None) -> Any:
  """Returns for each hand the sum of `reach` `[..., H]` over hands that share no card with it."""
  # Inclusion and exclusion: everything, less what holds either card, plus the hand itself. `held`
  # is `holds` of the hands `[H, C]`, None for all pairs of some cards.
  if held is None:
    make = _held_by_all if isinstance(reach, np.ndarray) else _held_by_all_once
    held = make(reach.shape[-1], reach.dtype)
  # Accelerators would otherwise round the numbers that are about to cancel.
  with jax.default_matmul_precision("highest"):
    return reach.sum(axis=-1, keepdims=True) - (reach @ held) @ held.T + reach


_LEAST_MASS = 1e-6  # of ranges in float32: masses that cancel leave rounding errors


def per_pair_mass(values: Any, mass: Any) -> Any:
  """Divides sums over compatible pairs by their mass; zero where that is rounding alone."""
  return jnp.where(mass > _LEAST_MASS, values / jnp.maximum(mass, _LEAST_MASS), 0.0)


_ROUNDING = 1e-12  # errors of sums that cancel to zero
# How many units in the last place a sum over hands may be off that ought to be zero.
_CANCELLED = 16.0


class _Shared:
  """What pairs in tables and pairs of hands have in common, by their `mass`."""

  mass: Any

  def matched(self, possible: np.ndarray, pair_index: int) -> np.ndarray:
    """Returns which infostates some possible one of the other goes with: `[P, H]` to `[P, H]`."""
    return self.root_mass(pair_index, possible.astype(float)) > _ROUNDING

  def joint_mass(self, beliefs: np.ndarray, pair_index: int) -> float:
    """Returns the sum over pairs of both beliefs `[P, H]` and the pair's weight."""
    together = float(beliefs[0] @ self.root_mass(pair_index, beliefs)[0])
    return together if together > _ROUNDING else 0.0

  def root_mass(self, pair_index: Any, beliefs: Rows) -> Rows:
    """Returns the mass of the other's beliefs that infostates meet at one node: `[P, H]` both."""
    own: Any = beliefs.__array_namespace__()
    row, other = own.asarray(pair_index).reshape(1), beliefs[::-1]
    return xp.concatenate([self.mass(row, other[p : p + 1], p) for p in (0, 1)])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class DensePairs(_Shared):
  """Pairs of infostates (player 0's, player 1's) in tables, by index."""

  # Payoffs are a game's own, to player 0; a tree keeps them times the weight of the pair: those of
  # `used` and `of_tree`.

  weights: Any  # [C, H, H]
  payoffs: Any  # [K, H, H]
  # Whether every pair weighs one.
  compatible: bool = dataclasses.field(default=False, metadata={"static": True})

  def __post_init__(self):
    if isinstance(self.weights, np.ndarray):
      object.__setattr__(self, "compatible", bool((self.weights == 1).all()))

  def deal(self, beliefs: np.ndarray, pair_index: int, rng: np.random.Generator) -> tuple[int, int]:
    """Draws a pair of infostates from beliefs `[P, H]`."""
    joint = beliefs[0][:, None] * beliefs[1] * self.weights[pair_index]
    pair = int(rng.choice(joint.size, p=joint.ravel() / joint.sum()))
    return divmod(pair, joint.shape[1])

  def weight_table(self, pair_index: int) -> np.ndarray:
    """Returns the weights of all pairs: `[H, H]`."""
    return self.weights[pair_index]

  def payoff_table(self, payoff_index: int) -> np.ndarray:
    """Returns the payoffs of all pairs: `[H, H]`; hands that share a card have zero."""
    return self.payoffs[payoff_index]

  def payoff(self, payoff_index: int, infostates: tuple[Any, Any]) -> Any:
    """Returns the payoff of a possible pair, or of several, infostates `[n]` of each player."""
    return self.payoffs[payoff_index][infostates]

  def mass(self, pair_index: Any, reach: Any, player: int) -> Any:
    """Returns the mass of the opponent's `reach` that `player`'s infostates meet: `[n, H]` both."""
    return _product(reach, player, *self._weighed(pair_index))

  def values(self, payoff_index: Any, pair_index: Any, reach: Any, player: int) -> Any:
    """Returns `player`'s counterfactual values against the opponent's `reach`: `[n, H]` both."""
    won = _product(reach, player, (self.payoffs, payoff_index), *self._weighed(pair_index))
    return won if player == 0 else -won

  def _weighed(self, pair_index: Any) -> list[tuple[Any, Any]]:
    return [] if self.compatible else [(self.weights, pair_index)]

  def most(self, payoff_index: np.ndarray) -> np.ndarray:
    """Returns the largest payoff of a possible pair, of either sign, by each table: `[n]`."""
    possible = (self.weights > 0).any(axis=0)
    return np.abs(self.payoffs * possible).max(axis=(1, 2))[payoff_index]

  def used(self, payoff_index: np.ndarray, pair_index: np.ndarray) -> "tuple[Pairs, np.ndarray]":
    """Returns a tree's payoff tables, and the table of each terminal node: `[T]`, from `[T]`."""
    if len(payoff_index) == 0:
      nothing = np.zeros((1, *self.payoffs.shape[1:]))
      return DensePairs(self.weights, nothing), np.zeros(0, int)
    combination = np.stack([payoff_index, pair_index], axis=1)
    tables, index = np.unique(combination, axis=0, return_inverse=True)
    payoffs = self.payoffs[tables[:, 0]] * self.weights[tables[:, 1]]
    return DensePairs(self.weights, payoffs), index.reshape(-1)

  def columns(self, dealt: np.ndarray) -> dict[str, Any]:
    """Returns a `PublicTree`'s fields that hold these pairs; `dealt` is `[N, k]`."""
    compatible = self.compatible and len(self.weights) == 1
    return {"pair_weights": self.weights, "payoffs": self.payoffs, "compatible": compatible}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, eq=False)
class HoleCards(_Shared):
  """Hands of two cards: those that share a card exclude each other, all other pairs weigh one."""

  # Payoff table 0 is a fold's, one for every pair, and table 1 + k a showdown's of `strengths[k]`.

  hands: Any  # [H, 2] all pairs of some cards or a list of such, in the order of `combinations`
  strengths: Any  # [K, H] higher wins, equal splits, -1 where impossible
  # [H, C] 1 where the hand holds the card, made of numpy's hands; None of JAX's that are all pairs
  held: Any = None

  def __post_init__(self):
    if not isinstance(self.hands, np.ndarray):
      return
    low, high = np.asarray(self.hands, np.int64).T
    if not (low < high).all() or not (np.diff(low * (1 + self.hands.max()) + high) > 0).all():
      raise ValueError(
        "hands() must be pairs of cards, each once, in the order of itertools.combinations"
      )
    object.__setattr__(self, "held", holds(self.hands, int(self.hands.max()) + 1))

  def deal(self, beliefs, pair_index, rng):
    mass = compatible_mass(beliefs[1], self.held)
    first = beliefs[0] * np.where(mass > _ROUNDING, mass, 0.0)
    own = int(rng.choice(len(first), p=first / first.sum()))
    second = np.where(self.held[:, self.hands[own]].any(axis=1), 0.0, beliefs[1])
    return own, int(rng.choice(len(second), p=second / second.sum()))

  def weight_table(self, pair_index):
    return 1.0 - (self.held @ self.held.T > 0)

  def payoff_table(self, payoff_index):
    if payoff_index == 0:
      return self.weight_table(0)
    strength = self.strengths[payoff_index - 1].astype(np.int64)
    return np.sign(strength[:, None] - strength) * self.weight_table(0)

  def payoff(self, payoff_index, infostates):
    if payoff_index == 0:
      return 1.0
    first, second = (self.strengths[payoff_index - 1][x].astype(float) for x in infostates)
    return np.sign(first - second)

  def mass(self, pair_index, reach, player):
    return compatible_mass(reach, self.held)

  def root_mass(self, pair_index, beliefs):
    mass = self.mass(pair_index, beliefs[::-1], 0)
    # Sums that cancel leave rounding errors, by which values would be divided.
    rounding = _CANCELLED * xp.finfo(mass.dtype).eps * beliefs[::-1].sum(axis=-1, keepdims=True)
    return xp.where(mass > rounding, mass, 0.0)

  def values(self, payoff_index, pair_index, reach, player):
    strength = lookup(self.strengths, xp.maximum(payoff_index - 1, 0))
    beats = xp.sign(strength[:, :, None] - strength[:, None]).astype(float)
    beats = beats * self.weight_table(0)[None]
    shown = (beats * reach[:, None]).sum(axis=2).astype(reach.dtype)
    folded = self.mass(pair_index, reach, player)
    return xp.where(payoff_index[:, None] > 0, shown, folded if player == 0 else -folded)

  def most(self, payoff_index):
    return np.ones(len(payoff_index))

  def used(self, payoff_index, pair_index):
    # A subgame on the river has one of all boards, and one before it often none.
    boards = np.unique(payoff_index[payoff_index > 0])
    index = np.where(payoff_index > 0, 1 + np.searchsorted(boards, payoff_index), 0)
    return HoleCards(self.hands, self.strengths[boards - 1]), index

  def columns(self, dealt):
    cards = len(np.unique(self.hands))
    every = len(self.hands) == cards * (cards - 1) // 2
    return {
      "pair_weights": np.ones((1, 1, 1)),
      "payoffs": np.ones((1, 1, 1)),
      "compatible": False,
      "hands": np.asarray(self.hands, np.int32),
      "strengths": self.strengths.astype(np.int32),
      "dealt": dealt.astype(np.int32),
      "num_cards": self.held.shape[1],
      "hands_per_card": 0 if every else most_hands_per_card(self.hands),
    }


Pairs = DensePairs | HoleCards


def _product(reach: Any, player: int, *parts: tuple[Any, Any]) -> Any:
  """Returns rows `[n, H]` times each one's table, the product of `parts`: tables and indices."""
  table: Any = 1.0
  for tables, index in parts:
    if isinstance(tables, np.ndarray) and len(tables) == 1 and (tables == tables.flat[0]).all():
      table = table * float(tables.flat[0])
    else:
      table = table * (lookup(tables, index) if len(tables) > 1 else tables)
  if isinstance(table, float):
    return xp.broadcast_to(reach.sum(axis=1, keepdims=True) * table, reach.shape)
  table = table if player == 0 else table.swapaxes(1, 2)
  # XLA fuses this; products of matrices this small are calls into a library on a CPU.
  return (table * reach[:, None]).sum(axis=2).astype(reach.dtype)


def most_hands_per_card(hands: np.ndarray) -> int:
  """Returns how many of `hands` `[H, 2]` hold one card at most."""
  return int(np.bincount(np.asarray(hands).reshape(-1)).max())


def of_tree(tree: PublicTree, dtype: Any = None) -> Pairs:
  """Returns an unstacked tree's pairs, on the host, or in JAX with the `dtype` of sums."""
  as_array: Any = np.asarray if dtype is None else jnp.asarray
  if tree.hands is None:
    return DensePairs(as_array(tree.pair_weights), as_array(tree.payoffs), tree.compatible)
  hands, held = as_array(tree.hands), None
  if dtype is not None and tree.hands_per_card:
    held = holds(hands, tree.num_cards, dtype)
  return HoleCards(hands, as_array(tree.strengths), held)
