"""Players at a table, by name: simple opponents, and agents of trained networks."""

from typing import Any

import numpy as np

from games import CHANCE, TERMINAL
from games.arrays import checked, with_columns
from games.poker import CALL, FOLD, Holdem, betting, map_bet
from games.poker.streets import size_columns_at
from rebel_jax.agents.agent import StreetSearcher, make_searcher, searcher_of
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config import ConfigError, in_config_errors
from rebel_jax.evaluation.opponents import OPPONENTS, HoldemDecision, opponent
from rebel_jax.tables.chips import (
  OFF_TREE,
  Call,
  Cards,
  Deal,
  Event,
  Fold,
  Move,
  RaiseTo,
  Seated,
  from_blinds,
  make_rules,
  play_chip_match,
)


class SimpleSeat(Seated):
  """One of `OPPONENTS`, by name."""

  @checked
  def __init__(self, name: str, rules: Holdem, *, seed: int = 0):
    super().__init__(rules, seed=seed)
    self._wish = opponent(name).wish

  def act(self) -> Move:
    held = self.table.hole_cards[self.seat] or ()
    here = HoldemDecision(self.rules, self.table.turn, held, self.table.board)
    wish = self._wish(here, self.rng)
    if isinstance(wish, int):
      return RaiseTo(wish)
    return Fold() if wish == "fold" else Call()


@in_config_errors("game_params")
@checked
def rules_of(game_params: dict[str, Any]) -> Holdem:
  """Returns the rules that a command line's parameters name, by `make_rules`."""
  return make_rules(**game_params)


@checked
def make_chip_player(
  name_or_run: str,
  *,
  rules: dict[str, Any] | None = None,
  off_tree: str | None = None,
  seed: int = 0,
  **settings: Any,
) -> Seated:
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
    if settings or off_tree:
      raise ConfigError(
        f"{next(iter(settings), 'off_tree')} is not for run={name_or_run!r}, which never searches"
      )
    return SimpleSeat(name_or_run, rules_of(rules or {}), seed=seed)
  if rules:
    raise ConfigError(f"game_params are not for run={name_or_run!r}, which knows what it plays")
  with in_config_errors("", ConfigError, then=f"; opponents are: {', '.join(OPPONENTS)}"):
    policy = checkpoint.load(name_or_run)
  return seat_agent(policy, name_or_run, off_tree=off_tree, seed=seed, **settings)


@checked
def seat_agent(
  policy: checkpoint.Policy,
  name: str,
  *,
  off_tree: str | None = None,
  seed: int = 0,
  **settings: Any,
) -> Seated:
  """Returns the agent of a network as a player of hands; `name` it for errors."""
  game = policy.config.make_game()
  timed = searcher_of(policy) is StreetSearcher
  known = (*policy.config.search.agent_options, *["seconds"] * timed)
  for setting in settings:
    if setting not in known:
      raise ConfigError(
        f"{setting}={settings[setting]!r} is not for run={name!r}; allowed are: {', '.join(known)}"
      )
  if not isinstance(game, Holdem):
    raise ConfigError(f"run={name!r} plays {game!r}; a table of hold'em needs hold'em")
  with in_config_errors(f"run={name!r} does not play from the blinds", ValueError):
    from_blinds(game)
  searcher = make_searcher(policy, seed=seed, **settings)
  how = off_tree or "nearest"
  if isinstance(searcher, StreetSearcher):
    how, game = off_tree or "add", searcher.with_sizes
  elif how == "add":
    raise ConfigError(f"off_tree='add' is not for run={name!r}, whose trees are written out")
  return TreePlayer(game, searcher.agent(seed=seed), off_tree=how, seed=seed)


