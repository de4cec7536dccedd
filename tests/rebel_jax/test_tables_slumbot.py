"""The street-local dialect against a local server whose hands pokerkit plays."""

import http.server
import json
import threading
import time

import numpy as np
import pytest

from rebel_jax.tables import slumbot
from rebel_jax.tables.acpc import TableError
from rebel_jax.tables.chips import make_rules
from tests.chip_hands import AlwaysCall, AlwaysFold, PotManiac, Uniform
from tests.rebel_jax.test_tables_acpc import FakeDealer
from tests.sentences import sentence_of

pokerkit = pytest.importorskip("pokerkit")
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


BOARD = ["2c", "3c", "4c"]


GOOD = {"token": "t", "client_pos": 0, "hole_cards": ["Ac", "Ad"], "board": [], "action": "c"}


@pytest.mark.parametrize(
  ("reply", "message"),
  [
    (GOOD | dict(client_pos=2), "client_pos=2 must be 0 or 1"),
    (GOOD | dict(board=BOARD), "has more cards than action="),
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


def test_a_server_that_is_slow_or_away_is_named():
  player = AlwaysCall(make_rules())
  with Server(change=lambda reply: time.sleep(0.4) or reply) as server:
    client = slumbot.SlumbotClient(server.host, player, timeout=0.1)
    assert "gave no answer in timeout=0.1 seconds" in sentence_of(client.play_hand)
    time.sleep(0.5)
  client = slumbot.SlumbotClient(server.host, player, timeout=1)
  assert "cannot be reached" in sentence_of(client.play_hand)
  assert "host='ftp://x' must begin" in sentence_of(slumbot.SlumbotClient, "ftp://x", player)
