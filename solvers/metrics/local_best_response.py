"""Local best response: a lower bound on exploitability in hold'em (Lisy and Bowling, 2017).

LBR knows the agent's average policy, and neither its cards nor the iteration that its search was
stopped at: knowing more, it could win what no best response wins. It keeps the agent's range by
Bayes' rule and makes the move that is best if both check or call from then on, which is a policy
like any other; what it wins an exact best response wins at least.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from games.arrays import check_fields
from games.game import CHANCE
from games.origin import check_tree_of
from games.poker import Holdem, betting
from games.poker.holdem import CALL, FIRST_BET, FOLD
from games.public_tree import Array, PublicTree
from games.tabulate import children_of
from solvers import validation
from solvers.metrics.aivat import HandRecorder, aivat
from solvers.metrics.equity import MAX_RUNOUTS, NOTHING, Equity, PotShares
from solvers.metrics.policies import BestResponse, check_whole, expected_values
from solvers.sweeps import pairs


class Strategy(abc.ABC):
  """What LBR plays against: an agent, and its average policy at every public state.

  A subclass says what `rows` are, and where the agent plays otherwise than by drawing from them (by
  one random iteration, say), how it moves: `act`.
  """

  @abc.abstractmethod
  def start(self) -> None:
    """Begins a new hand."""

  @abc.abstractmethod
  def observe(self, action: int) -> None:
    """Takes note of a public action, of either player or chance."""

  @abc.abstractmethod
  def rows(self, ahead: tuple[int, ...] = ()) -> Array:
    """Returns the average policy of the mover after further public actions `ahead`.

    Args:
      ahead: none for the present public state; LBR asks one bet ahead how often it is folded to.

    Returns:
      `[A, H]` probability of each action given each hand, zero for those that are not legal.
    """

  def act(self, infostate: int, rng: np.random.Generator) -> int:
    """Returns the agent's move here, drawn from `rows` unless a subclass does otherwise."""
    row = np.asarray(self.rows(), float)[:, infostate]
    return int(rng.choice(len(row), p=row / row.sum()))


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


_MOVES = "FCPA"
_TIE = 1e-9  # of the stack: moves nearer in value are equally good


@dataclasses.dataclass(frozen=True)
class LBRRules:
  """Which moves LBR considers.

  Attributes:
    rounds: the moves of each round of betting, letters of `F` fold, `C` check or call, `P` the pot,
      `A` all-in; the last entry holds for later rounds. The default is that of ReBeL's table 1.

  Moves that the game lacks at a state are left out. `P` is the bet whose chips are nearest to those
  of a raise by the pot after calling (all-in counts, and of two as near the smaller is taken).

  Raises:
    ValueError: an entry holds another letter, one twice, or no `C`, which is always legal.
  """

  rounds: tuple[str, ...] = ("C", "C", "FCPA", "FCPA")

  def __post_init__(self):
    check_fields(self)
    for moves in self.rounds or ("",):
      if set(moves) - set(_MOVES) or len(set(moves)) < len(moves) or "C" not in moves:
        raise ValueError(
          f"rounds={validation.short(self.rounds)} holds {moves!r}; each must be different "
          f"letters of {_MOVES!r}, C among them"
        )

  def moves(self, game: Holdem, state: np.ndarray) -> list[int]:
    """Returns the actions that LBR considers in one public `state` `[S]`, in the order of F C P A.

    Each is there once, also where the pot is all-in.
    """
    letters = self.rounds[min(int(state[betting.ROUND]), len(self.rounds) - 1)]
    to = game.amounts(state[None])[0]
    highest = int(game.rules.highest(state[None])[0])
    raises = {FIRST_BET + i: int(chips) for i, chips in enumerate(to) if chips >= 0}
    found = [FOLD] if "F" in letters and game.rules.may_fold(state[None])[0] else []
    found.append(CALL)
    if "P" in letters and raises:
      pot = min(3 * highest + game.rules.dead, game.rules.stack)
      found.append(min(raises, key=lambda action: (abs(raises[action] - pot), raises[action])))
    if "A" in letters:
      found += [action for action, chips in raises.items() if chips == game.rules.stack]
    return list(dict.fromkeys(found))


