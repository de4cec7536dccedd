"""Hands in chips, bots and servers that play them, against OpenSpiel and pokerkit."""

import http.server
import json
import re
import threading
import time

import numpy as np
import pytest

from rebel_jax.tables import acpc, chips, slumbot
from rebel_jax.tables.acpc import TableError
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
from tests.chip_hands import (
  AlwaysCall,
  AlwaysFold,
  PotManiac,
  Uniform,
  random_hand,
  random_move,
  random_rules,
)
from tests.rebel_jax.test_tables_players import FakeDealer
from tests.sentences import refused, sentence_of

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


test_blinds_that_no_hand_begins_with_are_refused = refused(
  (lambda: chips.make_rules(small_blind=0), "small_blind=0 must be an integer from 1 to"),
  (lambda: chips.make_rules(small_blind=101), "must be at most big_blind=100"),
)


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


def at(events):
  rules = make_rules(stack=1_000)
  table = ChipTable(rules, (rules.deck.parse("AsKs"), rules.deck.parse("2h3h")))
  for event in events:
    table.apply(event)
  return table


def test_sizes_of_the_whole_hand_in_a_history_would_be_found():
  flop, turn, river = (Deal(RULES.deck.parse(cards)) for cards in ("4d5d6d", "9c", "Tc"))
  checks = Call(), Call()
  table = at([RaiseTo(300), Call(), flop, RaiseTo(500), Call(), turn, *checks, river, *checks])
  assert compare_with_pokerkit(table) == 8
  with pytest.raises((AssertionError, ValueError)):
    compare_with_pokerkit(table, lambda text: text.replace("cbr 200", "cbr 500"))
  assert "can be printed" in sentence_of(chips.write_history, table, names=("one", "\x7f"))


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


@pytest.mark.parametrize("names", [("pot_maniac", "uniform"), ("always_call", "equity_threshold")])
def test_hands_are_those_played_here(names):
  game, moves = universal_poker(), 0
  here = [SimpleSeat(name, RULES, seed=k) for k, name in enumerate(names)]
  there = [SimpleSeat(name, RULES, seed=k) for k, name in enumerate(names)]
  bots = [
    chip_bot.ChipBot(there[seat_of(RULES, position)], RULES, game, position) for position in (0, 1)
  ]
  for hand in hands_of(RULES, num_hands=40, seed=1):
    state = game.new_initial_state()
    cards = [*hand.hole_cards[seat_of(RULES, 0)], *hand.hole_cards[seat_of(RULES, 1)], *hand.board]
    for bot in bots:
      bot.restart()
    while not state.is_terminal():
      if state.is_chance_node():
        state.apply_action(their_card(RULES.deck, cards.pop(0)))
      else:
        state.apply_action(bots[state.current_player()].step(state))
        moves += 1
    found = tuple(state.returns()[seat_of(RULES, seat)] for seat in (0, 1))
    assert found == play_hand(here, RULES, hand).payoffs()
  assert moves > 80


def test_a_bot_that_holds_the_other_hand_would_be_found(monkeypatch):
  """Control: who has strong hands plays otherwise than who thinks it has."""
  monkeypatch.setattr(chip_bot.ChipBot, "_card", lambda self, action: (action + 7) % 52)
  with pytest.raises((AssertionError, ValueError)):
    test_hands_are_those_played_here(("always_call", "equity_threshold"))


A = pokerkit.Automation
# Its deck is shuffled; cards of ours are not the next of it.
pytestmark = pytest.mark.filterwarnings("ignore:A card being dealt")


