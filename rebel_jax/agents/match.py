"""Matches of many games at once, both seats, their AIVAT estimates, and agents that others meet."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import games
import solvers
from games.arrays import check_kinds, checked
from games.poker import CALL, FOLD, Holdem
from games.tabulate import check_tree_of
from rebel_jax.agents.belief_agent import Agent
from rebel_jax.agents.dealer import (
  Dealer,
  Move,
  PolicyPlayer,
  Seat,
  child_after,
  prepare,
  same_rules,
)
from rebel_jax.evaluation.opponents import HoldemDecision, opponent
from solvers import validation
from solvers.contrib.local_best_response import Strategy
from solvers.metrics import check_whole


class UniformPlayer(Seat):
  """Moves at random, each legal move as likely as any other."""

  @checked
  def __init__(self, game: games.Game, *, seed: int = 0):
    super().__init__(seed)
    self.game = game
    self._begin()

  def _begin(self) -> None:
    self._state = self.game.initial_state()

  def _follow(self, action: int) -> None:
    self._state = self.game.next_states(self._state[None], np.array([action]))[0]

  def choices(self) -> dict[Move, float]:
    moves = self.game.moves(self._state, self.player, self.infostate)
    return {Move(*move): 1.0 / len(moves) for move in moves}

  def act(self) -> Move:
    moves = list(self.choices())
    return moves[self._rng.integers(len(moves))]


class SimplePlayer(UniformPlayer):
  """Player of hold'em by one of `OPPONENTS`: a raise becomes the nearest in chips, or a smaller."""

  @checked
  def __init__(self, game: Holdem, name: str, *, seed: int = 0):
    super().__init__(game, seed=seed)
    self._wish = opponent(name).wish

  def act(self) -> Move:
    game, state, held = self.game, self._state, self.infostate
    shown = tuple(card for card in game.on_board(state[None])[0].tolist() if card >= 0)
    hand = tuple(game.hole_cards[held].tolist())
    wish = self._wish(HoldemDecision(game, game.rules.at(state), hand, shown), self._rng)
    if wish == "fold":
      return Move(FOLD, held)
    bets = game.bets_at(state)
    if isinstance(wish, str) or not bets:
      return Move(CALL, held)
    return Move(min(bets, key=lambda action: abs(bets[action] - wish)), held)


class MatchResult(NamedTuple):
  """Winnings of the first player in a match.

  Attributes:
    mean: a game, in the game's units, both seats equally often.
    half_width: of the 95 % confidence interval around the mean.
    by_seat: means of the games in which the first player had seat 0, and seat 1.
    num_games: how many were played.
  """

  mean: float
  half_width: float
  by_seat: tuple[float, float]
  num_games: int

  def __str__(self) -> str:
    return (
      f"{self.mean:+.4f} ± {self.half_width:.4f} a game over {self.num_games:,} games "
      f"(seat 0: {self.by_seat[0]:+.4f}, seat 1: {self.by_seat[1]:+.4f})"
    )


@checked
def summarise(payoffs: Sequence[tuple[int, float]], *, duplicate: bool = False) -> MatchResult:
  """Returns the result of payoffs by seat; with `duplicate` two games in turn are one sample."""
  by_seat = [np.array([payoff for s, payoff in payoffs if s == seat]) for seat in (0, 1)]
  if duplicate:
    both = (by_seat[0] + by_seat[1]) / 2
    error = np.sqrt(both.var(ddof=1) / len(both))
  else:
    error = 0.5 * np.sqrt(sum(x.var(ddof=1) / len(x) for x in by_seat))
  return MatchResult(
    mean=float(np.mean([x.mean() for x in by_seat])),
    half_width=float(1.96 * error),
    by_seat=(float(by_seat[0].mean()), float(by_seat[1].mean())),
    num_games=len(payoffs),
  )


