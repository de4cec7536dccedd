"""How often a hand wins at the showdown against a range, if nobody bets any more."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from games.card_removal import compatible_mass, holds
from games.poker import Holdem
from games.poker.cards import Deck
from games.poker.hands import strengths_on

NOTHING = 1e-12  # what sums that cancel leave of nothing, as a share of the whole
_MOST_LISTED = 2**20  # ways to deal the rest of a board
_MOST_ENTRIES = 2**22  # of sums that are held at once


@dataclasses.dataclass(frozen=True)
class _Boards:
  """Final boards, and the order of hands on each.

  Attributes:
    order: `[B, H]` the hands by strength, those that the board blocks first.
    below, upto: `[B, H]` how many hands are weaker than each, and not stronger.
    live: `[B, H]` whether the board leaves the hand.
  """

  order: np.ndarray
  below: np.ndarray
  upto: np.ndarray
  live: np.ndarray


class Equity:
  """Shares of the pot that hands win where the rest of the board is dealt and nobody bets.

  Args:
    game: hold'em.
    max_runouts: at most so many ways to deal the rest are looked at: all of them, exactly, or so
      many drawn once for each board, all equally likely.
    seed: of what is drawn.
  """

  def __init__(self, game: Holdem, *, max_runouts: int, seed: int):
    self._max_runouts, self._seed = max_runouts, seed
    self._game = game
    hands = np.asarray(game.hole_cards)
    self._hands, self._held = hands, holds(hands, game.deck.num_cards)
    self._boards = functools.lru_cache(maxsize=4096)(self._sort)

  def __call__(self, dealt: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each hand's share of the pot, and the mass that it is an average over.

    Args:
      dealt: `[k]` cards dealt since the start of the game, -1 for those to come.
      reach: `[H]` the other's hands, of any sum; what a hand's own cards block is left out.

    Returns:
      `[H]` wins and half of the ties, from 0 to 1; a half where nothing is left to compare with.
      `[H]` how much of `reach` shares no card with the hand.
    """
    won = mass = np.zeros(len(reach))
    for boards in self._boards(tuple(sorted(int(card) for card in dealt if card >= 0))):
      more, weight = self._showdowns(boards, reach)
      won, mass = won + more, mass + weight
    some = mass > NOTHING * max(mass.max(), 1e-300)
    share = np.where(some, won / np.where(some, mass, 1.0), 0.5)
    together = compatible_mass(reach, self._held)
    return share, np.where(together > NOTHING * reach.sum(), together, 0.0)

  def _sort(self, dealt: tuple[int, ...]) -> list[_Boards]:
    """Returns the final boards that hold the cards `dealt`, in pieces."""
    strengths = self._strengths_after(dealt)
    most = max(1, _MOST_ENTRIES // self._held.size)
    return [self._sort_piece(strengths[i : i + most]) for i in range(0, len(strengths), most)]

  def _strengths_after(self, dealt: tuple[int, ...]) -> np.ndarray:
    """Returns the hands' strengths on the final boards, or on some of them: `[B, H]`."""
    rng = np.random.default_rng([self._seed, *dealt])
    free, left = _to_come(self._game, dealt)
    if math.comb(len(free), left) > _MOST_LISTED:
      rest = np.array([rng.choice(free, left, replace=False) for _ in range(self._max_runouts)])
      return strengths_where(self._game, _followed(dealt, rest))
    boards = final_boards(self._game, dealt)
    if len(boards) > self._max_runouts:
      boards = boards[np.sort(rng.choice(len(boards), self._max_runouts, replace=False))]
    return strengths_where(self._game, boards)

  def _sort_piece(self, strengths: np.ndarray) -> _Boards:
    order = np.argsort(strengths, axis=1, kind="stable")
    ordered = np.take_along_axis(strengths, order, axis=1)
    pairs = list(zip(ordered, strengths))
    below = np.stack([np.searchsorted(x, s, side="left") for x, s in pairs])
    upto = np.stack([np.searchsorted(x, s, side="right") for x, s in pairs])
    return _Boards(order, below, upto, strengths >= 0)

  def _showdowns(self, boards: _Boards, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what each hand wins, and against how much, summed over boards: both `[H]`."""
    live = reach * boards.live  # [B, H]
    ordered = np.take_along_axis(live, boards.order, axis=1)
    by_card = ordered[:, :, None] * self._held[boards.order]  # [B, H, cards]
    sums = _sums(np.concatenate([ordered[:, :, None], by_card], axis=2))  # [B, H + 1, 1 + cards]
    which, (first, second) = np.arange(len(live))[:, None], self._hands.T

    def until(places: np.ndarray) -> np.ndarray:
      """Returns the mass up to `places` `[B, H]` without each hand's own cards.

      A hand that holds both of them is the hand itself, which is on both sides of a tie.
      """
      return sums[which, places, 0] - sum(sums[which, places, 1 + card] for card in (first, second))

    weaker, no_better = until(boards.below), until(boards.upto)
    everything = compatible_mass(live, self._held)
    # The hand itself was taken out twice where it ties: once for each of its cards.
    won = np.where(boards.live, (weaker + no_better + live) / 2, 0.0)
    mass = np.where(boards.live, everything, 0.0)
    return won.sum(axis=0), mass.sum(axis=0)


def final_boards(game: Holdem, dealt: Sequence[int]) -> np.ndarray:
  """Returns the cards of all final boards that hold the cards `dealt` since the start: `[B, k]`."""
  free, left = _to_come(game, dealt)
  rest = np.array(list(itertools.combinations(free.tolist(), left)), int)
  return _followed(dealt, rest.reshape(math.comb(len(free), left), left))


def strengths_where(game: Holdem, dealt: np.ndarray) -> np.ndarray:
  """Returns how strong all hands are where `dealt` `[B, k]` are dealt: `[B, H]`, -1 if blocked."""
  if game.unlisted:
    hands, board = np.asarray(game.hole_cards), np.array(game.board, int)
    return np.asarray(_strengths_on(hands, board, dealt, game.deck))
  if dealt.shape[1] < sum(game.deals):
    return game.dealing.strengths_on(game.hole_cards, dealt)
  return np.asarray(game.strengths())[game.dealing.final_index(dealt)]


@functools.partial(jax.jit, static_argnames="deck")
def _strengths_on(hands, board, dealt, deck: Deck) -> jax.Array:
  return jax.vmap(lambda cards: strengths_on(deck, hands, jnp.concatenate([board, cards])))(dealt)


def _to_come(game: Holdem, dealt: Sequence[int]) -> tuple[np.ndarray, int]:
  """Returns the cards that may still be dealt, and how many will be."""
  free = np.setdiff1d(np.arange(game.deck.num_cards), [*game.board, *dealt])
  return free, sum(game.deals) - len(dealt)


def _followed(dealt: Sequence[int], rest: np.ndarray) -> np.ndarray:
  return np.concatenate([np.tile(np.array(dealt, int), (len(rest), 1)), rest], axis=1)


def _sums(rows: np.ndarray) -> np.ndarray:
  """Returns the sums of the first 0, 1, 2, ... rows of each board: `[B, H + 1, n]`."""
  nothing = np.zeros((len(rows), 1, rows.shape[2]))
  return np.concatenate([nothing, np.cumsum(rows, axis=1)], axis=1)
