"""Hands in chips against OpenSpiel's universal_poker, built on ACPC's own program, and pokerkit."""

import re

import numpy as np
import pytest

from games.poker import Betting, Deck
from rebel_jax.tables import acpc, history
from rebel_jax.tables.chips import Call, ChipTable, Deal, Fold, RaiseTo, TableRules, make_rules
from tests.chip_hands import random_events, random_hand, random_move, random_rules

pyspiel = pytest.importorskip("pyspiel")
pokerkit = pytest.importorskip("pokerkit")


def universal_poker(stack):
  return pyspiel.load_game(
    "universal_poker(betting=nolimit,numPlayers=2,numRounds=4,blind=100 50,firstPlayer=2 1 1 1,"
    "numSuits=4,numRanks=13,numHoleCards=2,numBoardCards=0 3 1 1,"
    f"stack={stack} {stack},bettingAbstraction=fullgame)"
  )


def their_card(deck, card):
  """Returns OpenSpiel's number of a card: rank by rank, clubs first."""
  rank, suit = deck.name(card)
  return 4 * "23456789TJQKA".index(rank) + "cdhs".index(suit)


def canonical(cards):
  """Returns cards as text with each hand and each deal in one order."""
  parts = re.split(r"([|/])", cards)
  return "".join("".join(sorted(re.findall("..", part))) or part for part in parts)


def same_as_open_spiel(rng, stack, seat_of=None):
  """Plays one hand in both programs; returns how many decisions were compared."""
  rules = make_rules(stack=stack)
  seat_of = seat_of or rules.seat_of
  theirs = universal_poker(stack).new_initial_state()
  deck, decisions = rules.deck, 0
  cards = rng.choice(52, 9, replace=False).tolist()
  hands = [tuple(cards[:2]), tuple(cards[2:4])]  # by position
  for card in cards[:4]:
    theirs.apply_action(their_card(deck, card))
  ours = ChipTable(rules, [hands[seat_of(seat)] for seat in (0, 1)])
  while not ours.is_over:
    if ours.due:
      deal = Deal(tuple(cards[4 + len(ours.board) :][: ours.due[0]]))
      ours.apply(deal)
      if theirs.is_chance_node():
        for card in deal.cards:
          theirs.apply_action(their_card(deck, card))
      continue
    legal = theirs.legal_actions()
    assert theirs.current_player() == seat_of(ours.actor)
    assert (0 in legal) == ours.may_fold
    raises = [action for action in legal if action > 1]
    assert ours.raises == ((min(raises), max(raises)) if raises else None)
    _, betting, shown = re.search(r"STATE:(\d+):([^:]*):(\S*)", str(theirs)).groups()
    assert betting == acpc.write_betting(ours.events)
    assert canonical(shown) == canonical(acpc.write_cards(ours))
    move = random_move(rng, ours)
    ours.apply(move)
    theirs.apply_action(move.chips if isinstance(move, RaiseTo) else int(isinstance(move, Call)))
    decisions += 1
  assert theirs.is_terminal()
  payoffs = ours.payoffs()
  assert [payoffs[seat_of(position)] for position in (0, 1)] == theirs.returns()
  final = re.search(r"STATE:\d+:([^:]*):", str(theirs))[1]
  assert final == acpc.write_betting(ours.events)
  return decisions


@pytest.mark.parametrize("stack", [100, 150, 250, 600, 1_000, 2_500])
def test_rules_are_those_of_open_spiel(stack):
  rng = np.random.default_rng(stack)
  decisions = sum(same_as_open_spiel(rng, stack) for _ in range(40))
  assert decisions >= 40


def test_a_small_blind_at_position_0_would_be_found():
  with pytest.raises(AssertionError):
    same_as_open_spiel(np.random.default_rng(0), 600, seat_of=lambda position: position)


def compare_with_pokerkit(table, change=lambda text: text):
  """Reads a hand in pokerkit, compares legal raises and final stacks; returns what was compared."""
  rules = table.rules
  text = change(history.write_history(table, names=("one", "the other"), hand=7))
  again, moves = ChipTable(rules), [e for e in table.events if not isinstance(e, Deal)]
  ranges = []
  for event in table.events:
    if not isinstance(event, Deal):
      began = again.round_began_at
      ranges.append(again.raises and tuple(chips - began for chips in again.raises))
    again.apply(event)
  theirs = []
  for state in pokerkit.HandHistory.loads(text):
    if state.actor_index is not None:
      least = state.min_completion_betting_or_raising_to_amount
      most = state.max_completion_betting_or_raising_to_amount
      theirs.append(None if least is None else (least, most))
  assert not state.status
  assert ranges == theirs
  payoffs = table.payoffs()
  stacks = [rules.rules.stacks[seat] + payoffs[seat] for seat in map(rules.seat_of, (0, 1))]
  assert state.stacks == stacks
  return len(moves)


