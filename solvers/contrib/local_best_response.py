"""Local best response of games with a tree, exactly, and of any game whose moves all see."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, TERMINAL, Game
from games.poker import Holdem
from games.poker.holdem import FOLD
from games.public_tree import Array, PublicTree
from games.tabulate import check_tree_of, children_of
from solvers import validation
from solvers.metrics.aivat import MAX_RUNOUTS
from solvers.metrics.local_best_response import (
  Equity,
  LBRRules,
  Strategy,
  best_actions,
  milli_big_blinds,
  move_values,
  play_against,
)
from solvers.metrics.policies import BestResponse, check_whole, expected_values
from solvers.sweeps import pairs

_TABLE_1 = LBRRules()  # of ReBeL


class TreeStrategy(Strategy):
  """A policy of the whole game as what LBR plays against.

  Args:
    tree: the whole public tree of the game.
    policy: `[N, H]` on it, as `solvers.solve` returns it.

  Raises:
    ValueError: the tree is depth-limited or stacked, or `policy` has the wrong shape or is no
      policy.
  """

  def __init__(self, tree: PublicTree, policy: Array):
    check_whole(tree, policy, None)
    self.tree = tree
    self._policy = np.asarray(policy, float)
    self._children = children_of(tree)
    self._node = 0

  def start(self) -> None:
    self._node = 0

  def observe(self, action: int) -> None:
    self._node = int(self._children[self._node, action])

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    node = self._node
    for action in ahead:
      node = self._children[node, action]
    child = self._children[node]
    return np.where((child >= 0)[:, None], self._policy[child], 0.0)


class LBRValue(NamedTuple):
  """What LBR wins on average, exactly.

  Attributes:
    values: `[P]` of LBR in either seat, in the game's units.
    mean: over both seats, in thousandths of a big blind a hand.
    responses: LBR in seat 0, and in seat 1: its values `[H]` and its policy `[N, H]`.
  """

  values: np.ndarray
  mean: float
  responses: tuple[BestResponse, BestResponse]


def opponent_ranges(tree: PublicTree, policy: np.ndarray, beliefs: np.ndarray, player: int):
  """Returns the range that `player` faces at each node `[N, H]`, and the same without moves."""
  parent, kind, other = np.asarray(tree.parent), np.asarray(tree.kind), 1 - player
  reach = np.tile(np.asarray(beliefs, float)[other], (tree.num_nodes, 1))
  for node in range(1, tree.num_nodes):
    reach[node] = reach[parent[node]]
    if kind[parent[node]] == other:
      reach[node] *= policy[node]
  free = np.tile(np.asarray(beliefs, float)[other] > 0, (tree.num_nodes, 1)).astype(float)
  if tree.possible is not None:
    possible = np.asarray(tree.possible)[:, other]
    reach, free = reach * possible, free * possible
  return reach, free


def local_best_response_policy(
  game: Holdem,
  tree: PublicTree,
  policy: np.ndarray,
  ranges: tuple[np.ndarray, np.ndarray],
  player: int,
  rules: LBRRules,
  equity: Equity,
) -> np.ndarray:
  """Computes what LBR does in seat `player` with every hand everywhere: `[N, H]`."""
  result = np.array(policy, float)
  state, children = np.asarray(tree.state), children_of(tree)
  for node in np.flatnonzero(np.asarray(tree.kind) == player).tolist():

    def folds(action: int, below: np.ndarray = children[node]) -> np.ndarray:
      return np.asarray(policy, float)[children[below[action], FOLD]]

    actions = rules.moves(game, state[node])
    reach, free = ranges[0][node], ranges[1][node]
    values = move_values(game, state[node], reach, free, folds, equity, actions)
    chosen = best_actions(game, values)
    for action in np.flatnonzero(children[node] >= 0):
      result[children[node, action]] = np.array(actions)[chosen] == action
  return result


@validation.checked
def local_best_response_value(
  game: Holdem,
  tree: PublicTree,
  policy: Array,
  rules: LBRRules = _TABLE_1,
  *,
  beliefs: Array | None = None,
  max_runouts: int = MAX_RUNOUTS,
  seed: int = 0,
) -> LBRValue:
  """Computes exactly what LBR wins against `policy`, by its own policy on the whole tree.

  Args:
    game, tree: hold'em that is small enough for its tree, and that.
    policy: `[N, H]`, as `solve` returns it.
    rules: which moves LBR considers.
    beliefs: `[P, H]` at the root; None for the tree's own prior.
    max_runouts, seed: ways to deal the rest of the board at most, and of those drawn among more.

  Returns:
    Values and policies; no value is above that of `best_response_values`.

  Raises:
    TypeError: `game` is not hold'em, or an argument is of another kind.
    ValueError: the tree is depth-limited or stacked or of another game, or `policy` or `beliefs`
      are not allowed.
  """
  beliefs = check_whole(tree, policy, beliefs)
  check_tree_of(game, tree)
  equity = Equity(game, max_runouts=max_runouts, seed=seed)
  rows, marginals = np.asarray(policy, float), np.asarray(pairs.root_marginals(tree, beliefs))
  responses, values = [], []
  for player in (0, 1):
    ranges = opponent_ranges(tree, rows, np.asarray(beliefs), player)
    found = local_best_response_policy(game, tree, rows, ranges, player, rules, equity)
    response = jnp.asarray(found, tree.dtype)
    expected = expected_values(tree, response, beliefs=beliefs)[player]
    responses.append(BestResponse(expected, response))
    values.append(float((marginals[player] * np.asarray(expected, float)).sum()))
  mean = milli_big_blinds(game) * float(np.mean(values))
  return LBRValue(np.array(values), mean, (responses[0], responses[1]))


def action_values(
  game, strategy: Strategy, close, seat: int, state, reach, depth: int, ahead=()
) -> np.ndarray:
  """Returns the values of legal actions to the responder's infostates, `[M, H]`."""
  actor, found = int(game.actor(state[None])[0]), []
  depth = 0 if actor == CHANCE else depth
  legal = np.flatnonzero(game.legal_actions(state[None])[0]) if depth > 0 else [close(state)]
  rows = strategy.rows(ahead) if depth > 0 and actor != seat else np.ones(game.num_actions)
  for action in map(int, legal):
    below = game.next_states(state[None], np.array([action]))
    left = reach * np.asarray(rows[action])
    mover = int(game.actor(below)[0])
    if mover == TERMINAL:
      values = game.terminal_values(below, left[None], seat)
    else:
      more = depth - 1, (*ahead, action)
      values = action_values(game, strategy, close, seat, below[0], left, *more)
    found.append(values.max(axis=0) if mover == seat else values.sum(axis=0))
  return np.array(found)