def move_values(
  game: Holdem,
  state: np.ndarray,
  reach: np.ndarray,
  fallback: np.ndarray,
  folds: Callable[[int], np.ndarray],
  equity: Equity,
  actions: list[int],
) -> np.ndarray:
  """Computes what each action is worth to each hand if both check or call afterwards.

  With `P` chips in the pot, `c` to call, and `w` the share of the pot that a hand wins against a
  range: folding is worth 0, calling `w P - (1 - w) c`, and a bet that puts in `x` chips
  `f P + (1 - f) (w' (P + x - c) - (1 - w') x)`, where `f` of the range folds and `w'` is the share
  against those who do not (Lisy and Bowling, 2017, algorithm 1).

  Args:
    game: the rules.
    state: `[S]` where LBR acts.
    reach: `[H]` the opponent's range, of any sum.
    fallback: `[H]` its range for hands of LBR against which `reach` leaves nothing.
    folds: how likely each hand folds to a bet, `[H]`, given the bet's action.
    equity: of the game.
    actions: those asked for.

  Returns:
    `[M, H]` chips, those in the pot before counted as the pot's.
  """
  if len(actions) == 1:  # nothing to compare
    return np.zeros((1, len(reach)))
  paid = state[[betting.PAID_0, betting.PAID_1]]
  own, highest = int(paid[int(state[betting.ACTOR])]), int(paid.max())
  pot, to_call = int(paid.sum()) + game.rules.dead, highest - own
  amounts, dealt = game.amounts(state[None])[0], game.dealt(state[None])[0]

  def against(reach: np.ndarray) -> np.ndarray:
    share, mass = equity(dealt, reach)
    values = np.zeros((len(actions), len(reach)))
    for row, action in zip(values, actions):
      if action == CALL:
        row[:] = share * pot - (1 - share) * to_call
      elif action != FOLD:
        chips = int(amounts[action - FIRST_BET]) - own
        called, stays = equity(dealt, reach * (1 - folds(action)))
        some = np.where(mass > 0, mass, 1.0)
        stay = np.where(stays > NOTHING * some, np.minimum(stays / some, 1.0), 0.0)
        won = called * (pot + chips - to_call) - (1 - called) * chips
        row[:] = (1 - stay) * pot + stay * won
    return np.where(mass > 0, values, np.nan)

  values = against(reach)
  if np.isnan(values).any():
    values = np.where(np.isnan(values), np.nan_to_num(against(fallback)), values)
  return values


def best_actions(game: Holdem, values: np.ndarray) -> np.ndarray:
  """Returns the row of `values` `[M, H]` that is best for each hand, `[H]`; the first of ties."""
  return (values > values.max(axis=0) - _TIE * game.rules.stack).argmax(axis=0)


class LBRResult(NamedTuple):
  """What LBR won in hands that were played, in thousandths of a big blind a hand.

  Attributes:
    mean: over both seats, equally often.
    half_width: of the 95 % confidence interval around the mean.
    by_seat: where LBR had seat 0, and seat 1.
    num_hands: how many were played.
    aivat: the mean once more by AIVAT (`aivat`), which takes luck out without bias, since
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
  rules: LBRRules = LBRRules(),
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
    rules: which moves LBR considers.
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


@validation.checked
def local_best_response(
  game: Holdem,
  strategy: Strategy,
  rules: LBRRules = LBRRules(),
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
    rules: which moves LBR considers.
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
    KeyboardInterrupt: Ctrl-C, with the result of the hands before if they are at least four.
  """
  num_hands = validation.check_even("num_hands", num_hands, least=4)
  equity = Equity(game, max_runouts=max_runouts, seed=seed)
  if isinstance(strategy, TreeStrategy):
    check_tree_of(game, strategy.tree)
  rng, dealer = np.random.default_rng(seed), game.pairs()
  recorder = HandRecorder(game, PotShares(game))
  won: list[list[tuple[float, float]]] = [[], []]
  try:
    for number in range(num_hands):
      seat = number % 2
      won[seat].append(_play(game, dealer, strategy, rules, equity, recorder, seat, rng))
      if progress is not None:
        progress(number + 1, num_hands)
  except KeyboardInterrupt:
    if len(won[1]) < 2:
      raise
    raise KeyboardInterrupt(_result(game, won)) from None
  return _result(game, won)


def _result(game: Holdem, won: list[list[tuple[float, float]]]) -> LBRResult:
  """Returns the result of hands by seat, raw and by AIVAT, of which the last has no pair or one."""
  # [2, hands of a seat, raw and by AIVAT]
  rows = milli_big_blinds(game) * np.array([x[: len(won[1])] for x in won])
  errors = 1.96 * np.sqrt((rows.var(axis=1, ddof=1) / rows.shape[1]).sum(axis=0)) / 2
  means = rows.mean(axis=1)
  mean, better = means.mean(axis=0).tolist()
  first, second = means[:, 0].tolist()
  return LBRResult(
    mean, float(errors[0]), (first, second), 2 * len(won[1]), better, float(errors[1])
  )


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
  return game.payoff(state, infostates) * (1 - 2 * seat) + 0.0, better


@validation.checked
def milli_big_blinds(game: Holdem) -> float:
  """Returns how many thousandths of a big blind one unit of the game's payoffs is."""
  return 1000 / game.rules.big_blind
