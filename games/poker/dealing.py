"""Cards on the board: at the start, dealt later, and the flops that a search looks at."""

import dataclasses
import functools
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import Rows, is_whole, lookup, one_hot, short, xp
from games.pairs import compatible_mass, holds
from games.poker import betting
from games.poker.cards import MAX_CARDS, NUM_HOLE_CARDS, Deck, strengths_on

NO_CARD = -1
_MAX_BOARDS = 100_000


@dataclasses.dataclass(frozen=True)
class Dealing:
  """Cards dealt face up: some at the start, then sets of them, each after a round of betting."""

  # A deal is numbered among all sets of as many cards of the deck; `rounds` `[n]` counts deals
  # before.

  deck: Deck  # the cards there are
  board: tuple[int, ...]  # cards that lie at the start
  deals: tuple[int, ...]  # how many cards each deal has

  def __post_init__(self):
    deck, board, deals, number = self.deck, self.board, self.deals, self.deck.num_cards
    if len(set(board)) < len(board):
      raise ValueError(f"board={deck.names(board)!r} holds a card twice; cards must differ")
    if any(not 0 <= card < number for card in board):
      raise ValueError(f"board={board} holds a card outside the deck's 0 to {number - 1}")
    if any(k < 1 for k in deals):
      raise ValueError(f"deals={deals} must be positive numbers of cards")
    shown = len(board) + sum(deals)
    if NUM_HOLE_CARDS + shown > MAX_CARDS:
      raise ValueError(
        f"board of {len(board)} cards with deals={deals} gives {shown} cards on the "
        f"board; at most {MAX_CARDS - NUM_HOLE_CARDS} are compared"
      )
    if number < shown + 2 * NUM_HOLE_CARDS:
      raise ValueError(
        f"a deck of {number} cards is too small for {shown} on the board and two hands; "
        f"{shown + 2 * NUM_HOLE_CARDS} are needed"
      )

  @property
  def num_deals(self) -> int:
    """The largest number of sets that a deal is one of."""
    return max((len(sets) for sets in self.sets), default=0)

  @functools.cached_property
  def sets(self) -> list[np.ndarray]:
    """For each deal all sets of cards `[number of sets, cards]`, those on the board too."""
    cards = range(self.deck.num_cards)
    return [np.array(list(itertools.combinations(cards, k))) for k in self.deals]

  @property
  def listable(self) -> bool:
    """Whether all boards that can come of it are few enough to be listed."""
    live = self.deck.num_cards - len(self.board)
    return math.comb(live, sum(self.deals)) <= _MAX_BOARDS

  @functools.cached_property
  def final(self) -> np.ndarray:
    """`[K, cards]` all cards that can have been dealt in the end, in order; refused if too many."""
    live = [card for card in range(self.deck.num_cards) if card not in self.board]
    total = sum(self.deals)
    if not self.listable:
      raise ValueError(
        f"deals={self.deals} from {len(live)} cards make more than {_MAX_BOARDS} boards, too many "
        "for a tree of the whole game; start from a later round or use a smaller deck"
      )
    sets = list(itertools.combinations(live, total))
    return np.array(sets, int).reshape(len(sets), total)

  def strengths_on(self, hole_cards: np.ndarray, dealt: np.ndarray) -> np.ndarray:
    """Returns how strong hands `[H, 2]` are where `dealt` `[K, k]` are dealt: `[K, H]`."""
    result = np.empty((len(dealt), len(hole_cards)), np.int32)
    for row, cards in zip(result, dealt):  # all at once would not fit in memory
      row[:] = strengths_on(self.deck, hole_cards, np.array([*self.board, *cards], int))
    return result

  def shown(self, cards: Rows) -> Rows:
    """Returns which cards are among those on the board, `cards` `[n, k]`: `[n, deck's cards]`."""
    return one_hot(cards, self.deck.num_cards).any(axis=1)

  def left(self, rounds: Rows, cards: Rows) -> Rows:
    """Returns which deals `cards` `[n, k]` on the board leave: `[n, num_deals]`."""
    shown = self.shown(cards)
    left = xp.zeros((len(shown), self.num_deals), bool)
    for index, sets in enumerate(self.sets):
      free = (rounds == index)[:, None]
      for cards in sets.T:
        free = free & ~shown[:, cards]
      left = left | xp.pad(free, ((0, 0), (0, self.num_deals - len(sets))))
    return left

  def cards(self, rounds: Rows, numbers: Rows) -> Rows:
    """Returns the cards of deals `numbers` `[n]`, -1 where one is of fewer: `[n, k]`."""
    number, most = self.deck.num_cards, max(self.deals, default=1)
    dealt = lookup(np.array([*self.deals, 0]), rounds)
    cards = xp.full((len(numbers), most), NO_CARD, dtype=rounds.dtype)
    for size in set(self.deals):
      # Not from a table: one of all flops would be in a program as often as it deals. Counted from
      # the last, a set's number is a sum of binomial coefficients, one a card, each the largest.
      last = math.comb(number, size) - 1
      left, columns = last - numbers.clip(0, last), [cards[:, 0]] * most
      for i in range(size):
        sums = np.array([math.comb(c, size - i) for c in range(number)], left.dtype)
        place = (left[:, None] >= sums[None]).sum(axis=1, dtype=left.dtype) - 1
        left = left - lookup(sums, place)
        columns[i] = (number - 1 - place).astype(rounds.dtype)
      cards = xp.where((dealt == size)[:, None], xp.stack(columns, axis=1), cards)
    return cards

  def number(self, cards: Rows) -> Rows:
    """Returns the numbers of deals of `cards` `[n, k]`, each in increasing order: `[n]`."""
    return place_among(next(x for x in self.sets if x.shape[1] == cards.shape[1]), cards)

  def probability(self, rounds: Rows) -> Rows:
    """Returns the probability of a deal that neither player's hand blocks: `[n]`."""
    left = self.deck.num_cards - len(self.board) - 2 * NUM_HOLE_CARDS
    before = np.cumsum([0, *self.deals]).tolist()
    sets = [math.comb(left - gone, k) for gone, k in zip(before, [*self.deals, 0])]
    return lookup(1 / np.array(sets), rounds)

  def final_index(self, dealt: Rows) -> Rows:
    """Returns which of `final` the cards `dealt` `[n, k]` are, in any order: `[n]`."""
    return place_among(self.final, xp.sort(dealt, axis=1))


