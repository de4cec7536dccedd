"""Head-to-head matches of many games at once, both seats, with confidence intervals."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from games import CHANCE, Game, PublicTree
from games.origin import check_tree_of, origin_of
from rebel_jax.agents.agent import AnyAgent, prepare
from rebel_jax.agents.dealer import Dealer, Move
from rebel_jax.agents.moves import child_after, draw_move, moves_at
from solvers import validation
from solvers.metrics.expected_values import check_whole


class Player(Protocol):
  """Anyone who can sit at the table; `Agent` and `ResolvingAgent` are."""

  def start(self, player: int, infostate: int) -> None:
    """Begins a game in seat `player`, holding `infostate`."""

  def observe(self, action: int, infostate: int | None = None) -> None:
    """Takes note of a public action, and of what the player then holds."""

  def act(self) -> Move:
    """Returns a move; called when it is the player's turn."""


class UniformPlayer:
  """Moves at random, each legal move as likely as any other."""

  def __init__(self, game: Game, *, seed: int = 0):
    self._dealer, self._rng = Dealer(game), np.random.default_rng(seed)
    self._player = 0

  def start(self, player: int, infostate: int) -> None:
    """See `Player`."""
    self._player = player
    self._dealer.state, self._dealer.history = self._dealer.game.initial_state(), []
    self._dealer.infostates[player] = infostate

  def observe(self, action: int, infostate: int | None = None) -> None:
    """See `Player`."""
    game, state = self._dealer.game, self._dealer.state
    self._dealer.state = game.next_states(state[None], np.array([action]))[0]
    if infostate is not None:
      self._dealer.infostates[self._player] = infostate

  def act(self) -> Move:
    """See `Player`."""
    moves = self._dealer.legal_moves()
    return moves[self._rng.integers(len(moves))]


class PolicyPlayer:
  """Plays a policy of the whole game, such as a solver's average.

  Args:
    tree: the whole public tree.
    policy: `[N, H]` on it.
    seed: of the player's moves.
  """

  def __init__(self, tree: PublicTree, policy, *, seed: int = 0):
    self.tree, self.policy = tree, policy
    self._rows = np.asarray(policy, float)
    self._rng = np.random.default_rng(seed)
    self._player = self._infostate = self._node = 0

  def start(self, player: int, infostate: int) -> None:
    """See `Player`."""
    self._player, self._infostate, self._node = player, infostate, 0

  def observe(self, action: int, infostate: int | None = None) -> None:
    """See `Player`."""
    self._node = child_after(self.tree, self._node, action)
    if infostate is not None:
      self._infostate = infostate

  def act(self) -> Move:
    """See `Player`."""
    moves = moves_at(self.tree, self._node, self._player, self._infostate)
    choices = {move: float(self._rows[child, move.infostate]) for move, child in moves}
    return draw_move(choices, self._rng)


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


def summarise(payoffs: Sequence[tuple[int, float]]) -> MatchResult:
  """Turns pairs of the first player's seat and payoff into a result."""
  by_seat = [np.array([payoff for s, payoff in payoffs if s == seat]) for seat in (0, 1)]
  error = 0.5 * np.sqrt(sum(x.var(ddof=1) / len(x) for x in by_seat))
  return MatchResult(
    mean=float(np.mean([x.mean() for x in by_seat])),
    half_width=float(1.96 * error),
    by_seat=(float(by_seat[0].mean()), float(by_seat[1].mean())),
    num_games=len(payoffs),
  )


def play_match(
  game: Game,
  first: Callable[[int], Player],
  second: Callable[[int], Player],
  *,
  num_games: int,
  seed: int = 0,
) -> MatchResult:
  """Plays a match, all games side by side; agents that share a searcher search together.

  Args:
    game: the rules.
    first, second: make a player of one game, given a seed.
    num_games: half of them with the first player in seat 0; even, at least 4.
    seed: of deals, chance and players.

  Raises:
    ValueError: `num_games` is not allowed, or a player plays another game or has a policy that is
      not a distribution in every infostate.
  """
  num_games = validation.check_even("num_games", num_games, least=4)
  rng = np.random.default_rng(seed)
  seeds = rng.integers(2**31, size=(num_games, 2)).tolist()
  tables = []
  for number, (one, other) in enumerate(seeds):
    seat, dealer = number % 2, Dealer(game)
    players: list[Player] = [first(one), second(other)]
    players = players[::-1] if seat else players
    dealer.deal(rng)
    tables.append((seat, dealer, players))
  _check_players(game, [player for _, _, players in tables for player in players])
  for _, dealer, players in tables:
    for player in (0, 1):
      players[player].start(player, dealer.infostates[player])
  running = tables
  while running:
    _settle_chance(running, rng)
    running = [table for table in running if not table[1].is_over()]
    everyone = [player for _, _, players in running for player in players]
    search_together([player for player in everyone if isinstance(player, AnyAgent)])
    for _, dealer, players in running:
      _apply(dealer, players, players[dealer.actor].act(), rng)
  return summarise([(s, dealer.payoff() * (1 - 2 * s)) for s, dealer, _ in tables])


def _check_players(game: Game, players: Sequence[Player]) -> None:
  """Checks that players who know rules or a tree know those of `game`, and policies; once each."""
  policies = {(id(x.tree), id(x.policy)): x for x in players if isinstance(x, PolicyPlayer)}
  for known in policies.values():
    check_tree_of(game, known.tree)
    check_whole(known.tree, known.policy, None)
  for searcher in dict.fromkeys(x.searcher for x in players if isinstance(x, AnyAgent)):
    if (origin_of(searcher.game) != origin_of(game)).any():
      raise ValueError(f"the agent plays {searcher.game!r}, and the match is of {game!r}")


def search_together(agents: Sequence[AnyAgent]) -> None:
  """Lets all agents that must search do so, those of one searcher in few calls."""
  for searcher in dict.fromkeys(agent.searcher for agent in agents):
    prepare([agent for agent in agents if agent.searcher is searcher])


def _settle_chance(tables, rng: np.random.Generator) -> None:
  for _, dealer, players in tables:
    while dealer.actor == CHANCE:
      _apply(dealer, players, Move(dealer.sample_chance(rng), -1), rng)


def _apply(dealer: Dealer, players: Sequence[Player], move: Move, rng) -> None:
  dealer.apply(move, rng)
  for player in (0, 1):
    players[player].observe(move.action, dealer.infostates[player])