class Server:
  """A server of hands: its rules, payoffs and sizes, which are of a round, are pokerkit's."""

  def __init__(self, seed=0, slashes=True, change=lambda reply: reply):
    self.rng = np.random.default_rng(seed)
    self.slashes, self.change = slashes, change
    self.winnings, self.asked, self.tokens, self.number = [], [], 0, 0
    outer = self

    class Handler(http.server.BaseHTTPRequestHandler):
      def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        outer.asked.append((self.path, body))
        reply = outer.change(outer.answer(self.path, body))
        status, text = reply if isinstance(reply, tuple) else (200, json.dumps(reply).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

      def log_message(self, *arguments):
        pass

    self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    self.host = f"http://127.0.0.1:{self.http.server_address[1]}"
    self.thread = threading.Thread(
      target=self.http.serve_forever, kwargs=dict(poll_interval=0.01), daemon=True
    )

  def __enter__(self):
    self.thread.start()
    return self

  def __exit__(self, *error):
    self.http.shutdown()
    self.http.server_close()
    self.thread.join()

  def answer(self, path, body):
    """Returns what the server says; pokerkit's player 0 has the big blind, as `client_pos` 0."""
    self.tokens += 1
    if path == "/api/new_hand":
      self.begin()
    elif body.get("token") != f"t{self.tokens - 1}":
      return {"error_msg": "wrong token"}
    else:
      try:
        self.move(body["incr"])
      except (ValueError, IndexError) as error:
        return {"error_msg": f"illegal {body['incr']}: {error}"}
    while self.state.status and self.state.actor_index == 1 - self.client:
      self.move(self.own_move())
    return self.reply()

  def begin(self):
    self.state = pokerkit.NoLimitTexasHoldem.create_state(
      (A.ANTE_POSTING, A.BET_COLLECTION, A.BLIND_OR_STRADDLE_POSTING, A.CARD_BURNING,
       A.HOLE_CARDS_SHOWING_OR_MUCKING, A.RUNOUT_COUNT_SELECTION, A.HAND_KILLING, A.CHIPS_PUSHING,
       A.CHIPS_PULLING),
      True, 0, (50, 100), 100, 20_000, 2,
    )  # fmt: skip
    self.client, self.action, self.number = self.number % 2, "", self.number + 1
    deck = [rank + suit for rank in "23456789TJQKA" for suit in "cdhs"]
    cards = [deck[i] for i in self.rng.permutation(52)[:9]]
    self.hands, self.board = (cards[:2], cards[2:4]), cards[4:]
    for hand in self.hands:
      self.state.deal_hole("".join(hand))

  def own_move(self):
    state = self.state
    least = state.min_completion_betting_or_raising_to_amount
    if least is None or self.rng.random() < 0.5:
      calls = state.checking_or_calling_amount
      return ("f" if self.rng.random() < 0.3 else "c") if calls else "k"
    most = state.max_completion_betting_or_raising_to_amount
    return f"b{least if self.rng.random() < 0.7 else int(self.rng.integers(least, most + 1))}"

  def move(self, incr):
    state = self.state
    if incr == "f":
      if not state.checking_or_calling_amount:
        raise ValueError("nothing to call")
      state.fold()
    elif incr in ("k", "c"):
      if (incr == "c") != bool(state.checking_or_calling_amount):
        raise ValueError("check or call")
      state.check_or_call()
    else:
      state.complete_bet_or_raise_to(int(incr.removeprefix("b")))
    self.action += incr
    while state.status and state.actor_index is None:
      if self.slashes or state.stacks != [0, 0]:
        self.action += "/"
      shown = sum(map(len, state.board_cards))
      state.deal_board("".join(self.board[shown : 3 if shown == 0 else shown + 1]))

  def reply(self):
    state = self.state
    shown = sum(map(len, state.board_cards))
    reply = {
      "token": f"t{self.tokens}",
      "action": self.action,
      "client_pos": self.client,
      "hole_cards": self.hands[self.client],
      "board": self.board[:shown],
    }
    if state.status:
      return reply
    self.winnings.append(state.stacks[self.client] - 20_000)
    return reply | {"winnings": self.winnings[-1], "bot_hole_cards": self.hands[1 - self.client]}


@pytest.mark.parametrize(
  ("player", "slashes"), [(Uniform, True), (AlwaysCall, False), (PotManiac, False)]
)
def test_hands_with_a_server_end_as_it_says(player, slashes):
  rules = make_rules()
  with Server(1, slashes) as server:
    client = slumbot.SlumbotClient(server.host, player(rules, seed=2), timeout=10)
    won = client.play(12)
  assert won == server.winnings
  assert any(won)
  assert client.token == f"t{server.tokens}"
  assert server.asked[0] == ("/api/new_hand", {})


def test_sizes_of_the_whole_hand_would_be_found(monkeypatch):
  """The control: `bN` written and read as chips of the whole hand."""
  rules = make_rules()
  with Server(1) as server:
    client = slumbot.SlumbotClient(server.host, PotManiac(rules), timeout=10)
    monkeypatch.setattr(slumbot, "DIALECT", slumbot.DIALECT._replace(of_round=False))
    with pytest.raises(TableError):
      client.play(12)


GOOD = {"token": "t", "client_pos": 0, "hole_cards": ["Ac", "Ad"], "board": [], "action": "c"}


@pytest.mark.parametrize(
  ("reply", "message"),
  [
    (GOOD | dict(client_pos=2), "client_pos=2 must be 0 or 1"),
    (GOOD | dict(board=["2c", "3c", "4c"]), "has more cards than action="),
    (GOOD | dict(action="x"), "must be of k, c, f, bN and /"),
    (GOOD | dict(action="ck"), "lacks cards that are due"),
    (GOOD | dict(action="fc"), "move=Call() comes where nobody acts: the hand is over"),
    (GOOD | dict(action=""), "leaves the move to the server"),
    (GOOD | dict(action="f", winnings=100), "winnings=100 must be one of [50]"),
    (
      GOOD | dict(action="f", winnings=50, bot_hole_cards=5),
      "bot_hole_cards=5 must be a list, each a string or None",
    ),
    (GOOD | dict(action="b\u0663\u0660\u0660"), "must be of k, c, f, bN and /"),
    (GOOD | dict(action="b300"), "does not go on from where it was"),  # whatever is answered
    (GOOD | dict(action=["\x1b" * 1_000]), "action=['\\x1b"),
    ((500, b""), "/api/new_hand answered with status 500"),
    ((200, b"<html>"), "sent no JSON object: b'<html>'"),
    ({"error_msg": "too \x1b[2Jbusy"}, "refused: 'too \\x1b[2Jbusy'"),
    ((200, b"[" * 100_000), "sent no JSON object: b'[[["),
    ((200, b'{"action": ' + b"[" * 900 + b"]" * 900 + b"}"), "the server sent {'action': [["),
  ],
)
def test_what_a_server_cannot_say_is_refused(reply, message):
  with Server(change=lambda _: reply) as server:
    said = sentence_of(slumbot.SlumbotClient(server.host, AlwaysFold(make_rules())).play_hand)
  assert message in said
  assert said.isprintable()
  assert len(said) <= 600


@pytest.mark.parametrize(
  ("sent", "slowly", "message"),
  [
    (b"HTTP/1.1 200 OK\r\n", b"x", "gave no answer in timeout=0.3 seconds"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", b" ", "gave no answer in timeout=0.3"),
    (b"\x1b[2Jhello\r\n\r\n", b"", "cannot be reached: \\x1b[2Jhello"),
    (b"HTTP/1.1 302 \r\nLocation: http://[x\r\n\r\n", b"", "cannot be reached: Invalid IPv6"),
  ],
)
def test_bytes_that_are_no_answer(sent, slowly, message):
  began = time.monotonic()
  with FakeDealer(sent, slowly=[slowly] * 30 if slowly else ()) as server:
    client = slumbot.SlumbotClient(
      f"http://127.0.0.1:{server.port}", AlwaysCall(make_rules()), timeout=0.3
    )
    assert message in sentence_of(client.play_hand)
    assert time.monotonic() - began < 1.5


def test_a_server_that_is_away_is_named():
  player = AlwaysCall(make_rules())
  with Server() as server:
    client = slumbot.SlumbotClient(server.host, player, timeout=1)
  assert "cannot be reached" in sentence_of(client.play_hand)
  assert "host='ftp://x' must begin" in sentence_of(slumbot.SlumbotClient, "ftp://x", player)