def test_histories_read_by_pokerkit_end_with_our_stacks():
  rng = np.random.default_rng(3)
  compared, showdowns, run_outs = 0, 0, 0
  for _ in range(150):
    table = random_hand(rng, random_rules(rng))
    compared += compare_with_pokerkit(table)
    showdowns += table.folded is None
    run_outs += table.highest == table.rules.rules.stack and table.folded is None
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


def test_what_a_history_cannot_hold_is_refused():
  small = make_rules(ranks="TJQKA", suits="sh", deals=(1,), stack=600)
  with pytest.raises(ValueError, match=r"must be \(3, 1, 1\) from 52"):
    history.check_writable(small)
  equal = TableRules(Deck(), (3, 1, 1), Betting((600, 600), (100, 100), 100, (0,)))
  with pytest.raises(ValueError, match="must be different blinds"):
    history.check_writable(equal)
  with pytest.raises(ValueError, match="have not ended the hand"):
    history.write_history(ChipTable(make_rules(), ((0, 1), (2, 3))))
  with pytest.raises(ValueError, match="hole_cards of seat 1"):
    history.write_history(ChipTable(make_rules(), ((0, 1), None)))


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
    ([], RaiseTo(1_001), "bet=1001 is more than"),
    ([], RaiseTo(250.5), "bet=250.5 must be a whole number"),
    ([RaiseTo(1_000)], RaiseTo(1_000), "nobody may raise"),
    ([Call()], Fold(), "nothing to call"),
    ([], FLOP, "none are due"),
    ([Call(), Call()], Call(), "3 cards are due"),
    ([Call(), Call()], Deal((20, 21)), "must be 3 cards"),
    ([Call(), Call()], Deal((20, 21, 21)), "holds a card twice"),
    ([Call(), Call()], Deal((20, 21, 52)), "must be numbers from 0 to 51"),
    ([Call(), Call()], Deal((20, 21, 1)), "has 2h, which lies elsewhere already"),
    ([Call(), Call(), FLOP], Deal((20,)), "none are due"),
    ([Fold()], Call(), "the hand is over"),
    ([], "call", "event='call' must be"),
  ],
)
def test_what_cannot_happen_is_refused_in_one_sentence(events, event, message):
  table = at(events)
  with pytest.raises(ValueError, match=re.escape(message)) as error:
    table.apply(event)
  assert "\n" not in str(error.value)
  assert table.events == list(events)


def test_a_move_out_of_turn_is_refused():
  with pytest.raises(ValueError, match="seat=1 moves out of turn; seat 0 is to act"):
    at([]).apply(Call(), seat=1)


def test_payoffs_need_the_hands_that_decide():
  table = ChipTable(make_rules(stack=100), ((0, 1), None))
  for event in (Call(), FLOP, Deal((30,)), Deal((31,))):
    with pytest.raises(ValueError, match="have not ended the hand"):
      table.payoffs()
    table.apply(event)
  with pytest.raises(ValueError, match="hole_cards of seat 1 decide, and are unknown"):
    table.payoffs()
  table.show(1, (2, 3))
  assert sum(table.payoffs()) == 0


def test_all_in_leaves_cards_of_all_rounds_due():
  table = at([RaiseTo(300), Call()])
  assert table.due == (3,)
  table = at([RaiseTo(1_000), Call()])
  assert table.due == (3, 1, 1)
  assert table.actor is None
  table.apply(FLOP)
  assert table.due == (1, 1)


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    (dict(deals=(3, 0)), "deals=(3, 0) must be positive"),
    (dict(deals=(5, 1)), "at most 5 can be"),
    (dict(small_blind=200), "small_blind=200 must be at most big_blind=100"),
    (dict(big_blind=0, small_blind=0), "small_blind=0"),
    (dict(stack=60), "more than the smaller"),
    (dict(ranks="AK"), "ranks='AK'"),
  ],
)
def test_rules_that_cannot_be_are_refused(settings, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    make_rules(**settings)


def test_other_decks_and_rounds_are_played_to_their_end():
  rng = np.random.default_rng(0)
  for settings in (
    dict(ranks="TJQKA", suits="sh", deals=(1,), stack=600),
    dict(ranks="789TJQKA", suits="shd", deals=(3, 1), stack=1_500),
    dict(deals=(), stack=1_000),
  ):
    for _ in range(20):
      table = random_hand(rng, make_rules(**settings))
      assert sum(table.payoffs()) == 0
      assert max(map(abs, table.payoffs())) <= min(table.paid)


def test_a_copy_goes_its_own_way():
  table = at([Call()])
  other = table.copy()
  for _ in random_events(np.random.default_rng(0), other):
    pass
  assert (table.events, table.actor, table.board) == ([Call()], 1, ())
