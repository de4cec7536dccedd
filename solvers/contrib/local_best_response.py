"""Local best response, a lower bound on exploitability (Lisy and Bowling, 2017).

Of hold'em in hands that are played, of hold'em with a tree exactly, and of any game whose moves all
see.
"""
# LBR knows the agent's average policy, and neither its cards nor the iteration that its search
# was stopped at: knowing more, it could win what no best response wins.

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from games.arrays import check_fields
from games.game import CHANCE, TERMINAL, Game
from games.pairs import compatible_mass, holds, most_hands_per_card
from games.poker import CALL, FOLD, Holdem
from games.poker.cards import NUM_HOLE_CARDS, Deck
from games.public_tree import Array, PublicTree
from games.tabulate import check_tree_of, children_of
from solvers import validation
from solvers.metrics.aivat import (
  MAX_RUNOUTS,
  HandRecorder,
  PotShares,
  aivat,
  final_boards,
  milli_big_blinds,
  strengths_where,
)
from solvers.metrics.policies import BestResponse, check_whole, expected_values
from solvers.sweeps import pairs
from solvers.sweeps.showdowns import Hands, Showdowns, make_showdowns, showdown_values


class Strategy(abc.ABC):
  """What LBR plays against: an agent, and its average policy at every public state.

  Attributes:
    tree: the whole tree of the game where `rows` are of one; else None.
  """

  tree: PublicTree | None = None

  @abc.abstractmethod
  def start(self) -> None:
    """Begins a new hand."""

  @abc.abstractmethod
  def observe(self, action: int) -> None:
    """Takes note of a public action, of either player or chance."""

  @abc.abstractmethod
  def rows(self, ahead: tuple[int, ...] = ()) -> Array:
    """Returns the mover's average policy `[A, H]` after further public actions `ahead`.

    It is zero for actions that are not legal. LBR asks one bet ahead how often it is folded to.
    """

  def act(self, infostate: int, rng: np.random.Generator, rows: np.ndarray) -> int:
    """Returns the agent's move, drawn from its `rows` here unless a subclass does otherwise."""
    return int(rng.choice(len(rows), p=rows[:, infostate] / rows[:, infostate].sum()))


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


NOTHING = 1e-12  # what sums that cancel leave of nothing, as a share of the whole
_MOST_ENTRIES = 2**22  # strengths of boards that are compared at once


_Boards = tuple[Showdowns, jax.Array]  # final boards, and `[B, H]` whether each leaves the hand