@validation.checked
def local_response(
  game: Game,
  strategy: Strategy,
  close: Callable[[np.ndarray], int],
  *,
  depth: validation.Positive = 2,
  num_plays: int = 1000,
  seed: int = 0,
) -> tuple[float, float]:
  """Plays a game as local best response against an agent, in both seats in turn.

  In any game of moves that all see: the responder knows the agent's policy, keeps its range by
  Bayes' rule, looks a few public actions ahead, and takes the game to end from there by closing
  actions. The result is at most the exploitability, but for chance.

  Args:
    game: whose moves all see.
    strategy: the agent.
    close: the public action, of either player or chance, by which the game soon ends from a state.
    depth: public actions that it looks ahead, its own the first; 1 asks for no policy.
    num_plays: even, at least 4.
    seed: of deals, chance, and the agent's draws.

  Returns:
    Half of what both seats win on average, where ends count for all that the agent may hold there;
    and half the width of its 95 % interval.

  Raises:
    ValueError: a number is not allowed, or players' moves are hidden.
  """
  if game.infostate_parents(game.initial_state()[None], np.zeros(1, int)) is not None:
    raise ValueError(f"game={game.name} hides moves; a response keeps ranges by those that all see")
  rng, won = np.random.default_rng(seed), list[float]()
  for number in range(validation.check_even("num_plays", num_plays, least=4)):
    seat = number % 2

    def respond(history, state, reach, held, seat=seat):
      values = action_values(game, strategy, close, seat, state, reach, depth)[:, held]
      return int(np.flatnonzero(game.legal_actions(state[None])[0])[values.argmax()])

    _, state, hands, reach = play_against(game, strategy, seat, rng, respond)
    worth, met = (
      f(state[None], reach[None], seat)[0, hands[seat]]
      for f in (game.terminal_values, game.compatible_mass)
    )
    won.append(float(worth / met))
  rows = np.array(won).reshape(-1, 2)
  return float(rows.mean()), float(0.98 * np.sqrt(rows.var(axis=0, ddof=1).sum() / len(rows)))
