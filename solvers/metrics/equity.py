"""How often a hand wins at the showdown against a range, if nobody bets any more."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.card_removal import compatible_mass, holds
from games.pairs import most_hands_per_card
from games.poker import Holdem
from games.poker.cards import NUM_HOLE_CARDS, Deck
from games.poker.hands import strengths_on
from solvers.sweeps.showdowns import Hands, Showdowns, make_showdowns, showdown_values
from solvers.sweeps.showdowns import compatible_mass as masses

NOTHING = 1e-12  # what sums that cancel leave of nothing, as a share of the whole
_MOST_LISTED = 2**20  # ways to deal the rest of a board
_MOST_ENTRIES = 2**22  # strengths of boards that are compared at once


class _Boards(NamedTuple):
  """Final boards: their showdowns, and `[B, H]` whether each leaves the hand."""

  showdowns: Showdowns
  live: jax.Array


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
    cards, number = np.asarray(game.hole_cards, np.int32), game.deck.num_cards
    self._held = holds(cards, number)
    self._sort, self._showdowns = _programs(game.deck, cards.tobytes(), len(cards))
    # What is kept of a board of the whole deck is large, and it does not come again.
    self._boards = functools.lru_cache(maxsize=8 if game.unlisted else 4096)(self._sorted)

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
    with jax.enable_x64(True):  # small sums of large numbers
      for boards in self._boards(tuple(sorted(int(card) for card in dealt if card >= 0))):
        more, weight = map(np.asarray, self._showdowns(boards, np.asarray(reach, float)))
        won, mass = won + more, mass + weight
    some = mass > NOTHING * max(mass.max(), 1e-300)
    share = np.where(some, won / np.where(some, mass, 1.0), 0.5)
    together = compatible_mass(reach, self._held)
    return share, np.where(together > NOTHING * reach.sum(), together, 0.0)

  def _sorted(self, dealt: tuple[int, ...]) -> list[_Boards]:
    """Returns the final boards that hold the cards `dealt`, in pieces."""
    strengths = self._strengths_after(dealt)
    most = max(1, _MOST_ENTRIES // strengths.shape[1])
    return [self._sort(strengths[i : i + most]) for i in range(0, len(strengths), most)]

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


@functools.lru_cache(maxsize=16)
def _programs(deck: Deck, cards: bytes, number: int) -> tuple[Callable, Callable]:
  """Returns what prepares boards, from strengths `[B, H]`, and what sums over their showdowns.

  The second returns what each hand wins, ties as half, and against how much of `reach` `[H]`.
  """
  table = np.frombuffer(cards, np.int32).reshape(number, NUM_HOLE_CARDS)
  every = number == math.comb(deck.num_cards, NUM_HOLE_CARDS)
  most = deck.num_cards - 1 if every else most_hands_per_card(table)
  hands = Hands(table, deck.num_cards, most, every)

  @jax.jit
  def sort(strengths: jax.Array) -> _Boards:
    return _Boards(make_showdowns(strengths, float, hands=hands), strengths >= 0)

  @jax.jit
  def showdowns(boards: _Boards, reach: jax.Array) -> tuple[jax.Array, jax.Array]:
    live = jnp.where(boards.live, reach, 0.0)
    won = showdown_values(boards.showdowns, live[:, None])[:, 0]  # less what is lost
    mass = masses(live, hands.held(live.dtype))
    won, mass = (jnp.where(boards.live, x, 0.0).sum(axis=0) for x in (won, mass))
    return (won + mass) / 2, mass

  return sort, showdowns


def final_boards(game: Holdem, dealt: Sequence[int]) -> np.ndarray:
  """Returns the cards of all final boards that hold the cards `dealt` since the start: `[B, k]`."""
  free, left = _to_come(game, dealt)
  rest = np.array(list(itertools.combinations(free.tolist(), left)), int)
  return _followed(dealt, rest.reshape(math.comb(len(free), left), left))


def strengths_where(game: Holdem, dealt: np.ndarray) -> np.ndarray:
  """Returns how strong all hands are where `dealt` `[B, k]` are dealt: `[B, H]`, -1 if blocked."""
  if game.unlisted:
    hands, board = np.asarray(game.hole_cards, np.int32), np.array(game.board, np.int32)
    return np.asarray(_strengths_on(hands, board, np.asarray(dealt, np.int32), game.deck))
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
