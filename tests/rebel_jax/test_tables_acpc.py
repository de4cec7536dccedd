"""ACPC's match protocol: its text, and matches over TCP against the same in one process."""

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rebel_jax import acpc as command
from rebel_jax import acpc_dealer
from rebel_jax.tables import acpc
from rebel_jax.tables.acpc import MatchDealer, TableError, play_acpc
from rebel_jax.tables.chips import ChipTable, make_rules, play_chip_match, seat_of
from rebel_jax.tables.players import SimpleSeat
from tests.chip_hands import AlwaysCall, random_events, random_rules
from tests.sentences import error_of, sentence_of

SMALL = dict(stack=2_000)


def test_states_come_back_from_their_text():
  rng = np.random.default_rng(0)
  for number in range(60):
    rules = random_rules(rng)
    cards = rng.choice(52, 4, replace=False).tolist()
    table = ChipTable(rules, (tuple(cards[:2]), tuple(cards[2:])))
    for _ in random_events(rng, table):
      if not table.due:
        states_come_back(table, number)
    states_come_back(table, number)


def states_come_back(table, number):
  for position in (0, 1):
    text = acpc.write_state(table, number, position)
    hand, seat, again = acpc.read_state(text, table.rules)
    assert acpc.write_state(again, hand, position) == text
    assert seat == seat_of(table.rules, position)
    assert again.events == table.events
    assert (again.turns, again.is_over) == (table.turns, table.is_over)
    assert again.hole_cards[seat] == table.hole_cards[seat]
    showdown = table.is_over and table.turn.folded is None
    assert (again.hole_cards[1 - seat] is None) == (not showdown)
    if table.is_over:
      assert again.payoffs() == table.payoffs()


@pytest.mark.parametrize(
  ("line", "message"),
  [
    ("MATCHSTATE:2:0::9s8h|", "must be MATCHSTATE:position"),
    ("MATCHSTATE:0:0::|9s8h", "lack the hand of position 0"),
    ("MATCHSTATE:0:0:x:9s8h|", "must be of c, f, rN and /"),
    ("MATCHSTATE:0:0:cc:9s8h|", "lacks cards that are due after betting='cc'"),
    ("MATCHSTATE:0:0:c:9s8h|/2c3c4c", "has more cards than betting='c' has rounds"),
    ("MATCHSTATE:0:0:cc/cc/:9s8h|/2c3c/4c5c", "cards='9s8h|/2c3c/4c5c' must have a / and"),
    ("MATCHSTATE:0:0:r20000c:9s8h|/2c3c4c/5c/6c", "must have a / and cards for each / of"),
  ],
)
def test_malformed_lines_are_refused_in_one_sentence(line, message):
  assert message in sentence_of(lambda: acpc.read_state(line, make_rules()))


def client(pool, player, port):
  """Lets a player join a match, in a thread of its own."""
  return pool.submit(play_acpc, player, player.rules, "127.0.0.1", port, timeout=20)


def talk(port, lines, last=None):
  """Says lines over a bare socket, then leaves or says `last` whenever it is to move."""

  def run():
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
      file = connection.makefile("rwb", buffering=0)
      file.write(b"".join(lines))
      if last == "leave":
        file.readline()
      if last in ("leave", "gone"):
        return
      for text in (line.decode().strip() for line in file):
        _, seat, table = acpc.read_state(text, make_rules(**SMALL))
        if last is not None and table.turn.actor == seat:
          file.write(last(text))

  threading.Thread(target=run, daemon=True).start()


HELLO = b"VERSION:2.0.0\r\n"


@pytest.mark.parametrize(
  ("lines", "last", "message"),
  [
    ([HELLO], "leave", "in hand 0: player 'first' left"),
    ([HELLO], None, "in hand 0: player 'first' gave no answer in timeout=0.8 seconds"),
    ([HELLO], lambda text: b"what\r\n", "answered 'what' in hand 0: it must be 'MATCHSTATE"),
    ([HELLO], lambda text: b"x" * 20_000 + b"\r\n", "sent a line of more than 10000 characters"),
  ],
)
def test_a_player_that_fails_ends_the_match_in_one_sentence(lines, last, message):
  rules, log = make_rules(**SMALL), []
  timeout = 0.8 if "gave no answer" in message else 20
  settings = dict(num_hands=4, timeout=timeout, start_timeout=20, log=log.append)
  with ThreadPoolExecutor() as pool, MatchDealer(rules, **settings) as dealer:
    talk(dealer.ports[0], lines, last)
    client(pool, AlwaysCall(rules), dealer.ports[1])
    assert message in sentence_of(dealer.play)
  assert not [line for line in log if line.startswith("STATE:")]


