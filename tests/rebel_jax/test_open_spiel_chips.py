"""Players in chips as bots of OpenSpiel's universal_poker, against the same hands played here."""

import re

import numpy as np
import pytest

from rebel_jax.tables.chips import hands_of, make_rules, play_hand
from rebel_jax.tables.players import SimpleSeat

pyspiel = pytest.importorskip("pyspiel")
chip_bot = pytest.importorskip("rebel_jax.open_spiel.bots")

RULES = make_rules(stack=2_000)


def universal_poker(**changes):
  how = dict(
    betting="nolimit", numPlayers=2, numRounds=4, blind="100 50", firstPlayer="2 1 1 1", numSuits=4,
    numRanks=13, numHoleCards=2, numBoardCards="0 3 1 1", stack="2000 2000",
    bettingAbstraction="fullgame",
  )  # fmt: skip
  settings = ",".join(f"{name}={value}" for name, value in (how | changes).items())
  return pyspiel.load_game(f"universal_poker({settings})")


def their_card(card):
  """Returns OpenSpiel's number of a card: rank by rank, clubs first."""
  rank, suit = RULES.deck.name(card)
  return 4 * "23456789TJQKA".index(rank) + "cdhs".index(suit)


def played_there(game, bots, hand):
  """Plays a hand in OpenSpiel; returns what each of our seats won, and the number of moves."""
  state, moves = game.new_initial_state(), 0
  cards = [*hand.hole_cards[RULES.seat_of(0)], *hand.hole_cards[RULES.seat_of(1)], *hand.board]
  for bot in bots:
    bot.restart()
  while not state.is_terminal():
    if state.is_chance_node():
      state.apply_action(their_card(cards.pop(0)))
      continue
    state.apply_action(bots[state.current_player()].step(state))
    moves += 1
  return tuple(state.returns()[RULES.seat_of(seat)] for seat in (0, 1)), moves


@pytest.mark.parametrize(
  "names", [("uniform", "uniform"), ("pot_maniac", "uniform"), ("always_call", "equity_threshold")]
)
def test_hands_are_those_played_here(names):
  game, moves = universal_poker(), 0
  here = [SimpleSeat(name, RULES, seed=k) for k, name in enumerate(names)]
  there = [SimpleSeat(name, RULES, seed=k) for k, name in enumerate(names)]
  bots = [
    chip_bot.ChipBot(there[RULES.seat_of(position)], RULES, game, position) for position in (0, 1)
  ]
  for hand in hands_of(RULES, num_hands=40, seed=1):
    found, made = played_there(game, bots, hand)
    assert found == play_hand(here, RULES, hand).payoffs()
    moves += made
  assert moves > 80


def test_a_bot_that_holds_the_other_hand_would_be_found(monkeypatch):
  """Control: who has strong hands plays otherwise than who thinks it has."""
  monkeypatch.setattr(chip_bot.ChipBot, "_card", lambda self, action: (action + 7) % 52)
  with pytest.raises((AssertionError, ValueError)):
    test_hands_are_those_played_here(("always_call", "equity_threshold"))


def test_a_bot_may_begin_in_the_middle_of_a_hand():
  game, rng = universal_poker(), np.random.default_rng(0)
  state = game.new_initial_state()
  bot = chip_bot.ChipBot(SimpleSeat("always_call", RULES), RULES, game, 0)
  while not state.is_terminal():
    if state.is_chance_node() or state.current_player() == 1:
      state.apply_action(int(rng.choice(state.legal_actions()[:2])))
      continue
    bot.restart_at(state)
    assert bot.step(state) == 1
    state.apply_action(1)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    (dict(stack="2000 1000"), "stack='2000 1000' must be '2000 2000', which is what the player"),
    (dict(blind="50 100"), "blind='50 100' must be '100 50'"),
    (dict(bettingAbstraction="fcpa"), "bettingAbstraction='fcpa' must be 'fullgame'"),
    (dict(numSuits=3), "numSuits=3 must be 4"),
  ],
)
def test_other_games_are_refused(changes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    chip_bot.ChipBot(SimpleSeat("uniform", RULES), RULES, universal_poker(**changes), 0)
  with pytest.raises(ValueError, match="game='kuhn_poker' must be universal_poker"):
    chip_bot.ChipBot(SimpleSeat("uniform", RULES), RULES, pyspiel.load_game("kuhn_poker"), 0)
