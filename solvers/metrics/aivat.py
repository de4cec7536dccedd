"""AIVAT: an unbiased estimate of a hand's payoff, of low variance (Burch et al., 2018)."""
# The estimate replaces the payoff by its mean over the infostates that the known player could hold,
# and subtracts, by a value function, the luck of chance and of the known player's own draws. Each
# correction has mean zero, whatever the function is, if that was fixed before the hand and the
# policy is the one that was played. So the estimate's mean is that of the payoffs.

import abc
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, TERMINAL, Game
from games.poker import Holdem, betting
from games.poker.cards import Deck, strengths_on
from games.public_tree import Array, PublicTree
from games.tabulate import children_of
from solvers import validation
from solvers.metrics.policies import check_whole
from solvers.sweeps import pairs
from solvers.sweeps.levels import join_levels
from solvers.sweeps.problem import make_problem, per_unit_of_mass

History = tuple[int, ...]  # public actions, chance's too
HandPairs = tuple[np.ndarray, np.ndarray]  # player 0's and player 1's infostates of pairs


class LuckyMove(NamedTuple):
  """A deal, or a public move of chance or of the known player, with all its outcomes."""

  taken: int  # which of the `C` outcomes happened
  # `[C, K]` probability of each outcome, given what the known player holds; of a deal, of both
  weights: np.ndarray
  values: np.ndarray  # `[C, K]` value function after each


class HandRecord(NamedTuple):
  """The record of one hand, as `aivat` takes it.

  `K` is what the known player could hold, `H` infostates; where both are known, `K` is all pairs.

  Attributes:
    moves: the deal, whose outcomes are what the other could hold, one where both are known; and
      moves of chance and of the known player, in order.
    payoffs: `[K]` what the known player wins at the end, given what it holds.
  """

  moves: tuple[LuckyMove, ...]
  payoffs: np.ndarray


class ValueFunction(abc.ABC):
  """Estimate of the values to player 0 of pairs of infostates at public states.

  `aivat` is unbiased whatever the values are, so long as they do not depend on how the hand went;
  the more accurate they are, the lower its variance.
  """

  @abc.abstractmethod
  def at(self, history: History, state: np.ndarray, hands: HandPairs) -> np.ndarray:
    """Returns the values of pairs `hands` after `history`, which leads to `state`.

    Values of infostates that exclude each other are ignored.
    """

  def deal(
    self, game: Game, history: History, state: np.ndarray, action: int, hands: HandPairs
  ) -> LuckyMove:
    """Returns chance's move `action` in `state`, and all others that it could have made."""
    actions = np.flatnonzero(game.legal_actions(state[None])[0])
    below = game.next_states(np.tile(state, (len(actions), 1)), actions)
    values = [self.at((*history, x), y, hands) for x, y in zip(actions.tolist(), below)]
    taken = actions.tolist().index(action)
    return LuckyMove(taken, chance_of(game, state, actions, hands), np.stack(values))


class TreeValues(ValueFunction):
  """Value function of a whole tree: a table `[H, H]` a node, of player 0's and 1's infostates."""

  def __init__(self, tree: PublicTree, table: Callable[[int], Array]):
    self._children, self._table = children_of(tree), table

  def at(self, history: History, state: np.ndarray, hands: HandPairs) -> np.ndarray:
    node = functools.reduce(lambda node, action: int(self._children[node, action]), history, 0)
    return np.asarray(self._table(node), float)[hands]


def chance_of(game: Game, state: np.ndarray, actions: np.ndarray, hands: HandPairs) -> np.ndarray:
  """Returns the probability of each of `actions` of chance given pairs of infostates: `[C, K]`."""
  probability, possible = game.chance(np.tile(state, (len(actions), 1)), actions)
  return probability[:, None] * (possible[:, 0, hands[0]] & possible[:, 1, hands[1]])


@validation.checked
def aivat(record: HandRecord) -> float:
  """Computes the AIVAT estimate of the known player's payoff in a hand (Burch et al., 2018).

  `R(k)` is the probability that nature and the known player reach a node with `k`, given what the
  other holds. The estimate is the mean payoff by `R` at the end and, for the deal and every move of
  chance or the known player, the mean value of all outcomes less that of the one that happened.

  Raises:
    TypeError: `record` is something else.
    ValueError: by its policy the known player, or chance, never makes a move that was made.
  """
  reach, estimate = np.ones(len(record.payoffs)), 0.0
  for number, (taken, weights, values) in enumerate(record.moves):
    after = reach * weights
    total = after[taken].sum()
    if not total > 0:
      raise ValueError(
        f"move={number} of the record cannot happen by its policy; give the policy that was played"
      )
    reach = after[taken] / total
    estimate += float((after * values).sum() / after.sum() - reach @ values[taken])
  return estimate + float(reach @ record.payoffs)