def place_among(sets: np.ndarray, cards: Rows) -> Rows:
  """Returns the index among sorted `sets` `[N, k]` of sorted sets of cards `[n, k]`: `[n]`."""
  base = (1 + int(sets.max(initial=0))) ** np.arange(sets.shape[1])[::-1]
  numbers = (cards * base.astype(cards.dtype)[None]).sum(axis=1, dtype=cards.dtype)
  return xp.searchsorted((sets @ base).astype(cards.dtype), numbers)


def draw_cards(game: Any, keys: jax.Array, states: jax.Array, reach: jax.Array) -> jax.Array:
  """Deals hold'em's next cards, given keys `[B]` and `reach` `[B, P, H]`: states `[B, S]`."""
  # A pair of hands is drawn first and then cards that neither holds, so that boards come with their
  # probability given the reach. Meaningless where nothing is to be dealt.
  hands = jnp.asarray(game.hole_cards)
  tiny = jnp.finfo(reach.dtype).tiny
  board = game.on_board(states)

  def draw(key, own, other, shown):
    keys = jax.random.split(key, 3)
    held = holds(hands, game.deck.num_cards, reach.dtype)
    mass = own * compatible_mass(other, held)
    first = hands[jax.random.categorical(keys[0], jnp.log(jnp.maximum(mass, 0) + tiny))]
    apart = ~(hands[:, :, None] == first[None, None]).any(axis=(1, 2))
    mass = jnp.where(apart, other, 0.0)
    second = hands[jax.random.categorical(keys[1], jnp.log(mass + tiny))]
    taken = jnp.concatenate([first, second, shown])
    free = ~(jnp.arange(game.deck.num_cards)[:, None] == taken[None]).any(axis=1)
    return jnp.argsort(jnp.where(free, jax.random.uniform(keys[2], free.shape), 2.0))

  order = jax.vmap(draw)(keys, reach[:, 0], reach[:, 1], board)
  after = states
  for number, size in enumerate(game.deals):
    cards = jnp.sort(order[:, :size], axis=1)
    dealt = game.next_states(states, game.first_deal + game.dealing.number(cards))
    after = jnp.where((states[:, betting.ROUND] == number)[:, None], dealt, after)
  return after


FLOP = 3


@functools.lru_cache(maxsize=8)
def flop_classes(deck: Deck) -> tuple[np.ndarray, np.ndarray]:
  """Returns a flop of each class `[C, 3]` that renamed suits make alike, and class sizes `[C]`."""
  flops = np.array(list(itertools.combinations(range(deck.num_cards), FLOP)))
  renamed = np.sort(deck.renamings[:, flops], axis=-1)
  codes = place_among(flops, renamed.reshape(-1, FLOP)).reshape(len(renamed), -1).min(axis=0)
  _, first, sizes = np.unique(codes, return_index=True, return_counts=True)
  return flops[first], sizes


def check_flops(dealing: Dealing, flops: int | None) -> None:
  """Checks how many flops a search may look at."""
  if flops is None:
    return
  if dealing.board or dealing.deals[:1] != (FLOP,) or max(dealing.deals[1:], default=1) > 1:
    raise ValueError(
      f"flops={flops} needs a game that deals three cards first, and then single ones, not "
      f"deals={dealing.deals} with {len(dealing.board)} cards on the board"
    )
  most = len(flop_classes(dealing.deck)[0])
  if not is_whole(flops, 1, most):
    raise ValueError(
      f"flops={short(flops)} must be a whole number from 1 to {most}, the suit classes of this "
      "deck, or 0 for all flops"
    )


def draw_flops(dealing: Dealing, number: int, draw: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Draws flops' numbers `[number]`, and how many flops of all each stands for `[number]`."""
  # Sums over them are, on average, sums over all flops. With as many as there are classes each
  # comes once, its suits renamed at random, for its class: the mean over the renamings is exact.
  # With fewer, classes are drawn by their sizes, and each stands for an equal share.
  deck = dealing.deck
  flops, sizes = flop_classes(deck)
  class_key, suit_key = jax.random.split(jax.random.key(draw))
  renamings = jnp.asarray(deck.renamings)
  if number == len(flops):
    chosen, stand_for = jnp.asarray(flops), jnp.asarray(sizes, float)
    cards = jax.random.choice(suit_key, renamings)[None]
  else:
    # One in each of equal strata of all flops, so that few of them are spread over the classes.
    quantiles = (
      jnp.arange(number, dtype=float) + jax.random.uniform(class_key, (number,))
    ) / number
    below = jnp.asarray(np.cumsum(sizes) / sizes.sum())
    picked = jnp.minimum(jnp.searchsorted(below, quantiles, side="right"), len(flops) - 1)
    chosen, stand_for = jnp.asarray(flops)[picked], jnp.full(number, sizes.sum() / number)
    cards = jax.random.choice(suit_key, renamings, (number,))
  cards = jnp.broadcast_to(cards, (len(chosen), deck.num_cards))
  renamed = jnp.take_along_axis(cards, chosen, axis=1)
  return dealing.number(jnp.sort(renamed, axis=1)), stand_for