class Equity:
  """Shares of the pot that hands win over the rest of the board, without further bets."""

  # Of the ways to deal the rest, `max_runouts` at most are looked at: all of them, exactly, or so
  # many drawn once for each board, all equally likely.

  @validation.checked
  def __init__(self, game: Holdem, *, max_runouts: validation.Positive, seed: int):
    self._game, self._max_runouts, self._seed = game, max_runouts, seed
    cards, number = np.asarray(game.hole_cards, np.int32), game.deck.num_cards
    self._held = holds(cards, number)
    self._sort, self._showdowns = _programs(game.deck, cards.tobytes(), len(cards))
    # What is kept of a board of the whole deck is large, and it does not come again.
    self._boards = functools.lru_cache(maxsize=8 if game.unlisted else 4096)(self._sorted)

  def __call__(self, dealt: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each hand's share of the pot `[H]`, and the mass of `reach` it averages over."""
    # `dealt` `[k]` are cards since the start of the game, -1 for those to come.
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
    rng = np.random.default_rng([self._seed, *dealt])
    boards = final_boards(self._game, dealt, self._max_runouts, rng)
    strengths = strengths_where(self._game, boards)
    most = max(1, _MOST_ENTRIES // strengths.shape[1])
    return [self._sort(strengths[i : i + most]) for i in range(0, len(strengths), most)]


@functools.lru_cache(maxsize=16)
def _programs(deck: Deck, cards: bytes, number: int) -> tuple[Callable, Callable]:
  """Returns two programs: prepared boards of strengths `[B, H]`, and sums over their showdowns."""
  # The second returns what each hand wins, ties as half, and against how much of `reach` `[H]`.
  table = np.frombuffer(cards, np.int32).reshape(number, NUM_HOLE_CARDS)
  hands = Hands(table, deck.num_cards, most_hands_per_card(table))

  @jax.jit
  def sort(strengths: jax.Array) -> _Boards:
    return make_showdowns(strengths, float, hands=hands), strengths >= 0

  @jax.jit
  def showdowns(boards: _Boards, reach: jax.Array) -> tuple[jax.Array, jax.Array]:
    prepared, left = boards
    live = jnp.where(left, reach, 0.0)
    won = showdown_values(prepared, live[:, None])[:, 0]  # less what is lost
    mass = compatible_mass(live, holds(hands.cards, hands.num_cards, live.dtype))
    won, mass = (jnp.where(left, x, 0.0).sum(axis=0) for x in (won, mass))
    return (won + mass) / 2, mass

  return sort, showdowns


_MOVES = "FCPA"
_TIE = 1e-9  # of the stack: moves nearer in value are equally good


@dataclasses.dataclass(frozen=True)
class LBRRules:
  """Which moves LBR considers: those that the game lacks at a state are left out.

  Attributes:
    rounds: the moves of each round of betting, letters of `F` fold, `C` check or call, `P` the pot,
      `A` all-in; the last entry holds for later rounds. `P` is the bet nearest to a raise by the
      pot after calling, of two the smaller. The default is that of ReBeL's table 1.

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
    turn, bets = game.rules.at(state), game.bets_at(state)
    letters = self.rounds[min(turn.round, len(self.rounds) - 1)]
    found = [*[FOLD] * ("F" in letters and turn.may_fold), CALL]
    if "P" in letters and bets:
      pot = min(3 * turn.highest + game.rules.dead, game.rules.stack)
      found.append(min(bets, key=lambda action: abs(bets[action] - pot)))
    if "A" in letters:
      found += [action for action, chips in bets.items() if chips == game.rules.stack]
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
  """Returns the worth `[M, H]` of actions to each hand, in chips, if both call afterwards."""
  # With `P` chips in the pot, `c` to call, and `w` the share of the pot that a hand wins against a
  # range: folding is worth 0, calling `w P - (1 - w) c`, and a bet that puts in `x` chips
  # `f P + (1 - f) (w' (P + x - c) - (1 - w') x)` if `f` of the range folds and `w'` is the share of
  # the others (Lisy and Bowling, 2017, algorithm 1). `fallback` is the range for hands of LBR
  # against which `reach` leaves nothing.
  if len(actions) == 1:  # nothing to compare
    return np.zeros((1, len(reach)))
  turn, bets, dealt = game.rules.at(state), game.bets_at(state), game.dealt(state[None])[0]
  own = min(turn.paid) if turn.may_fold else turn.highest
  pot, to_call = sum(turn.paid) + game.rules.dead, turn.highest - own

  def against(reach: np.ndarray) -> np.ndarray:
    share, mass = equity(dealt, reach)
    values = np.zeros((len(actions), len(reach)))
    for row, action in zip(values, actions):
      if action == CALL:
        row[:] = share * pot - (1 - share) * to_call
      elif action != FOLD:
        chips = bets[action] - own
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


def responses(
  game: Holdem,
  rules: LBRRules,
  equity: Equity,
  state: np.ndarray,
  reach: np.ndarray,
  fallback: np.ndarray,
  folds: Callable[[int], np.ndarray],
) -> np.ndarray:
  """Returns the action of every hand in one public `state`, `[H]`; the first of equally good."""
  actions = rules.moves(game, state)
  values = move_values(game, state, reach, fallback, folds, equity, actions)
  best = values > values.max(axis=0) - _TIE * game.rules.stack
  return np.array(actions)[best.argmax(axis=0)]


class LBRResult(NamedTuple):
  """What LBR won in hands that were played, in thousandths of a big blind a hand.

  Attributes:
    mean: over both seats, equally often.
    half_width: of the 95 % confidence interval around the mean.
    by_seat: where LBR had seat 0, and seat 1.
    num_hands: how many were played.
    aivat, aivat_half_width: the same by AIVAT (`aivat`), with less luck and without bias.
  """

  mean: float
  half_width: float
  by_seat: tuple[float, float]
  num_hands: int
  aivat: float
  aivat_half_width: float


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
    What LBR won: on average at most twice the agent's exploitability, `by_seat` at most a best
    response's value.

  Raises:
    TypeError: `game` is not hold'em, or an argument is of another kind.
    ValueError: a number is not allowed.
    KeyboardInterrupt: Ctrl-C, with the result of the hands before if they are at least four.
  """
  num_hands = validation.check_even("num_hands", num_hands, least=4)
  equity = Equity(game, max_runouts=max_runouts, seed=seed)
  if strategy.tree is not None:
    check_tree_of(game, strategy.tree)
  rng, recorder = np.random.default_rng(seed), HandRecorder(game, PotShares(game))
  won: list[list[tuple[float, float]]] = [[], []]
  try:
    for number in range(num_hands):
      seat = number % 2
      won[seat].append(_play(game, strategy, rules, equity, recorder, seat, rng))
      if progress is not None:
        progress(number + 1, num_hands)
  except KeyboardInterrupt:
    if len(won[1]) < 2:
      raise
    raise KeyboardInterrupt(_result(game, won)) from None
  return _result(game, won)


def _result(game: Holdem, won: list[list[tuple[float, float]]]) -> LBRResult:
  """Returns the result of whole pairs of hands, `won` by seat, raw and by AIVAT."""
  # [2, hands of a seat, raw and by AIVAT]
  rows = milli_big_blinds(game) * np.array([x[: len(won[1])] for x in won])
  (mean, better), (error, less) = (x.tolist() for x in _over_seats(rows))
  first, second = rows[:, :, 0].mean(axis=1).tolist()
  return LBRResult(mean, error, (first, second), 2 * len(won[1]), better, less)


def _over_seats(won: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns the mean of `won` `[2, n, ...]` over both seats, and half its 95 % interval's width."""
  errors = 0.98 * np.sqrt((won.var(axis=1, ddof=1) / won.shape[1]).sum(axis=0))
  return won.mean(axis=1).mean(axis=0), errors


def play_against(
  game: Game, strategy: Strategy, seat: int, rng: np.random.Generator, respond: Callable[..., int]
) -> tuple[tuple[int, ...], np.ndarray, list[int], np.ndarray]:
  """Plays a game; returns its actions, its end `[S]`, infostates, and the agent's range `[H]`."""
  history: tuple[int, ...] = ()
  reach, state = np.asarray(game.prior(), float)[1 - seat], game.initial_state()
  infostates = game.deal(rng)
  strategy.start()
  while (actor := int(game.actor(state[None])[0])) <= CHANCE:
    if actor == seat:
      action = respond(history, state, reach, infostates[seat])
    elif actor == 1 - seat:
      rows = np.asarray(strategy.rows(), float)
      action = strategy.act(infostates[actor], rng, rows)
      reach = reach * rows[action]
    else:
      action = game.sample_chance(state, infostates, rng)
      reach = reach * game.chance(state[None], np.array([action]))[1][0, 1 - seat]
    strategy.observe(action)
    history = (*history, int(action))
    state = game.next_states(state[None], np.array([action]))[0]
  return history, state, infostates, reach


def _play(
  game: Holdem, strategy: Strategy, rules, equity, recorder: HandRecorder, seat: int, rng
) -> tuple[float, float]:
  """Plays one hand with LBR in `seat`; returns what it won, and the same by AIVAT."""
  rows: dict[tuple[int, ...], np.ndarray] = {}
  possible = np.asarray(game.prior())[1 - seat] > 0

  def respond(history, state, reach, hand):
    free = possible & ~np.isin(game.hole_cards, game.dealt(state[None])[0]).any(axis=1)
    chosen = responses(
      game, rules, equity, state, reach, free.astype(float),
      lambda action: np.asarray(strategy.rows((action,)), float)[FOLD],
    )  # fmt: skip
    for legal in np.flatnonzero(game.legal_actions(state[None])[0]).tolist():
      rows[*history, legal] = (chosen == legal).astype(float)
    return int(chosen[hand])

  history, state, infostates, _ = play_against(game, strategy, seat, rng, respond)
  told = (None, infostates[1]) if seat == 0 else (infostates[0], None)
  better = aivat(recorder.record(history, told, rows))
  return game.payoff(state, infostates) * (1 - 2 * seat) + 0.0, better


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

    chosen = responses(game, rules, equity, state[node], ranges[0][node], ranges[1][node], folds)
    for action in np.flatnonzero(children[node] >= 0):
      result[children[node, action]] = chosen == action
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
  mean, error = _over_seats(np.array(won).reshape(-1, 2).T)
  return float(mean), float(error)
