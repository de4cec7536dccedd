"""Local best response: a lower bound on exploitability in hold'em (Lisy and Bowling, 2017).

LBR knows the agent's average policy, and neither its cards nor the iteration that its search was
stopped at: knowing more, it could win what no best response wins. It keeps the agent's range by
Bayes' rule and makes the move that is best if both check or call from then on, which is a policy
like any other; what it wins an exact best response wins at least.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from games.game import CHANCE, Game
from games.origin import check_tree_of
from games.poker import Holdem
from games.poker.holdem import FOLD
from games.public_tree import Array, PublicTree
from solvers import validation
from solvers.metrics.aivat import HandRecorder, aivat
from solvers.metrics.best_response import BestResponse
from solvers.metrics.equity import Equity
from solvers.metrics.expected_values import check_whole, expected_values
from solvers.metrics.lbr_moves import LBRRules, best_actions, move_values
from solvers.metrics.lbr_strategy import Strategy, TreeStrategy, children_of
from solvers.metrics.pot_shares import PotShares
from solvers.sweeps import pairs

MAX_RUNOUTS = 2_000


class LBRResult(NamedTuple):
  """What LBR won in hands that were played, in thousandths of a big blind a hand.

  Attributes:
    mean: over both seats, equally often.
    half_width: of the 95 % confidence interval around the mean.
    by_seat: where LBR had seat 0, and seat 1.
    num_hands: how many were played.
    aivat: the mean once more by AIVAT (`solvers.aivat`), which takes luck out without bias, since
      what LBR does with every hand is known.
    aivat_half_width: of its interval.
  """

  mean: float
  half_width: float
  by_seat: tuple[float, float]
  num_hands: int
  aivat: float
  aivat_half_width: float


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
  """Computes the range that `player` faces at each node: beliefs, the other's moves, cards dealt.

  Returns:
    `[N, H]`, and `[N, H]` the same without the other's moves; rows are not normalised.
  """
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
  """Computes what LBR does in seat `player` with every hand everywhere: `[N, H]`.

  Args:
    game, tree: the rules, and their whole tree.
    policy: `[N, H]`; the other player's rows stay, and say how often bets are folded to.
    ranges: what LBR takes the opponent to hold, see `opponent_ranges`.
    player: LBR's seat.
    rules: which moves it considers.
    equity: of the game.
  """
  result = np.array(policy, float)
  state, children = np.asarray(tree.state), children_of(tree)
  for node in np.flatnonzero(np.asarray(tree.kind) == player).tolist():
    below = children[node]

    def folds(action: int, below: Mapping[int, int] = below) -> np.ndarray:
      return np.asarray(policy, float)[children[below[action]][FOLD]]

    actions = rules.moves(game, state[node])
    reach, free = ranges[0][node], ranges[1][node]
    values = move_values(game, state[node], reach, free, folds, equity, actions)
    chosen = best_actions(game, values)
    for action, child in below.items():
      result[child] = np.array(actions)[chosen] == action
  return result


def local_best_response_value(
  game: Game,
  tree: PublicTree,
  policy: Array,
  rules: LBRRules | None = None,
  *,
  beliefs: Array | None = None,
  max_runouts: int = MAX_RUNOUTS,
  seed: int = 0,
) -> LBRValue:
  """Computes exactly what LBR wins against `policy`, by its own policy on the whole tree.

  Args:
    game: hold'em that is small enough for its tree.
    tree: the whole tree.
    policy: `[N, H]`, as `solve` returns it.
    rules: which moves LBR considers; None for `LBRRules()`.
    beliefs: `[P, H]` at the root; None for the tree's own prior.
    max_runouts: ways to deal the rest of the board that equities look at, at most.
    seed: of those drawn where there are more.

  Returns:
    Values and policies; no value is above that of `best_response_values`.

  Raises:
    TypeError: `game` is not hold'em, or an argument is of another kind.
    ValueError: the tree is depth-limited or stacked or of another game, or `policy` or `beliefs`
      are not allowed.
  """
  game, rules = _check_game(game), _check_rules(rules)
  beliefs = check_whole(tree, policy, beliefs)
  check_tree_of(game, tree)
  equity = _make_equity(game, max_runouts, seed)
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


def local_best_response(
  game: Game,
  strategy: Strategy,
  rules: LBRRules | None = None,
  *,
  num_hands: int,
  seed: int = 0,
  max_runouts: int = MAX_RUNOUTS,
  progress: Callable[[int, int], None] | None = None,
) -> LBRResult:
  """Plays hands of hold'em as LBR against an agent, in both seats in turn.

  Args:
    game: hold'em, of any deck, rounds and stakes.
    strategy: the agent.
    rules: which moves LBR considers; None for `LBRRules()`.
    num_hands: even, at least 4.
    seed: of deals, chance, the agent's draws, and run-outs.
    max_runouts: ways to deal the rest of the board that equities look at, at most.
    progress: called with hands done, and in all.

  Returns:
    What LBR won: on average at most twice the exploitability of what the agent plays, `by_seat`
    at most a best response's value.

  Raises:
    TypeError: `game` is not hold'em, or an argument is of another kind.
    ValueError: a number is not allowed.
  """
  game, rules = _check_game(game), _check_rules(rules)
  if isinstance(strategy, type) or not all(
    hasattr(strategy, name) for name in ("start", "observe", "rows", "act")
  ):
    raise TypeError(f"strategy={strategy!r} must be a solvers.Strategy, such as TreeStrategy")
  num_hands = validation.check_even("num_hands", num_hands, least=4)
  equity = _make_equity(game, max_runouts, seed)
  if isinstance(strategy, TreeStrategy):
    check_tree_of(game, strategy.tree)
  rng, dealer = np.random.default_rng(seed), game.pairs()
  recorder = HandRecorder(game, PotShares(game))
  won: list[list[tuple[float, float]]] = [[], []]
  for number in range(num_hands):
    seat = number % 2
    won[seat].append(_play(game, dealer, strategy, rules, equity, recorder, seat, rng))
    if progress is not None:
      progress(number + 1, num_hands)
  rows = milli_big_blinds(game) * np.array(won)  # [2, hands of a seat, raw and by AIVAT]
  errors = 1.96 * np.sqrt((rows.var(axis=1, ddof=1) / rows.shape[1]).sum(axis=0)) / 2
  means = rows.mean(axis=1)
  mean, better = means.mean(axis=0).tolist()
  first, second = means[:, 0].tolist()
  return LBRResult(mean, float(errors[0]), (first, second), num_hands, better, float(errors[1]))


def _play(
  game, dealer, strategy: Strategy, rules, equity, recorder: HandRecorder, seat: int, rng
) -> tuple[float, float]:
  """Plays one hand with LBR in `seat`; returns what it won, and the same by AIVAT."""
  prior, state = np.asarray(game.prior(), float), game.initial_state()
  history: tuple[int, ...] = ()
  rows: dict[tuple[int, ...], np.ndarray] = {}
  infostates = dealer.deal(prior, 0, rng)
  reach = prior[1 - seat].copy()
  free = (reach > 0).astype(float)
  strategy.start()
  while (actor := int(game.actor(state[None])[0])) <= CHANCE:
    if actor == seat:
      actions = rules.moves(game, state)
      values = move_values(
        game, state, reach, free, lambda a: np.asarray(strategy.rows((a,)), float)[FOLD],
        equity, actions,
      )  # fmt: skip
      chosen = np.array(actions)[best_actions(game, values)]
      for legal in np.flatnonzero(game.legal_actions(state[None])[0]).tolist():
        rows[*history, legal] = (chosen == legal).astype(float)
      action = int(chosen[infostates[seat]])
    elif actor == 1 - seat:
      action = strategy.act(infostates[actor], rng)
      reach = reach * np.asarray(strategy.rows(), float)[action]
    else:
      action = game.sample_chance(state, infostates, rng)
      seen = game.chance(state[None], np.array([action]))[1][0, 1 - seat]
      reach, free = reach * seen, free * seen
    strategy.observe(action)
    history = (*history, int(action))
    state = game.next_states(state[None], np.array([action]))[0]
  told = (None, infostates[1]) if seat == 0 else (infostates[0], None)
  better = aivat(recorder.record(history, told, rows))
  return game.payoff(state, infostates) * (1 - 2 * seat), better


def milli_big_blinds(game: Holdem) -> float:
  """Returns how many thousandths of a big blind one unit of the game's payoffs is."""
  return 1000 / game.rules.big_blind


def _check_game(game: Any) -> Holdem:
  if not isinstance(game, Holdem):
    raise TypeError(f"game={game!r} must be hold'em, such as games.make('small_holdem')")
  return game


def _check_rules(rules: Any) -> LBRRules:
  if rules is None:
    return LBRRules()
  if not isinstance(rules, LBRRules):
    raise TypeError(f"rules={rules!r} must be solvers.LBRRules, or None for LBRRules()")
  return rules


def _make_equity(game: Holdem, max_runouts: int, seed: int) -> Equity:
  most = validation.check_integer("max_runouts", max_runouts)
  return Equity(game, max_runouts=most, seed=validation.check_integer("seed", seed, least=0))