def test_a_probe_of_a_port_does_not_end_the_match():
  rules, settings = make_rules(**SMALL), dict(num_hands=4, start_timeout=20, timeout=20)
  alone = play_chip_match([AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=4)
  probes = (b"", b"GET / HTTP/1.1\r\n\r\n", b"x" * 20_000, b"VERSION", b"# hello\r\nhello\r\n")
  with ThreadPoolExecutor() as pool, MatchDealer(rules, **settings) as dealer:
    silent = socket.create_connection(("127.0.0.1", dealer.ports[0]))
    for said in probes:
      with socket.create_connection(("127.0.0.1", dealer.ports[0])) as probe:
        probe.sendall(said)
    reset = socket.create_connection(("127.0.0.1", dealer.ports[1]))
    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    reset.close()
    clients = [client(pool, AlwaysCall(rules), port) for port in dealer.ports]
    assert dealer.play() == alone
    silent.close()
  assert tuple(clients[0].result()) == alone.chips
  with MatchDealer(rules, num_hands=4, start_timeout=0.3) as dealer:
    talk(dealer.ports[0], [b"hello\r\n"], "gone")
    said = sentence_of(dealer.play)
    assert "=0.3 seconds; player 'first' sent 'hello', must be VER" in said


class FakeDealer:
  """Listens, greets nobody, sends lines, some of them slowly, and closes or waits."""

  def __init__(self, sent, wait=False, slowly=()):
    self.slowly = slowly
    self.server = socket.create_server(("127.0.0.1", 0))
    self.port = self.server.getsockname()[1]
    self.sent, self.wait, self.heard = sent, wait, b""
    self.done = threading.Event()
    self.thread = threading.Thread(target=self.run, daemon=True)
    self.thread.start()

  def run(self):
    connection, _ = self.server.accept()
    with connection, contextlib.suppress(OSError):
      connection.sendall(self.sent)
      for piece in self.slowly:
        connection.sendall(piece)
        time.sleep(0.02)
      if self.wait:
        self.done.wait(10)
      else:
        connection.shutdown(socket.SHUT_WR)
      connection.settimeout(1)
      while more := connection.recv(1_000):
        self.heard += more

  def __enter__(self):
    return self

  def __exit__(self, *error):
    self.done.set()
    self.thread.join()
    self.server.close()


FIRST = b"MATCHSTATE:0:0::9s8h|\r\n"


@pytest.mark.parametrize(
  ("sent", "slowly", "message"),  # for the time of an answer counts all of it
  [
    (FIRST, None, "closed the connection in the hand after 0 others"),
    *(
      (FIRST, x, "gave no answer in timeout=0.3 seconds") for x in (b"", b"M", b"# still here\r\n")
    ),
    (FIRST + b"MATCHSTATE:0:1::9s8h|\r\n", None, "begins before the one before has ended"),
    (FIRST + b"MATCHSTATE:0:0:c:9s8h|\r\nMATCHSTATE:0:0:r300:9s8h|\r\n", None, "go on from"),
    (FIRST + FIRST, None, "go on from"),
    (2 * b"MATCHSTATE:0:0:c:9s8h|\r\n", None, "go on from"),
    (b"MATCHSTATE:0:0:r300:9s8h|\r\nMATCHSTATE:0:0:r300f:9s8h|\r\n", None, "go on from"),
    (b"\x1b[2J\r\n", None, r"sent '\\x1b\[2J': line="),
    ("MATCHSTATE:0:0:r\u0663\u0660\u0660:9s8h|\r\n".encode(), None, "must be of c, f, rN and /"),
  ],
)
def test_a_dealer_that_fails_ends_the_match_in_one_sentence(sent, slowly, message):
  rules, wait, began = make_rules(**SMALL), slowly is not None, time.monotonic()
  with FakeDealer(sent, wait, [slowly] * 100 if slowly else ()) as dealer:
    with pytest.raises(TableError, match=message) as error:
      play_acpc(AlwaysCall(rules), rules, "127.0.0.1", dealer.port, timeout=0.3 if wait else 5)
    assert not wait or time.monotonic() - began < 1.5
  assert "\n" not in str(error.value)


def test_a_match_that_breaks_leaves_the_hands_before(capsys):
  hand = b"MATCHSTATE:0:0::9s8h|\r\nMATCHSTATE:0:0:f:9s8h|\r\nMATCHSTATE:0:1::9s8h|\r\n"
  with FakeDealer(hand) as dealer:
    argv = ["always_call", "127.0.0.1", str(dealer.port), "--json"]
    assert command.main(argv) == 1
  printed = capsys.readouterr()
  assert printed.out == '{"hands": 1, "chips": 50}\n'
  assert "closed the connection in the hand after 1 others" in printed.err


# Both no-limit hands of the protocol's examples, and what the player answers in them.
EXAMPLES = (
  ("0:30", "", "9s8h|", None),
  ("0:30", "c", "9s8h|", "c"),
  ("0:30", "cc/", "9s8h|/8c8d5c", "r250"),
  ("0:30", "cc/r250", "9s8h|/8c8d5c", None),
  ("0:30", "cc/r250c/", "9s8h|/8c8d5c/6s", "r500"),
  ("0:30", "cc/r250c/r500", "9s8h|/8c8d5c/6s", None),
  ("0:30", "cc/r250c/r500c/", "9s8h|/8c8d5c/6s/2d", "r1250"),
  ("0:30", "cc/r250c/r500c/r1250", "9s8h|/8c8d5c/6s/2d", None),
  ("0:30", "cc/r250c/r500c/r1250c", "9s8h|9c6h/8c8d5c/6s/2d", None),
  ("1:31", "", "|JdTc", "r300"),
  ("1:31", "r300", "|JdTc", None),
  ("1:31", "r300r900", "|JdTc", "c"),
  ("1:31", "r300r900c/", "|JdTc/6dJc9c", None),
  ("1:31", "r300r900c/r1800", "|JdTc/6dJc9c", "r3600"),
  ("1:31", "r300r900c/r1800r3600", "|JdTc/6dJc9c", None),
  ("1:31", "r300r900c/r1800r3600r9000", "|JdTc/6dJc9c", "c"),
  ("1:31", "r300r900c/r1800r3600r9000c/", "|JdTc/6dJc9c/Kh", None),
  ("1:31", "r300r900c/r1800r3600r9000c/r20000", "|JdTc/6dJc9c/Kh", "c"),
  ("1:31", "r300r900c/r1800r3600r9000c/r20000c/", "KsJs|JdTc/6dJc9c/Kh/Qc", None),
)


class Scripted(SimpleSeat):
  """Makes the moves that it is given, in turn."""

  def __init__(self, rules, moves):
    super().__init__("always_call", rules)
    self.moves = iter(moves)

  def act(self):
    return next(self.moves)


def test_the_hands_of_the_protocol_s_examples():
  rules, space = make_rules(stack=20_000), " "  # as the examples are printed
  turn = ChipTable(rules).turn
  moves = [acpc.DIALECT.read(turn, answer) for *_, answer in EXAMPLES if answer]
  lines = [f"MATCHSTATE:{hand}:{betting}:{cards}{space}" for hand, betting, cards, _ in EXAMPLES]
  said = ["# GAMEDEF", ";", "", *lines]  # comments and empty lines are left out
  with FakeDealer("".join(f"{line}\r\n" for line in said).encode()) as dealer:
    played = play_acpc(Scripted(rules, moves), rules, "127.0.0.1", dealer.port, timeout=5)
  assert played == [1_250, 20_000]  # three eights, and a straight to the king
  answers = [f"{line.strip()}:{end}\r\n" for line, (*_, end) in zip(lines, EXAMPLES) if end]
  assert dealer.heard == HELLO + "".join(answers).encode()


def test_the_dealer_deals_to_the_players_of_the_other_command(capsys):
  free, params, played = [], (("stack", 2_000), ("deals", 311)), {}
  for _ in range(2):
    with socket.create_server(("127.0.0.1", 0)) as server:
      free.append(server.getsockname()[1])
  names = ("uniform", "equity_threshold")

  def play(number):
    name, port = names[number], free[number]
    options = command.Options(name, "127.0.0.1", port, seed=number, game_params=params)
    played[name] = command.play(options)

  clients = [threading.Thread(target=play, args=(number,)) for number in (0, 1)]
  for client in clients:
    client.start()  # before the dealer is there
  ports = ["--first-port", free[0], "--second-port", free[1], "--hands", 20, "--seed", 4]
  named = ["--first-name", "A", "--second-name", "B", "--no-duplicate"]
  argv = [*ports, *named, "--game-params", *sum(params, ())]
  assert acpc_dealer.main([str(x) for x in argv]) == 0
  for client in clients:
    client.join(30)
  rules = make_rules(stack=2_000)

  def alone(first):
    players = [SimpleSeat(name, rules, seed=first + k) for k, name in enumerate(names)]
    return play_chip_match(players, rules, num_hands=20, seed=4, duplicate=False)

  chips = alone(0).chips
  assert played == {names[0]: list(chips), names[1]: [-x for x in chips]}
  assert alone(2).chips != chips  # seeds matter
  printed = capsys.readouterr()
  assert printed.out.count("\nSTATE:") == 20
  assert printed.out.endswith(f"SCORE:{sum(chips)}|{-sum(chips)}:A|B\n")
  assert f"A: {alone(0)}" in printed.err


def test_a_dealer_that_is_away(capsys):
  line = ["uniform", "127.0.0.1", "9", "--connect-timeout", "1"]
  assert "no dealer answers at 127.0.0.1" in error_of(capsys, command.main, *line, code=1)
