"""Agents and players in chips as OpenSpiel bots, and matches against OpenSpiel's bots."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyspiel

from games import Game, build_public_tree
from games.poker import NUM_HOLE_CARDS, Deck, Holdem
from rebel_jax.agents.dealer import Move, prepare
from rebel_jax.agents.match import MatchResult, summarise
from rebel_jax.open_spiel.policies import find_moves, load_game
from rebel_jax.tables.chips import Call, ChipPlayer, Deal, Event, Fold, RaiseTo, seat_of
from solvers import validation

# The public actions before a decision, our infostates that are one of OpenSpiel's, and by each of
# its actions ours and the infostates after it.
Turn = tuple[tuple[int, ...], tuple[int, ...], dict[int, tuple[int, tuple[int, ...]]]]


class Translation:
  """OpenSpiel's information states and actions of a game, in our terms."""

  @validation.checked
  def __init__(self, game: Game):
    self.game = game
    self.open_spiel_game = load_game(game)
    self._turns: dict[str, Turn] = {}
    if game.num_infostates == 1:
      return
    tree = build_public_tree(game)
    for string, action, node, after in find_moves(game, tree):
      if string not in self._turns:
        above, before = int(tree.parent[node]), after
        if tree.infostate_parent is not None:
          origins = tree.infostate_parent[node, tree.kind[above], list(after)]
          before = tuple(dict.fromkeys(origins.tolist()))
        self._turns[string] = tree.history(above), before, {}
      self._turns[string][2][action] = int(tree.action[node]), after

  def turn(self, state: pyspiel.State, player: int) -> Turn:
    """Returns the turn of `player` in a state."""
    if self._turns:
      return self._turns[state.information_state_string(player)]
    return tuple(state.history()), (0,), {x: (x, (0,)) for x in state.legal_actions(player)}


class _FollowingBot(pyspiel.Bot):
  """Catches up with the game at each of its steps."""

  def __init__(self, player: int):
    pyspiel.Bot.__init__(self)
    self._player = player
    self._seen: Any = None  # the history caught up with; None before a game

  def player_id(self) -> int:
    """Returns the bot's seat."""
    return self._player

  def restart(self, state: pyspiel.State | None = None) -> None:
    """Forgets the game so far; a state is caught up with at the next step."""
    self._seen = None

  restart_at = restart


class AgentBot(_FollowingBot):
  """Plays with a trained network and search wherever OpenSpiel's bots do."""

  def __init__(self, searcher: Any, translation: Translation, player: int, *, seed: int = 0):
    super().__init__(player)
    self._agent = searcher.agent(seed=seed)
    self._translation = translation
    self._rng, self._held = np.random.default_rng(seed), 0

  def provides_policy(self) -> bool:
    """Says that `get_policy` and `step_with_policy` are answered."""
    return True

  def catch_up(self, state: pyspiel.State) -> bool:
    """Observes what has happened since the last turn; returns whether a search is needed first."""
    history, infostates, _ = self._translation.turn(state, self._player)
    if self._seen is None or history[: len(self._seen)] != self._seen:
      # OpenSpiel's information state may be several infostates of ours: any of them will do.
      self._held = int(self._rng.choice(infostates))
      # What was dealt is what is held now, where infostates never change.
      prior = np.asarray(self._translation.game.prior())[self._player]
      dealt = self._held if prior[self._held] > 0 else int(np.flatnonzero(prior)[0])
      self._agent.start(self._player, dealt)
      self._seen = ()
    for action in history[len(self._seen) :]:
      if self._agent.pending:
        return True
      self._agent.observe(action)
      self._seen = (*self._seen, action)
    if self._held not in infostates:
      self._held = int(self._rng.choice(infostates))
    self._agent.infostate = self._held
    return self._agent.pending

  def get_policy(self, state: pyspiel.State) -> list[tuple[int, float]]:
    """Returns the probabilities of OpenSpiel's legal actions."""
    while self.catch_up(state):
      prepare([self._agent])
    choices = self._agent.choices()
    _, _, ours = self._translation.turn(state, self._player)
    policy = {x: max(choices.get(Move(y, h), 0.0) for h in z) for x, (y, z) in ours.items()}
    weights = np.array(list(policy.values()))
    return list(zip(policy, (weights / weights.sum()).tolist()))

  def step_with_policy(self, state: pyspiel.State) -> tuple[list[tuple[int, float]], int]:
    """Returns the probabilities of OpenSpiel's legal actions, and one of them, sampled."""
    policy = self.get_policy(state)
    actions, weights = zip(*policy)
    return policy, actions[self._rng.choice(len(actions), p=weights)]

  def step(self, state: pyspiel.State) -> int:
    """Returns an action of OpenSpiel's."""
    return self.step_with_policy(state)[1]