@checked
def play_match(
  game: games.Game,
  first: Callable[[int], Seat],
  second: Callable[[int], Seat],
  *,
  num_games: int,
  seed: int = 0,
  duplicate: bool = False,
) -> MatchResult:
  """Plays a match, all games side by side; agents that share a searcher search together.

  Args:
    game: the rules.
    first, second: make a player of one game, given a seed.
    num_games: half of them with the first player in seat 0; even, from 4 to a million.
    seed: of deals, chance and players.
    duplicate: whether every deal is played twice, seats changed, with the same public chance; the
      interval is then over pairs of games. Luck that both seatings share cancels.

  Raises:
    ValueError: `num_games` is not allowed, or a player plays another game or has a policy that is
      not a distribution in every infostate.
  """
  played = play_games(game, first, second, num_games=num_games, seed=seed, duplicate=duplicate)
  return summarise([(x.seat, x.payoff) for x in played], duplicate=duplicate)


@dataclasses.dataclass
class PlayedGame:
  """A game of a match."""

  seat: int  # of the match's first player
  dealer: Dealer
  players: list[Seat]  # by seat
  luck: tuple[int, ...] | None  # seeds of the game's own chance; None: one generator for all
  chances: int = 0  # moves of chance so far that had a choice

  @property
  def payoff(self) -> float:
    """Payoff of the match's first player."""
    return self.dealer.payoff() * (1 - 2 * self.seat) + 0.0  # no negative zeros

  def settle_chance(self, rng: np.random.Generator) -> None:
    """Makes the moves that are chance's."""
    while self.dealer.actor == games.CHANCE:
      drawn = rng
      # Pairs draw their first choice from one seed, their second from another: what players do in
      # between, or cards that are burned, do not shift it.
      if self.luck is not None:
        drawn = np.random.default_rng((*self.luck, self.chances))
        self.chances += len(self.dealer.legal_actions()) > 1
      self.apply(Move(self.dealer.sample_chance(drawn), -1), rng)

  def apply(self, move: Move, rng: np.random.Generator) -> None:
    """Makes a move, and tells both players."""
    self.dealer.apply(move, rng)
    for player in (0, 1):
      self.players[player].observe(move.action, self.dealer.infostates[player])