class HandRecorder:
  """Gathers hands of a game for `aivat`.

  Args:
    game: the rules; infostates must not change (no hidden moves).
    values: fixed before the hands: `zero_values`, `half_the_difference` or `PotShares`.

  Raises:
    TypeError: an argument is of another kind.
  """

  @validation.checked
  def __init__(self, game: Game, values: ValueFunction):
    self._game, self._values = game, values
    self._begin = functools.cache(self._at_start)
    self._state = functools.lru_cache(maxsize=2048)(self._state_after)

  @validation.checked
  def record(
    self,
    history: Sequence[int],
    infostates: tuple[int | None, int | None],
    policy: Mapping[History, Array],
  ) -> HandRecord:
    """Returns the record of a hand; payoffs are the known player's, player 0's if both are known.

    Args:
      history: public actions, chance's too, from the start of the game to an end.
      infostates: what each player held; None for one of them, or both, whose policy is known.
      policy: rows `[H]` by public history: the known player's policy in this hand at each move that
        it had, the ones not taken too, by the history that the move leads to.

    Raises:
      TypeError: an argument is of another kind.
      ValueError: `history` does not end the game, a move of it is hidden, or `infostates` are not
        allowed.
    """
    game, history = self._game, tuple(history)
    if game.actor(game.state_after(history)[None])[0] != TERMINAL:
      raise ValueError(f"history={history} must lead to where the game is over")
    seat, held = _check_infostates(infostates, game.num_infostates)
    sign = -1.0 if seat == 1 else 1.0
    grid, joint, root_values = self._begin(seat)
    hands = grid[0][held], grid[1][held]
    moves = [LuckyMove(held, joint, root_values)]
    for place, action in enumerate(history):
      before = history[:place]
      state = self._state(before)
      if game.infostate_parents(state[None], np.array([action])) is not None:
        raise ValueError(f"{game!r} has hidden moves; AIVAT is for infostates that never change")
      mover = int(game.actor(state[None])[0])
      if mover == CHANCE:
        deal = self._values.deal(game, before, state, action, hands)
        moves.append(deal._replace(values=sign * deal.values))
      elif seat is None or mover == seat:
        legal = np.flatnonzero(game.legal_actions(state[None])[0]).tolist()
        after = [(*before, x) for x in legal]
        rows = [_row_of(policy, x, game.num_infostates)[hands[mover]] for x in after]
        values = [sign * self._values.at(x, self._state(x), hands) for x in after]
        moves.append(LuckyMove(legal.index(action), np.stack(rows), np.stack(values)))
    payoffs = sign * np.broadcast_to(game.payoff(self._state(history), hands), hands[0].shape)
    return HandRecord(tuple(moves), payoffs)

  def _at_start(self, seat: int | None) -> tuple[HandPairs, np.ndarray, np.ndarray]:
    """Returns all pairs `[J, K]`, their joint probability and values, of a known seat or both."""
    game, first = self._game, self._game.initial_state()
    weights = game.pairs().weight_table(int(game.pair_index(first[None])[0]))
    prior = np.asarray(game.prior(), float)
    joint = prior[0][:, None] * prior[1] * weights
    one, other = np.indices(joint.shape)
    grid = (one.T, other.T) if seat == 0 else (one, other)
    if seat is None:
      grid = one.reshape(1, -1), other.reshape(1, -1)
    values = self._values.at((), first, grid)
    return grid, joint[grid] / joint.sum(), -values if seat == 1 else values

  def _state_after(self, history: History) -> np.ndarray:
    if not history:
      return self._game.initial_state()
    return self._game.next_states(self._state(history[:-1])[None], np.array(history[-1:]))[0]


def _row_of(policy: Mapping[History, Array], history: History, size: int) -> np.ndarray:
  """Returns the row `[H]` of a policy for the move that leads to `history`."""
  row = np.asarray(policy.get(history, ()), float)
  if row.shape != (size,):
    raise ValueError(
      f"policy must hold a row of shape ({size},) (H) for history {history}, to which the known "
      "player could have moved"
    )
  return row


def _check_infostates(infostates: Any, size: int) -> tuple[int | None, int]:
  """Returns the seat of the one known player, None if both are, and what the other held."""
  known = [player for player in (0, 1) if infostates[player] is None]
  if not known:
    raise ValueError(
      f"infostates={validation.short(infostates)} must hold None for a player whose policy is known"
    )
  if len(known) == 2:
    return None, 0
  place = validation.check_places("infostates", [infostates[1 - known[0]]], size)
  return known[0], int(place[0])


# Value functions of whole trees.


def zero_values(tree: PublicTree) -> ValueFunction:
  """Returns the value function that is zero everywhere."""
  validation.check_unstacked(tree)
  return half_the_difference(tree, np.broadcast_to(0.0, (tree.num_nodes, 2, tree.num_infostates)))


