"""AIVAT: what a hand was worth, with the luck taken out as far as it is known (Burch et al., 2018).

One player's policy is known for every infostate that it could have held, and so is what the other
held. The estimate replaces the payoff by its mean over the infostates that the known player could
have come here with, and takes away what chance and the known player's own draws gave by a value
function. Its mean is that of the payoffs, whatever the value function is, if that was fixed before
the hand and the policy is the one that was played: then each correction has mean zero.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, TERMINAL, Game
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
  """A public move of chance or of the known player, and what else could have been.

  Attributes:
    taken: which of the `C` outcomes happened.
    weights: `[C, K]` probability of each outcome, given what the known player holds.
    values: `[C, K]` value function after each.
  """

  taken: int
  weights: np.ndarray
  values: np.ndarray


class HandRecord(NamedTuple):
  """What is known of one hand.

  `K` is what the known player could hold, `H` infostates, and `J` what the other could. Where both
  are known, `K` is all pairs and `J` is one.

  Attributes:
    joint: `[J, K]` probability of both, before the first move.
    root_values: `[J, K]` value function there.
    held: what the other did hold, below `J`.
    moves: of chance and of the known player, in order; the other's moves are left out.
    payoffs: `[K]` what the known player wins at the end, given what it holds.
  """

  joint: np.ndarray
  root_values: np.ndarray
  held: int
  moves: tuple[LuckyMove, ...]
  payoffs: np.ndarray


class ValueFunction(abc.ABC):
  """Guess of what pairs of infostates are worth at public states, to player 0.

  No guess biases an estimate, so long as it does not depend on how the hand went; the nearer it is
  to the truth, the less luck is left.
  """

  @abc.abstractmethod
  def at(self, history: History, state: np.ndarray, hands: HandPairs) -> np.ndarray:
    """Returns the values of pairs `hands` after `history`, which leads to `state`.

    It does not matter where two infostates exclude each other.
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
  """Computes the estimate of what the known player wins in a hand (Burch et al., 2018).

  With `R(k)` the probability that nature and the known player come to a node with `k`, given what
  the other holds: the mean of the payoffs by `R` at the end; at every move of chance or of the
  known player the mean of the value function over what could have happened less its mean over what
  did; and the same of the other's infostate, which nature deals.

  Raises:
    TypeError: `record` is something else.
    ValueError: by its policy the known player, or chance, never makes a move that was made.
  """
  masses = record.joint.sum(axis=1)
  known = np.flatnonzero(masses > 0)
  dealt = (record.joint * record.root_values)[known].sum(axis=1) / masses[known]
  everywhere = float(masses[known] @ dealt / masses.sum())
  reach = _normalised(record.joint[record.held], "held", record.held)
  estimate = everywhere - float(reach @ record.root_values[record.held])
  for number, (taken, weights, values) in enumerate(record.moves):
    after = reach * weights
    reach = _normalised(after[taken], "move", number)
    mean = float((after * values).sum() / after.sum())
    estimate += mean - float(reach @ values[taken])
  return estimate + float(reach @ record.payoffs)


class HandRecorder:
  """Gathers hands of a game for `aivat`.

  Args:
    game: the rules; infostates must not change (no hidden moves).
    values: the value function, fixed before the hands: `zero_values`, `half_the_difference` or, for
      hold'em whose tree is too large, `PotShares`.

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
    """Returns the record of a hand.

    Args:
      history: public actions, chance's too, from the start of the game to an end.
      infostates: what each player held; None for a player whose policy is known, and who might
        have held anything: one of them, or both.
      policy: rows `[H]` by public history: the known player's policy in this hand, at each move
        that it had, the ones not taken too, by the history that the move leads to. Other rows are
        not looked at.

    Returns:
      The record; payoffs are the known player's, or player 0's if both are known.

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
    moves = []
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
    return HandRecord(joint, root_values, held, tuple(moves), payoffs)

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
  """Returns the row `[H]` of a policy for the move that leads to `history`.

  Raises:
    ValueError: there is none of `size` infostates.
  """
  row = np.asarray(policy.get(history, ()), float)
  if row.shape != (size,):
    raise ValueError(
      f"policy must hold a row of shape ({size},) (H) for history {history}, to which the known "
      "player could have moved"
    )
  return row


def _normalised(reach: np.ndarray, name: str, number: int) -> np.ndarray:
  total = reach.sum()
  if not total > 0:
    raise ValueError(
      f"{name}={number} of the record cannot happen by its policy; give the policy that was played"
    )
  return reach / total


def _check_infostates(infostates: Any, size: int) -> tuple[int | None, int]:
  """Returns the seat of the one known player, None if both are, and what the other held.

  Raises:
    TypeError, ValueError: `infostates` are not two, None for who is known, below `size`.
  """
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
  nothing = np.zeros((tree.num_infostates,) * 2)
  return TreeValues(tree, lambda node: nothing)


def half_the_difference(tree: PublicTree, values: Array) -> ValueFunction:
  """Returns half the difference of both players' infostate values, as a value function.

  It is what values of infostates, as searches and networks have them, say of a pair.

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
  """Computes what each player expects at every node if both play `policy`, given its infostate.

  Args:
    tree: a whole tree, without hidden moves.
    policy: `[N, H]`, as `solve` returns it.

  Returns:
    `[N, P, H]` payoffs, the other's infostate weighed by the tree's prior and its own moves; zero
    where that leaves none.

  Raises:
    ValueError: the tree is cut off or has hidden moves, or `policy` is none.
  """
  validation.check_unstacked(tree)
  if tree.infostate_parent is not None:
    raise ValueError("tree has hidden moves; AIVAT is for games whose infostates never change")
  check_whole(tree, policy, None)
  return np.asarray(_node_values(tree, jnp.asarray(policy, tree.dtype)))


@jax.jit
def _node_values(tree: PublicTree, policy: jax.Array) -> jax.Array:
  problem = make_problem(tree, tree.prior)
  levels = problem.split(policy)
  reach = problem.both_reach(levels)
  values = [join_levels(problem.values_up(levels, reach[1 - p], None, p).nodes) for p in (0, 1)]
  mass = jax.vmap(pairs.root_mass, (None, 0))(tree, problem.node_reach(reach))
  return per_unit_of_mass(jnp.stack(values, axis=1), mass)
