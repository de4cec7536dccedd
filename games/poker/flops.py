"""Flops by suit classes: which of them are alike but for the names of suits, and draws of them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from games.poker.cards import Deck
from games.poker.dealing import Dealing, place_among

FLOP = 3


@functools.lru_cache(maxsize=8)
def flop_classes(deck: Deck) -> tuple[np.ndarray, np.ndarray]:
  """Returns one flop of each suit class and how many flops the class has.

  Flops are of one class if renaming suits turns one into the other. The whole deck has 1,755.

  Returns:
    Cards `[C, 3]`, increasing, and sizes `[C]` that sum to all flops.
  """
  flops = _all_flops(deck)
  renamed = np.stack([_renamed(deck, np.array(x), flops) for x in _permutations(deck)])
  numbers = place_among(flops, np.sort(renamed, axis=-1).reshape(-1, FLOP))
  codes = numbers.reshape(len(renamed), -1).min(axis=0)
  _, first, sizes = np.unique(codes, return_index=True, return_counts=True)
  return flops[first], sizes


def check_flops(dealing: Dealing, flops: int | None) -> None:
  """Checks how many flops a search may look at.

  Raises:
    ValueError: it is not a number of them, or the game does not deal a flop first.
  """
  if flops is None:
    return
  if dealing.board or dealing.deals[:1] != (FLOP,) or max(dealing.deals[1:], default=1) > 1:
    raise ValueError(
      f"flops={flops} needs a game that deals three cards first, and then single ones, not "
      f"deals={dealing.deals} with {len(dealing.board)} cards on the board"
    )
  most = len(flop_classes(dealing.deck)[0])
  if isinstance(flops, bool) or not isinstance(flops, int) or not 1 <= flops <= most:
    raise ValueError(
      f"flops={flops!r} must be a whole number from 1 to {most}, the suit classes of this deck, or "
      "0 for all flops"
    )


def draw_flops(deck: Deck, number: int, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Draws flops such that sums over them are, on average, sums over all flops.

  With as many as there are classes each comes once, its suits renamed at random, and stands for the
  size of its class: the mean over the renamings is exactly the sum over all flops. With fewer,
  classes are drawn by their sizes, and each stands for an equal share of all flops.

  Args:
    deck: the cards.
    number: of flops, at most that of the classes.
    draw: `[]` integer that decides what is drawn.

  Returns:
    Numbers of flops `[number]`, in the order of `itertools.combinations`, and how many flops each
    stands for `[number]`.
  """
  flops, sizes = flop_classes(deck)
  class_key, suit_key = jax.random.split(jax.random.key(draw))
  permutations = jnp.asarray(_permutations(deck))
  if number == len(flops):
    chosen, stand_for = jnp.asarray(flops), jnp.asarray(sizes, float)
    suits = jax.random.choice(suit_key, permutations)[None]
  else:
    # One in each of equal strata of all flops, so that few of them are spread over the classes.
    quantiles = (
      jnp.arange(number, dtype=float) + jax.random.uniform(class_key, (number,))
    ) / number
    below = jnp.asarray(np.cumsum(sizes) / sizes.sum())
    picked = jnp.minimum(jnp.searchsorted(below, quantiles, side="right"), len(flops) - 1)
    chosen, stand_for = jnp.asarray(flops)[picked], jnp.full(number, sizes.sum() / number)
    suits = jax.random.choice(suit_key, permutations, (number,))
  suit_of, first = jnp.asarray(deck.suit_of), jnp.asarray(_first_of_rank(deck))
  renamed = first[chosen] + jnp.take_along_axis(
    jnp.broadcast_to(suits, (len(chosen), suits.shape[-1])), suit_of[chosen], axis=1
  )
  return place_among(_all_flops(deck), jnp.sort(renamed, axis=1)), stand_for


def _permutations(deck: Deck) -> np.ndarray:
  """Returns all renamings of suits: `[.., suits]`."""
  return np.array(list(itertools.permutations(range(len(deck.suits)))))


def _first_of_rank(deck: Deck) -> np.ndarray:
  """Returns the first card of each card's rank: cards of a rank are numbered by suit."""
  cards = np.arange(deck.num_cards)
  return cards - deck.suit_of


def _renamed(deck: Deck, suits: np.ndarray, cards: np.ndarray) -> np.ndarray:
  return _first_of_rank(deck)[cards] + suits[deck.suit_of[cards]]


@functools.lru_cache(maxsize=8)
def _all_flops(deck: Deck) -> np.ndarray:
  return np.array(list(itertools.combinations(range(deck.num_cards), FLOP)))