def half_the_difference(tree: PublicTree, values: Array) -> ValueFunction:
  """Returns half the difference of both players' infostate values, as a value function.

  Args:
    tree: the whole tree.
    values: `[N, P, H]` what each player expects at each node, such as `node_values` returns.

  Raises:
    ValueError: `values` has another shape.
  """
  validation.check_unstacked(tree)
  shape = (tree.num_nodes, 2, tree.num_infostates)
  validation.check_shape("values", values, shape, "(N, P, H)")
  found = np.asarray(values)
  return TreeValues(tree, lambda node: (found[node, 0][:, None] - found[node, 1]) / 2.0)


def node_values(tree: PublicTree, policy: Array) -> np.ndarray:
  """Computes what each player expects at every node if both play `policy`: `[N, P, H]`.

  The other's infostate is weighed by the tree's prior and its own moves; zero where that leaves
  none.

  Args:
    tree: a whole tree, without hidden moves.
    policy: `[N, H]`, as `solve` returns it.

  Raises:
    ValueError: the tree is cut off or has hidden moves, or `policy` is none.
  """
  check_whole(tree, policy, None)
  if tree.infostate_parent is not None:
    raise ValueError("tree has hidden moves; AIVAT is for games whose infostates never change")
  return np.asarray(_node_values(tree, jnp.asarray(policy, tree.dtype)))


@jax.jit
def _node_values(tree: PublicTree, policy: jax.Array) -> jax.Array:
  problem = make_problem(tree, tree.prior)
  levels = problem.split(policy)
  reach = problem.both_reach(levels)
  values = [join_levels(problem.values_up(levels, reach[1 - p], None, p).nodes) for p in (0, 1)]
  mass = jax.vmap(pairs.root_mass, (None, 0))(tree, problem.node_reach(reach))
  return per_unit_of_mass(jnp.stack(values, axis=1), mass)


# The value function of hold'em: shares of the pot at the showdown without further bets.


@validation.checked
def milli_big_blinds(game: Holdem) -> float:
  """Returns how many thousandths of a big blind one unit of the game's payoffs is."""
  return 1000 / game.rules.big_blind


def final_boards(
  game: Holdem, dealt: Sequence[int], most: int | None = None, rng: Any = None
) -> np.ndarray:
  """Returns the cards of all final boards that hold the cards `dealt`, or of `most`: `[B, k]`."""
  free = np.setdiff1d(np.arange(game.deck.num_cards), [*game.board, *dealt])
  left = sum(game.deals) - len(dealt)
  number = math.comb(len(free), left)
  if most is not None and number > _MOST_LISTED:
    rest = np.array([rng.choice(free, left, replace=False) for _ in range(most)])
  else:
    rest = np.array(list(itertools.combinations(free.tolist(), left)), int).reshape(number, left)
    if most is not None and number > most:
      rest = rest[np.sort(rng.choice(number, most, replace=False))]
  return np.concatenate([np.tile(np.array(dealt, int), (len(rest), 1)), rest], axis=1)


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


MAX_RUNOUTS = 2_000
_MOST_LISTED = 2**20  # ways to deal the rest of a board
# Shares of the pot by which the strongest hand on a flop is worth more than the weakest: about the
# least squares over random flops and pairs of hands. Any number is unbiased.
_WORTH_OF_ORDER = 1.25
_BOARDS_AT_ONCE = 1_024


class PotShares(ValueFunction):
  """The value function of hold'em: the share of the pot without further bets, in chips.

  Where the ways to deal the rest of the board are at most `max_runouts`, shares are means over all.
  Where they are more before the first deal, as before a flop, a hand counts as its mean place in
  the order of hands after that deal. Later deals that leave too many are not corrected, without
  bias.

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
        self._root_shares = np.stack(
          [_shares(self._runouts(()), (everyone, everyone[h : h + 1])) for h in everyone], axis=1
        )
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
    """Returns each hand's place in the order of hands, 0 to 1, where `dealt` `[B, k]` are dealt."""
    strengths = strengths_where(self._game, dealt)
    found = np.full(strengths.shape, -1.0)
    for row, strength in zip(found, strengths):
      live = strength >= 0
      ranked = np.sort(strength[live])
      weaker, upto = (np.searchsorted(ranked, strength[live], side) for side in ("left", "right"))
      row[live] = (weaker + upto) / (2 * len(ranked))
    return found

  def _mean_orders(self, progress: Callable[[int, int], None] | None) -> np.ndarray:
    """Returns by how much player 0's place is better than player 1's: `[H, H]`."""
    # Over all outcomes of the first deal that both hands leave, in units of the value function.
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
  """Returns wins less losses as a share of the boards that both hands of a pair leave: `[K]`."""
  first, second = strengths[:, hands[0]], strengths[:, hands[1]]
  both = (first >= 0) & (second >= 0)
  wins, number = (np.sign(first - second) * both).sum(axis=0), both.sum(axis=0)
  return np.where(number > 0, wins / np.maximum(number, 1), 0.0)
