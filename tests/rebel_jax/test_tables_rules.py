"""Hands in chips, and bots that play them, against OpenSpiel's universal_poker and pokerkit."""

import re

import numpy as np
import pytest

from rebel_jax.tables import acpc, chips
from rebel_jax.tables.chips import (
  Call,
  ChipTable,
  Deal,
  Fold,
  RaiseTo,
  hands_of,
  make_rules,
  play_hand,
  seat_of,
)
from rebel_jax.tables.players import SimpleSeat
from tests.chip_hands import random_hand, random_move, random_rules
from tests.sentences import sentence_of

pyspiel = pytest.importorskip("pyspiel")
pokerkit = pytest.importorskip("pokerkit")
chip_bot = pytest.importorskip("rebel_jax.open_spiel.bots")


RULES = make_rules(stack=2_000)


def universal_poker(stack=2_000, **changes):
  how = dict(
    betting="nolimit", numPlayers=2, numRounds=4, blind="100 50", firstPlayer="2 1 1 1", numSuits=4,
    numRanks=13, numHoleCards=2, numBoardCards="0 3 1 1", stack=f"{stack} {stack}",
    bettingAbstraction="fullgame",
  )  # fmt: skip
  settings = ",".join(f"{name}={value}" for name, value in (how | changes).items())
  return pyspiel.load_game(f"universal_poker({settings})")


def their_card(deck, card):
  """Returns OpenSpiel's number of a card: rank by rank, clubs first."""
  rank, suit = deck.name(card)
  return 4 * "23456789TJQKA".index(rank) + "cdhs".index(suit)


def canonical(cards):
  """Returns cards as text with each hand and each deal in one order."""
  parts = re.split(r"([|/])", cards)
  return "".join("".join(sorted(re.findall("..", part))) or part for part in parts)


def same_as_open_spiel(rng, stack, seat=seat_of):
  """Plays one hand in both programs; returns how many decisions were compared."""
  rules = make_rules(stack=stack)
  theirs = universal_poker(stack).new_initial_state()
  deck, decisions = rules.deck, 0
  cards = rng.choice(52, 9, replace=False).tolist()
  hands = [tuple(cards[:2]), tuple(cards[2:4])]  # by position
  for card in cards[:4]:
    theirs.apply_action(their_card(deck, card))
  ours = ChipTable(rules, [hands[seat(rules, x)] for x in (0, 1)])
  while not ours.is_over:
    if ours.due:
      deal = Deal(tuple(cards[4 + len(ours.board) :][: ours.due[0]]))
      ours.apply(deal)
      if theirs.is_chance_node():
        for card in deal.cards:
          theirs.apply_action(their_card(deck, card))
      continue
    legal = theirs.legal_actions()
    assert theirs.current_player() == seat(rules, ours.turn.actor)
    assert (0 in legal) == ours.turn.may_fold
    raises = [action for action in legal if action > 1]
    assert ours.turn.raises == ((min(raises), max(raises)) if raises else None)
    _, betting, shown = re.search(r"STATE:(\d+):([^:]*):(\S*)", str(theirs)).groups()
    assert betting == acpc.DIALECT.write_betting(ours)
    assert canonical(shown) == canonical(acpc.write_cards(ours))
    move = random_move(rng, ours)
    ours.apply(move)
    theirs.apply_action(move.chips if isinstance(move, RaiseTo) else int(isinstance(move, Call)))
    decisions += 1
  assert theirs.is_terminal()
  payoffs = ours.payoffs()
  assert [payoffs[seat(rules, position)] for position in (0, 1)] == theirs.returns()
  final = re.search(r"STATE:\d+:([^:]*):", str(theirs))[1]
  assert final == acpc.DIALECT.write_betting(ours)
  return decisions


@pytest.mark.parametrize("stack", [100, 201, 1_000, 20_000])
def test_rules_are_those_of_open_spiel(stack):
  rng = np.random.default_rng(stack)
  decisions = sum(same_as_open_spiel(rng, stack) for _ in range(40))
  assert decisions >= 40


def test_a_small_blind_at_position_0_would_be_found():
  with pytest.raises(AssertionError):
    same_as_open_spiel(np.random.default_rng(0), 600, seat=lambda rules, position: position)


@pytest.mark.parametrize(
  ("small", "message"),
  [(0, "small_blind=0 must be an integer from 1 to"), (101, "must be at most big_blind=100")],
)
def test_blinds_that_no_hand_begins_with_are_refused(small, message):
  with pytest.raises(ValueError, match=message):
    chips.make_rules(small_blind=small)


