"""Players of hands in chips as bots of OpenSpiel's `universal_poker`, whole hold'em included."""

import pyspiel

from games.poker.cards import NUM_HOLE_CARDS, Deck
from rebel_jax.tables.chips import Call, ChipPlayer, Deal, Event, Fold, RaiseTo, TableRules

_FOLD, _CALL = 0, 1  # a greater number is what a raise is to
_SUITS = "cdhs"


class ChipBot(pyspiel.Bot):
  """Lets a player of hands in chips play `universal_poker` with chips as actions (`fullgame`).

  Nothing is asked of OpenSpiel's game but its history, so no tree of it is made.

  Args:
    player: such as `rebel_jax.tables.players.make_chip_player(...).player`.
    rules: what it plays, as in `make_chip_player(...).rules`.
    game: what is played in OpenSpiel.
    player_id: the seat there.

  Raises:
    ValueError: `game` is another one than `rules` are of, or `player_id` is no seat.
  """

  def __init__(self, player: ChipPlayer, rules: TableRules, game: pyspiel.Game, player_id: int):
    pyspiel.Bot.__init__(self)
    if player_id not in (0, 1):
      raise ValueError(f"player_id={player_id!r} must be 0 or 1")
    _check_game(game, rules)
    self._player, self._rules, self._id = player, rules, player_id
    self._seen: list[int] = []

  def player_id(self) -> int:
    """Returns the bot's seat."""
    return self._id

  def restart(self) -> None:
    """Forgets the hand so far."""
    self._seen = []

  def restart_at(self, state: pyspiel.State) -> None:
    """Forgets the hand so far; `state` is caught up with at the next step."""
    self._seen = []

  def step(self, state: pyspiel.State) -> int:
    """Returns an action of OpenSpiel's."""
    self._catch_up(state)
    move = self._player.act()
    if isinstance(move, RaiseTo):
      return move.chips
    return _FOLD if isinstance(move, Fold) else _CALL

  def _catch_up(self, state: pyspiel.State) -> None:
    history = state.history()
    if not self._seen or history[: len(self._seen)] != self._seen:
      first = NUM_HOLE_CARDS * self._id
      hand = [self._card(action) for action in history[first : first + NUM_HOLE_CARDS]]
      self._player.start(self._rules.seat_of(self._id), tuple(hand))
      self._seen = history[: 2 * NUM_HOLE_CARDS]
    dealt: list[int] = []
    board = list(self._rules.deals)
    for number, (player, action) in enumerate(_moves(state)):
      by_chance = player == pyspiel.PlayerId.CHANCE
      if by_chance and number >= 2 * NUM_HOLE_CARDS:
        dealt.append(self._card(action))
        if len(dealt) < board[0]:
          continue
        board, event, dealt = board[1:], Deal(tuple(dealt)), []
      if number >= len(self._seen):
        self._player.observe(event if by_chance else _move(action))
    self._seen = history

  def _card(self, action: int) -> int:
    """Returns the number of a card that OpenSpiel counts rank by rank, clubs first."""
    rank, suit = divmod(action, len(_SUITS))
    (card,) = self._rules.deck.parse(Deck().ranks[rank] + _SUITS[suit])
    return card


def _moves(state: pyspiel.State) -> list[tuple[int, int]]:
  return [(step.player, step.action) for step in state.full_history()]


def _move(action: int) -> Event:
  return RaiseTo(action) if action > _CALL else Call() if action == _CALL else Fold()


def _check_game(game: pyspiel.Game, rules: TableRules) -> None:
  """Checks that a game of OpenSpiel's has the rules that a player knows.

  Raises:
    ValueError: it has not.
  """
  if game.get_type().short_name != "universal_poker":
    raise ValueError(f"game={game.get_type().short_name!r} must be universal_poker")
  seats, betting = [rules.seat_of(position) for position in (0, 1)], rules.rules
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
      raise ValueError(f"{name}={known[name]!r} must be {value!r}, which is what the player plays")
  if rules.deck.num_cards != Deck().num_cards:
    raise ValueError(f"numRanks={len(rules.deck.ranks)} must be 13 with 4 suits: the whole deck")


def _words(numbers: list[int]) -> str:
  return " ".join(map(str, numbers))