@checked
def play_games(
  game: games.Game,
  first: Callable[[int], Seat],
  second: Callable[[int], Seat],
  *,
  num_games: int,
  seed: int = 0,
  duplicate: bool = False,
  progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PlayedGame]:
  """Plays the games of a match; arguments as for `play_match`."""
  num_games = validation.check_even("num_games", num_games, least=4, most=10**6)
  rng = np.random.default_rng(seed)
  seeds = rng.integers(2**31, size=(num_games, 2)).tolist()
  tables: list[PlayedGame] = []
  for number, (one, other) in enumerate(seeds):
    seat, dealer = number % 2, Dealer(game)
    players: list[Seat] = [first(one), second(other)]
    check_kinds(dict(zip(("first", "second"), players)), {"first": Seat, "second": Seat})
    players = players[::-1] if seat else players
    for seated in players:
      seated.dealer = dealer
    dealer.deal(rng)
    if duplicate and seat:
      dealer.infostates = list(tables[-1].dealer.infostates)
    tables.append(PlayedGame(seat, dealer, players, (seed, number // 2) if duplicate else None))
  _check_players(game, [player for table in tables for player in table.players])
  for table in tables:
    for player in (0, 1):
      table.players[player].start(player, table.dealer.infostates[player])
  running = tables
  while running:
    for table in running:
      table.settle_chance(rng)
    running = [table for table in running if not table.dealer.is_over()]
    progress(num_games - len(running), num_games)
    prepare(player for table in running for player in table.players)
    for table in running:
      table.apply(table.players[table.dealer.actor].act(), rng)
  return tables


def _check_players(game: games.Game, players: Sequence[Seat]) -> None:
  """Checks that players who know rules or a tree know those of `game`, and policies; once each."""
  policies = {(id(x.tree), id(x.policy)): x for x in players if isinstance(x, PolicyPlayer)}
  for known in policies.values():
    check_tree_of(game, known.tree)
    check_whole(known.tree, known.policy, None)
  for other in {id(x.game): x.game for x in players if x.game is not None}.values():
    if not same_rules(other, game):
      raise ValueError(f"the agent plays {other!r}, and the match is of {game!r}")


_MOST_PAIRS = 2**24  # entries of a table of pairs at every node
_MOST_BYTES = 2**29
ITERATIONS = 64
ZERO = "zero"
SOLVED = f"half the difference of both players' values after {ITERATIONS} iterations of linear CFR"
SHARES = "shares of the pot if nobody bet any more"


def estimate(
  recorder: solvers.metrics.HandRecorder,
  played: Sequence[PlayedGame],
  known: Sequence[int],
  progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[float]:
  """Returns the first player's payoff in each game by AIVAT, a mean over those `known`."""
  found = []
  for number, game in enumerate(played):
    each = []
    for first in known:
      seat, told = game.seat ^ first, list[int | None](game.dealer.infostates)
      agent: Any = game.players[seat]
      told[seat] = None
      record = recorder.record(tuple(game.dealer.history), (told[0], told[1]), agent.rows)
      each.append((1 - 2 * first) * solvers.metrics.aivat(record))
    found.append(float(np.mean(each)))
    progress(number + 1, len(played))
  return found


def make_estimator(
  game: games.Game, progress: Callable[[float], None] = lambda share: None
) -> tuple[solvers.metrics.HandRecorder, str] | None:
  """Returns a recorder for `estimate`, and its value function in words; None without AIVAT."""
  tree = None
  if not (isinstance(game, Holdem) and game.unlisted):
    with contextlib.suppress(ValueError):
      tree = games.build_public_tree(game, max_bytes=_MOST_BYTES)
  if tree is not None and tree.infostate_parent is not None:
    return None
  values: Any
  if tree is not None and tree.num_nodes * tree.num_infostates**2 <= _MOST_PAIRS:
    solved = solvers.solve(tree, algorithm=solvers.linear_cfr(), num_iterations=ITERATIONS)
    found = solvers.metrics.node_values(tree, solved.average_policy)
    values, words = solvers.metrics.half_the_difference(tree, found), SOLVED
  elif isinstance(game, Holdem):
    values, words = solvers.metrics.PotShares(game), SHARES
    values.prepare(lambda done, total: progress(done / total))
  elif tree is not None:
    values, words = solvers.metrics.zero_values(tree), ZERO
  else:
    return None
  return solvers.metrics.HandRecorder(game, values), words


class AgentStrategy(Strategy):
  """An agent's moves, and as its policy the average policies of a second agent's searches."""

  def __init__(self, agent: Agent, shadow: Agent):
    self._agent, self._shadow = agent, shadow
    self._num_actions = agent.searcher.game.num_player_actions

  def start(self) -> None:
    held = int(np.argmax(np.asarray(self._agent.searcher.game.prior())[0] > 0))
    for agent in (self._agent, self._shadow):
      agent.start(0, held)  # what it really holds, `act` says

  def observe(self, action: int) -> None:
    for agent in (self._agent, self._shadow):
      agent.observe(action)

  def rows(self, ahead: tuple[int, ...] = ()) -> np.ndarray:
    search, node = self._shadow.node()
    for action in ahead:
      node = child_after(search.tree, node, action)
    found = np.zeros((self._num_actions, search.policy.shape[1]))
    for child in np.flatnonzero(search.tree.parent == node):
      found[int(search.tree.action[child])] = search.policy[child]
    return found

  def act(self, infostate: int, rng: np.random.Generator, rows: np.ndarray) -> int:
    search, node = self._agent.node()
    self._agent.player, self._agent.infostate = int(search.tree.kind[node]), int(infostate)
    return self._agent.act().action