def play_bots(
  searcher: Any,
  make_bot: Callable[[pyspiel.Game, int, int], Any],
  *,
  num_games: int,
  seed: int = 0,
) -> MatchResult:
  """Plays the agent against a bot of OpenSpiel, all games side by side, both seats equally often.

  Args:
    searcher: what the agent searches with.
    make_bot: makes the other player, a `pyspiel.Bot`, given the game, its seat and a seed; it gets
      the calls of OpenSpiel's own matches.
    num_games: even, at least 4.
    seed: of deals and players.

  Returns:
    What the agent won, in the game's units.

  Raises:
    ValueError: `num_games` is not allowed, or the game has no counterpart in OpenSpiel.
  """
  num_games = validation.check_even("num_games", num_games, least=4)
  translation = Translation(searcher.game)
  game = translation.open_spiel_game
  rng = np.random.default_rng(seed)
  tables = []
  for number in range(num_games):
    seat, seeds = number % 2, rng.integers(2**31, size=2).tolist()
    ours = AgentBot(searcher, translation, seat, seed=seeds[0])
    other = make_bot(game, 1 - seat, seeds[1])
    other.restart()
    tables.append((seat, game.new_initial_state(), ours, other))
  running = tables
  while running:
    for _, state, _, other in running:
      while state.is_chance_node():
        outcomes, weights = zip(*state.chance_outcomes())
        outcome = int(rng.choice(outcomes, p=weights))
        other.inform_action(state, pyspiel.PlayerId.CHANCE, outcome)
        state.apply_action(outcome)
    running = [table for table in running if not table[1].is_terminal()]
    turns = [(bot, state) for seat, state, bot, _ in running if state.current_player() == seat]
    while waiting := [bot for bot, state in turns if bot.catch_up(state)]:
      prepare(bot._agent for bot in waiting)
    for seat, state, ours, other in running:
      if state.current_player() == seat:
        action = ours.step(state)
        other.inform_action(state, seat, action)
      else:
        action = other.step(state)
      state.apply_action(action)
  return summarise([(seat, state.returns()[seat]) for seat, state, _, _ in tables])


_FOLD, _CALL = 0, 1  # a greater number is what a raise is to
_SUITS = "cdhs"


class ChipBot(_FollowingBot):
  """Lets a player of hands in chips play `universal_poker` with chips as actions (`fullgame`).

  Nothing is asked of OpenSpiel's game but its history, so no tree of it is made.

  Args:
    player: such as `rebel_jax.tables.players.make_chip_player(...)`.
    rules: what it plays, as in `make_chip_player(...).rules`.
    game: what is played in OpenSpiel.
    player_id: the seat there.

  Raises:
    ValueError: `game` is another one than `rules` are of, or `player_id` is no seat.
  """

  def __init__(self, player: ChipPlayer, rules: Holdem, game: pyspiel.Game, player_id: int):
    super().__init__(player_id)
    validation.check_player(player_id, "player_id")
    _check_game(game, rules)
    self._at_table, self._rules = player, rules

  def step(self, state: pyspiel.State) -> int:
    """Returns an action of OpenSpiel's."""
    self._catch_up(state)
    move = self._at_table.act()
    passive = _FOLD if isinstance(move, Fold) else _CALL
    return move.chips if isinstance(move, RaiseTo) else passive

  def _catch_up(self, state: pyspiel.State) -> None:
    history = state.history()
    if not self._seen or history[: len(self._seen)] != self._seen:
      first = NUM_HOLE_CARDS * self._player
      hand = [self._card(action) for action in history[first : first + NUM_HOLE_CARDS]]
      self._at_table.start(seat_of(self._rules, self._player), tuple(hand))
      self._seen = history[: 2 * NUM_HOLE_CARDS]
    dealt: list[int] = []
    board = list(self._rules.deals)
    for number, step in enumerate(state.full_history()):
      event: Event = Fold() if step.action == _FOLD else Call()
      if step.player == pyspiel.PlayerId.CHANCE:
        dealt += [self._card(step.action)] * (number >= 2 * NUM_HOLE_CARDS)
        if len(dealt) < board[0]:
          continue
        board, event, dealt = board[1:], Deal(tuple(dealt)), []
      elif step.action > _CALL:
        event = RaiseTo(step.action)
      if number >= len(self._seen):
        self._at_table.observe(event)
    self._seen = history

  def _card(self, action: int) -> int:
    """Returns the number of a card that OpenSpiel counts rank by rank, clubs first."""
    rank, suit = divmod(action, len(_SUITS))
    (card,) = self._rules.deck.parse(Deck().ranks[rank] + _SUITS[suit])
    return card


def _check_game(game: pyspiel.Game, rules: Holdem) -> None:
  """Checks that a game of OpenSpiel's has the rules of a player's game."""
  if game.get_type().short_name != "universal_poker":
    raise ValueError(f"game={game.get_type().short_name!r} must be universal_poker")
  seats, betting = [seat_of(rules, position) for position in (0, 1)], rules.rules
  rounds = range(len(rules.deals) + 1)
  first = [betting.first_to_act[min(k, len(betting.first_to_act) - 1)] for k in rounds]
  expected = {
    "betting": "nolimit",
    "bettingAbstraction": "fullgame",
    "numPlayers": 2,
    "numRounds": len(rounds),
    "numRanks": len(rules.deck.ranks),
    "numSuits": len(rules.deck.suits),
    "numHoleCards": NUM_HOLE_CARDS,
    "numBoardCards": _words([0, *rules.deals]),
    "blind": _words([betting.paid[seat] for seat in seats]),
    "stack": _words([betting.stacks[seat] for seat in seats]),
    "firstPlayer": _words([1 + seats.index(seat) for seat in first]),
  }
  known = game.get_parameters()
  for name, value in expected.items():
    if known[name] != value:
      raise ValueError(
        f"{name}={validation.short(known[name])} must be {value!r}, which is what the player plays"
      )
  if rules.deck.num_cards != Deck().num_cards:
    raise ValueError(f"numRanks={len(rules.deck.ranks)} must be 13 with 4 suits: the whole deck")


def _words(numbers: list[int]) -> str:
  return " ".join(map(str, numbers))
