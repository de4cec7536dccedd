"""Who sits at a table, by name: simple opponents, and agents of trained networks."""

import dataclasses
from typing import Any

from games.poker.holdem import Holdem
from rebel_jax.agents.agent import make_searcher, searcher_of
from rebel_jax.agents.street_searcher import StreetSearcher
from rebel_jax.checkpoints import checkpoint
from rebel_jax.checkpoints.checkpoint import Policy
from rebel_jax.config.allowed import ConfigError
from rebel_jax.evaluation.opponents import OPPONENTS, HoldemDecision
from rebel_jax.tables.chip_match import play_chip_match
from rebel_jax.tables.chips import (
  Call,
  ChipPlayer,
  Fold,
  Move,
  RaiseTo,
  Seated,
  TableRules,
  make_rules,
)
from rebel_jax.tables.tree_player import TreePlayer


class SimpleSeat(Seated):
  """One of `OPPONENTS`, by name."""

  def __init__(self, name: str, rules: TableRules, *, seed: int = 0):
    super().__init__(rules, seed=seed)
    self._wish = OPPONENTS[name].wish

  @property
  def decision(self) -> HoldemDecision:
    """What the player looks at now."""
    rules, board, held = self.rules, self.table.board, self.table.hole_cards[self.seat]
    to_come = sum(rules.deals) - len(board)
    return HoldemDecision(rules.rules, rules.deck, self.table.state, held or (), board, to_come)

  def act(self) -> Move:
    """See `ChipPlayer`."""
    wish = self._wish(self.decision, self.rng)
    if isinstance(wish, int):
      return RaiseTo(wish)
    return Fold() if wish == "fold" else Call()


@dataclasses.dataclass(frozen=True)
class Seating:
  """A player, and what it plays.

  Attributes:
    player: plays hands.
    rules: what they are of.
    searches: whether it compiles programs at its first moves.
  """

  player: ChipPlayer
  rules: TableRules
  searches: bool = False

  def warm_up(self) -> None:
    """Lets a player that searches compile before anyone waits for it, by two hands of its own."""
    if self.searches:
      play_chip_match([self.player, SimpleSeat("always_call", self.rules)], self.rules, num_hands=2)


def rules_of(game_params: dict[str, Any]) -> TableRules:
  """Returns what `make_rules` makes of parameters of a command line.

  Raises:
    ConfigError: one is not allowed.
  """
  try:
    return make_rules(**game_params)
  except (TypeError, ValueError) as error:
    raise ConfigError(f"game_params: {error}") from None


def make_chip_player(
  name_or_run: str,
  *,
  rules: dict[str, Any] | None = None,
  off_tree: str | None = None,
  seed: int = 0,
  **settings: Any,
) -> Seating:
  """Returns the player that a name stands for, and what it plays.

  Args:
    name_or_run: one of `OPPONENTS`, or a run's folder or a network that comes with the package,
      whose game is hold'em from the blinds.
    rules: of opponents: what `make_rules` takes; networks know what they play.
    off_tree: how a network's agent answers bets that its tree lacks, as for `TreePlayer`; None for
      `add` where rounds are made where play leads, else `nearest`.
    seed: of the player's moves.
    settings: of a network's searches, as for `make_searcher`.

  Raises:
    ConfigError: there is nothing of that name, it plays something else, or a setting is not for it.
  """
  if name_or_run in OPPONENTS:
    if settings:
      raise ConfigError(
        f"{next(iter(settings))} is not for run={name_or_run!r}, which never searches"
      )
    played = rules_of(rules or {})
    return Seating(SimpleSeat(name_or_run, played, seed=seed), played)
  if rules:
    raise ConfigError(f"game_params are not for run={name_or_run!r}, which knows what it plays")
  try:
    policy = checkpoint.load(name_or_run)
  except ConfigError as error:
    raise ConfigError(f"{error}; opponents are: {', '.join(OPPONENTS)}") from None
  return seat_agent(policy, name_or_run, off_tree=off_tree, seed=seed, **settings)


def seat_agent(
  policy: Policy, name: str, *, off_tree: str | None = None, seed: int = 0, **settings: Any
) -> Seating:
  """Returns the agent of a network as a player of hands; `name` it for errors.

  Raises:
    ConfigError: its game is not hold'em from the blinds, or a setting is not for its searches.
  """
  game = policy.config.make_game()
  known = policy.config.search.agent_options
  if searcher_of(policy) is StreetSearcher:
    known = (*known, "seconds")
  for setting in settings:
    if setting not in known:
      raise ConfigError(
        f"{setting}={settings[setting]!r} is not for run={name!r}; allowed are: {', '.join(known)}"
      )
  if not isinstance(game, Holdem):
    raise ConfigError(f"run={name!r} plays {game!r}; a table of hold'em needs hold'em")
  try:
    rules = TableRules.of(game)
  except ValueError as error:
    raise ConfigError(f"run={name!r} does not play from the blinds: {error}") from None
  searcher = make_searcher(policy, seed=seed, **settings)
  how = off_tree or "nearest"
  if isinstance(searcher, StreetSearcher):
    how, game = off_tree or "add", searcher.with_sizes
  elif how == "add":
    raise ConfigError(f"off_tree='add' is not for run={name!r}, whose trees are written out")
  player = TreePlayer(game, searcher.agent(seed=seed), off_tree=how, seed=seed)
  return Seating(player, rules, searches=True)