class TreePlayer(Seated):
  """Lets a `Seat` of a hold'em game from the blinds play in chips."""

  @checked
  def __init__(self, game: Holdem, player: Any, *, off_tree: str = "nearest", seed: int = 0):
    """Lets `player` play the game's tree; `off_tree` says how bets that it lacks are answered."""
    super().__init__(from_blinds(game), seed=seed)
    if off_tree not in OFF_TREE:
      raise ValueError(f"off_tree={off_tree!r} is unknown; known: {', '.join(OFF_TREE)}")
    if off_tree == "add" and not hasattr(player, "search_again"):
      raise ValueError(f"off_tree='add' needs a player that searches each round, not {player!r}")
    self.game, self.player, self.off_tree = game, player, off_tree
    self.lost = False  # whether the tree's hand no longer follows the one at the table
    self._state = game.initial_state()
    self._answer: tuple[Move, int] | None = None  # the last move, and the tree's action for it

  def warm_up(self) -> None:
    play_chip_match((self, SimpleSeat("always_call", self.rules)), self.rules, num_hands=2)

  def start(self, seat: int, hole_cards: Cards) -> None:
    super().start(seat, hole_cards)
    self._state, self._answer, self.lost = self.game.initial_state(), None, False
    self.player.start(seat, self.game.infostate(self.game.deck.names(hole_cards)))

  def observe(self, event: Event) -> None:
    before = self.table.turn
    self.table.apply(event)
    if not self.lost:
      for action in self._in_tree(event, before):
        self._state = self.game.next_states(self._state[None], np.array([action]))[0]
        self.player.observe(action)
    self._answer = None

  def act(self) -> Move:
    # Where the tree's hand is over, as after a bet taken for all-in, all is in that was meant.
    if self.lost or self._actor() != self.seat:
      return Call()
    action = int(self.player.act().action)
    self._answer = self.at_table(action), action
    return self._answer[0]

  # The tree's hand.

  def _actor(self) -> int:
    return int(self.game.actor(self._state[None])[0])

  def _highest(self) -> int:
    """Returns the chips of a player after a call, at least one: half the pot after it."""
    return max(self.game.rules.at(self._state).highest, 1)

  # From one hand to the other.

  def _in_tree(self, event: Event, before: betting.BettingTurn) -> list[int]:
    """Returns the tree's actions for an event at the table; none where its hand is elsewhere."""
    actor = self._actor()
    if isinstance(event, Deal):
      if actor == CHANCE and int(self._state[betting.ROUND]) == before.round:
        legal = self.game.legal_actions(self._state[None])[0]
        burns = [self.game.burn] * bool(legal[self.game.burn])
        number = self.game.dealing.number(np.array([sorted(event.cards)]))[0]
        return [*burns, self.game.first_deal + int(number)]
      self.lost = actor != TERMINAL
      return []
    if actor != before.actor:
      return []
    if self._answer is not None and self._answer[0] == event:
      return [self._answer[1]]
    if isinstance(event, RaiseTo):
      return [self._bet_in_tree(event.chips, before)]
    return [FOLD if isinstance(event, Fold) else CALL]

  def _bet_in_tree(self, chips: int, before: betting.BettingTurn) -> int:
    """Returns the tree's action that a bet of the other's is taken for; a call if it has no bet."""
    bets = self.game.bets_at(self._state)
    if not bets:
      return CALL
    if chips == self.rules.rules.stack and chips in bets.values():
      return next(action for action, to in bets.items() if to == chips)
    highest, here = self._highest(), max(before.highest, 1)
    share = (chips - here) / (2 * here)
    if self.off_tree == "add":
      self._add(share)
      bets = self.game.bets_at(self._state)
    shares = [(to - highest) / (2 * highest) for to in bets.values()]
    if self.off_tree == "map":
      return int(self.rng.choice(list(bets), p=map_bet(share, shares)))
    return list(bets)[int(np.argmin(np.abs(np.array(shares) - share)))]

  def _add(self, share: float) -> None:
    """Makes one size of the decision that play is at a bet of `share` of the pot, if none is."""
    game, state = self.game, self._state
    columns = size_columns_at(game, state)
    thousandths = max(int(np.floor(1000 * share + 0.5)), 1)
    known = {slot: int(state[column]) for slot, column in columns.items()}
    if thousandths in known.values() or state[betting.RAISES] >= game.templates().sized_raises:
      return
    slot = min(known, key=lambda slot: abs(known[slot] - thousandths), default=None)
    if slot is None:
      return

    def change(root: np.ndarray) -> np.ndarray:
      return with_columns(np.asarray(root)[None], {columns[slot]: thousandths})[0]

    changed = change(state)
    if game.amounts(changed[None])[0, slot] < 0:
      return  # it is all-in, or as much as another size
    self._state = changed
    player: Any = self.player
    player.search_again(change)

  def at_table(self, action: int) -> Move:
    """Returns the move at the table that stands for the tree's action."""
    turn = self.table.turn
    if action == FOLD and turn.may_fold:
      return Fold()
    if action in (FOLD, CALL) or turn.raises is None:
      return Call()
    to = self.game.bets_at(self._state)[action]
    least, most = turn.raises
    if to == self.rules.rules.stack:
      return RaiseTo(most)
    highest, here = self._highest(), max(turn.highest, 1)
    # Half a chip is rounded up; where the pots are equal this is `to` itself.
    chips = here + (2 * (to - highest) * here + highest) // (2 * highest)
    return RaiseTo(min(max(chips, least), most))