def compare_with_pokerkit(table, change=lambda text: text):
  """Reads a hand in pokerkit, compares legal raises and final stacks; returns what was compared."""
  rules = table.rules
  text = change(chips.write_history(table, names=("one", "the other"), hand=7))
  turns = [turn for turn, x in zip(table.turns, table.events) if not isinstance(x, Deal)]
  ranges = [x.raises and tuple(chips - x.began_at for chips in x.raises) for x in turns]
  theirs = []
  for state in pokerkit.HandHistory.loads(text):
    if state.actor_index is not None:
      least = state.min_completion_betting_or_raising_to_amount
      most = state.max_completion_betting_or_raising_to_amount
      theirs.append(None if least is None else (least, most))
  assert not state.status
  assert ranges == theirs
  payoffs = table.payoffs()
  stacks = [
    rules.rules.stacks[seat] + payoffs[seat] for seat in (seat_of(rules, x) for x in (0, 1))
  ]
  assert state.stacks == stacks
  return len(turns)


def test_histories_read_by_pokerkit_end_with_our_stacks():
  rng = np.random.default_rng(3)
  compared, showdowns, run_outs = 0, 0, 0
  for _ in range(75):
    table = random_hand(rng, random_rules(rng))
    compared += compare_with_pokerkit(table)
    showdowns += table.turn.folded is None
    run_outs += table.turn.highest == table.rules.rules.stack and table.turn.folded is None
  assert compared > 300
  assert showdowns > 30
  assert run_outs > 10


def test_sizes_of_the_whole_hand_in_a_history_would_be_found():
  rules = make_rules(stack=1_000)
  table = ChipTable(rules, (rules.deck.parse("AsKs"), rules.deck.parse("2h3h")))
  for event in (RaiseTo(300), Call(), Deal(rules.deck.parse("4d5d6d")), RaiseTo(500), Call()):
    table.apply(event)
  for card in ("9c", "Tc"):
    table.apply(Deal(rules.deck.parse(card)))
    table.apply(Call())
    table.apply(Call())
  assert compare_with_pokerkit(table) == 8
  with pytest.raises((AssertionError, ValueError)):
    compare_with_pokerkit(table, lambda text: text.replace("cbr 200", "cbr 500"))
  assert "can be printed" in sentence_of(chips.write_history, table, names=("one", "\x7f"))


def at(events, **settings):
  rules = make_rules(**({"stack": 1_000} | settings))
  table = ChipTable(rules, (rules.deck.parse("AsKs"), rules.deck.parse("2h3h")))
  for event in events:
    table.apply(event)
  return table


FLOP = Deal((20, 21, 22))


@pytest.mark.parametrize(
  ("events", "event", "message"),
  [
    ([], RaiseTo(199), "bet=199 is below the minimum: a player's chips in must reach 200"),
    ([RaiseTo(1_000)], RaiseTo(1_000), "nobody may raise"),
    ([Call()], Fold(), "nothing to call"),
    ([], FLOP, "none are due"),
    ([Call(), Call()], Call(), "3 cards are due"),
    ([Call(), Call()], Deal((20, 21, 1)), "has 2h, which lies elsewhere already"),
    ([Fold()], Call(), "the hand is over"),
    ([], "call", "event='call' must be"),
  ],
)
def test_what_cannot_happen_is_refused_in_one_sentence(events, event, message):
  table = at(events)
  assert message in sentence_of(table.apply, event)
  assert table.events == list(events)


def played_there(game, bots, hand):
  """Plays a hand in OpenSpiel; returns what each of our seats won, and the number of moves."""
  state, moves = game.new_initial_state(), 0
  cards = [*hand.hole_cards[seat_of(RULES, 0)], *hand.hole_cards[seat_of(RULES, 1)], *hand.board]
  for bot in bots:
    bot.restart()
  while not state.is_terminal():
    if state.is_chance_node():
      state.apply_action(their_card(RULES.deck, cards.pop(0)))
      continue
    state.apply_action(bots[state.current_player()].step(state))
    moves += 1
  return tuple(state.returns()[seat_of(RULES, seat)] for seat in (0, 1)), moves


@pytest.mark.parametrize("names", [("pot_maniac", "uniform"), ("always_call", "equity_threshold")])
def test_hands_are_those_played_here(names):
  game, moves = universal_poker(), 0
  here = [SimpleSeat(name, RULES, seed=k) for k, name in enumerate(names)]
  there = [SimpleSeat(name, RULES, seed=k) for k, name in enumerate(names)]
  bots = [
    chip_bot.ChipBot(there[seat_of(RULES, position)], RULES, game, position) for position in (0, 1)
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
