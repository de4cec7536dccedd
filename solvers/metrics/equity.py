"""Shares of the pot at the showdown without further bets: against a range, and for AIVAT."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import Game
from games.pairs import compatible_mass, holds, most_hands_per_card
from games.poker import Holdem, betting
from games.poker.cards import NUM_HOLE_CARDS, Deck, strengths_on
from solvers import validation
from solvers.metrics.aivat import HandPairs, History, LuckyMove, ValueFunction, chance_of
from solvers.sweeps.showdowns import Hands, Showdowns, make_showdowns, showdown_values

NOTHING = 1e-12  # what sums that cancel leave of nothing, as a share of the whole
_MOST_LISTED = 2**20  # ways to deal the rest of a board
_MOST_ENTRIES = 2**22  # strengths of boards that are compared at once


class _Boards(NamedTuple):
  """Final boards: their showdowns, and `[B, H]` whether each leaves the hand."""

  showdowns: Showdowns
  live: jax.Array


class Equity:
  """Shares of the pot that hands win over the rest of the board, without further bets.

  Args:
    game: hold'em.
    max_runouts: at most so many ways to deal the rest are looked at: all of them, exactly, or so
      many drawn once for each board, all equally likely.
    seed: of what is drawn.
  """

  @validation.checked
  def __init__(self, game: Holdem, *, max_runouts: validation.Positive, seed: int):
    self._game, self._max_runouts, self._seed = game, max_runouts, seed
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
  """Returns two programs: boards prepared from strengths `[B, H]`, and sums over their showdowns.

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
    mass = compatible_mass(live, holds(hands.cards, hands.num_cards, live.dtype))
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


MAX_RUNOUTS = 2_000
# What the whole way through the order of hands on a flop is worth, in shares of the pot: about what
# least squares over flops and pairs of hands drawn at random gave. Any number is unbiased.
_WORTH_OF_ORDER = 1.25
_BOARDS_AT_ONCE = 1_024


class PotShares(ValueFunction):
  """Shares of the pot without further bets, times the chips.

  Where the ways to deal the rest of the board are at most `max_runouts`, shares are means over all
  of them. Where they are more before the first deal, as before a flop, a hand counts as much as its
  place in the order of hands after that deal, on average over its outcomes; the deal is corrected
  by that place. Later deals that leave too many are not corrected, which costs no bias.

  Args:
    game: hold'em.
    max_runouts: how many ways to deal the rest of the board may be looked at.

  Raises:
    TypeError: the game is not hold'em, or a number is none.
  """

  @validation.checked
  def __init__(self, game: Holdem, *, max_runouts: validation.Positive = MAX_RUNOUTS):
    self._game, self._max_runouts = game, max_runouts
    self._runouts = functools.lru_cache(maxsize=16)(
      lambda dealt: strengths_where(game, final_boards(game, dealt))  # `[B, H]`
    )
    self._root_shares: np.ndarray | None = None

  def prepare(self, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
    """Computes the values before the first deal, of a pot of one chip each: `[H, H]`.

    They are computed once, by the first hand if not here; `progress` is called with how much is
    done, and all there is.
    """
    if self._root_shares is None:
      if self._listed(()):
        everyone = np.arange(self._game.num_infostates)
        columns = [_shares(self._runouts(()), (everyone, everyone[h : h + 1])) for h in everyone]
        self._root_shares = np.stack(columns, axis=1)
      else:
        self._root_shares = self._mean_orders(progress)
    return self._root_shares

  def at(self, history: History, state: np.ndarray, hands: HandPairs) -> np.ndarray:
    """See `ValueFunction`; where the hand is over, what player 0 wins."""
    chips = float(self._game.payoff_scale(state[None])[0])  # negative where player 0 folded
    if state[betting.STATUS] in (betting.FOLDED_0, betting.FOLDED_1):
      return np.full(hands[0].shape, chips)
    dealt = self._dealt(state)
    if not dealt:
      return chips * self.prepare()[hands]
    if not self._listed(dealt):
      return np.zeros(hands[0].shape)
    return chips * _shares(self._runouts(dealt), hands)

  def deal(
    self, game: Game, history: History, state: np.ndarray, action: int, hands: HandPairs
  ) -> LuckyMove:
    """See `ValueFunction`; all other cards that could have come are one outcome."""
    weight = chance_of(game, state, np.array([action]), hands)[0]
    value = mean = np.zeros(weight.shape)
    dealt, after = self._dealt(state), game.next_states(state[None], np.array([action]))[0]
    if self._listed(dealt):
      value, mean = self.at((), after, hands), self.at((), state, hands)
    elif not dealt and (cards := self._dealt(after)):
      order = self._order(np.array([cards]))[0]
      chips = float(self._game.payoff_scale(state[None])[0])
      value = _WORTH_OF_ORDER * chips * (order[hands[0]] - order[hands[1]])
      mean = self.at((), state, hands)
    rest = 1 - weight
    others = (mean - weight * value) / np.where(rest > 0, rest, 1)
    return LuckyMove(0, np.stack([weight, rest]), np.stack([value, others]))

  def _listed(self, dealt: tuple[int, ...]) -> bool:
    """Says whether all ways to deal the rest of the board are looked at."""
    free = self._game.deck.num_cards - len(self._game.board) - len(dealt)
    return math.comb(free, sum(self._game.deals) - len(dealt)) <= self._max_runouts

  def _dealt(self, state: np.ndarray) -> tuple[int, ...]:
    return tuple(int(card) for card in self._game.dealt(state[None])[0] if card >= 0)

  # Where boards are too many.

  def _order(self, dealt: np.ndarray) -> np.ndarray:
    """Returns each hand's place in the order of hands, 0 to 1, where `dealt` `[B, k]` are dealt.

    `[B, H]`, -1 where the cards block the hand.
    """
    strengths = strengths_where(self._game, dealt)
    found = np.full(strengths.shape, -1.0)
    for row, strength in zip(found, strengths):
      live = strength >= 0
      ranked = np.sort(strength[live])
      weaker, upto = (np.searchsorted(ranked, strength[live], side) for side in ("left", "right"))
      row[live] = (weaker + upto) / (2 * len(ranked))
    return found

  def _mean_orders(self, progress: Callable[[int, int], None] | None) -> np.ndarray:
    """Returns by how much player 0's place is better than player 1's: `[H, H]`.

    The mean is over all outcomes of the first deal that both hands leave, in units of the value
    function.
    """
    game = self._game
    sets = game.dealing.sets[0]
    sets = sets[~np.isin(sets, game.board).any(axis=1)]
    total = np.zeros((game.num_infostates,) * 2)
    for first in range(0, len(sets), _BOARDS_AT_ONCE):
      if progress is not None:
        progress(first, len(sets))
      order = self._order(sets[first : first + _BOARDS_AT_ONCE])
      live = (order >= 0).astype(float)
      places = (order * live).T @ live
      total += places - places.T
    return _WORTH_OF_ORDER * float(game.dealing.probability(np.array([0]))[0]) * total


def _shares(strengths: np.ndarray, hands: HandPairs) -> np.ndarray:
  """Returns wins less losses as a share of the boards that both hands of a pair leave: `[K]`.

  Args:
    strengths: `[B, H]` on final boards, -1 where blocked.
    hands: pairs.
  """
  first, second = strengths[:, hands[0]], strengths[:, hands[1]]
  both = (first >= 0) & (second >= 0)
  wins, number = (np.sign(first - second) * both).sum(axis=0), both.sum(axis=0)
  return np.where(number > 0, wins / np.maximum(number, 1), 0.0)
