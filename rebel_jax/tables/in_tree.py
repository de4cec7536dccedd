"""Players in chips who play a game's own moves: simple opponents in matches of hold'em."""

import numpy as np

from games import CHANCE
from games.poker.holdem import CALL, FIRST_BET, FOLD, Holdem
from rebel_jax.agents.dealer import Move
from rebel_jax.tables.chips import Call, Deal, Event, Fold, RaiseTo, TableRules
from rebel_jax.tables.opponents import OPPONENTS


class InTree:
  """Lets one of `OPPONENTS` play hold'em from the blinds by the moves of the game.

  A raise becomes the nearest in chips that the game has, all-in among them; of two as near the
  smaller.

  Raises:
    ValueError: the game does not begin with the blinds.
  """

  def __init__(self, game: Holdem, name: str, *, seed: int = 0):
    self._game = game
    self._seated = OPPONENTS[name](TableRules.of(game), seed=seed)
    self._state, self._infostate = game.initial_state(), 0

  def start(self, player: int, infostate: int) -> None:
    """See `rebel_jax.agents.match.Player`."""
    self._state, self._infostate = self._game.initial_state(), infostate
    self._seated.start(player, tuple(self._game.hole_cards[infostate].tolist()))

  def observe(self, action: int, infostate: int | None = None) -> None:
    """See `rebel_jax.agents.match.Player`."""
    event = self._event(action)
    if event is not None:
      self._seated.observe(event)
    self._state = self._game.next_states(self._state[None], np.array([action]))[0]

  def act(self) -> Move:
    """See `rebel_jax.agents.match.Player`."""
    move = self._seated.act()
    if isinstance(move, Fold):
      return Move(FOLD, self._infostate)
    amounts = self._amounts()
    if isinstance(move, Call) or not amounts:
      return Move(CALL, self._infostate)
    nearest = min(amounts, key=lambda action: (abs(amounts[action] - move.chips), amounts[action]))
    return Move(nearest, self._infostate)

  def _amounts(self) -> dict[int, int]:
    """Returns what each bet that is legal raises to."""
    chips = self._game.amounts(self._state[None])[0].tolist()
    return {FIRST_BET + slot: to for slot, to in enumerate(chips) if to >= 0}

  def _event(self, action: int) -> Event | None:
    """Returns what happens at the table; nothing does where a card is burned."""
    if self._game.actor(self._state[None])[0] == CHANCE:
      if action == self._game.burn:
        return None
      cards = self._game.dealt_cards(self._state[None], np.array([action]))[0]
      return Deal(tuple(int(card) for card in cards if card >= 0))
    if action == FOLD:
      return Fold()
    return Call() if action == CALL else RaiseTo(self._amounts()[action])
