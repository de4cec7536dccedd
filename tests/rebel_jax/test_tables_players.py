"""Who plays in chips: simple opponents, players of trees, and ACPC's match protocol over TCP."""

import contextlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import games
from games.poker import CALL, FIRST_BET, map_bet
from rebel_jax import acpc as command
from rebel_jax import acpc_dealer
from rebel_jax.agents.dealer import Move
from rebel_jax.agents.match import SimplePlayer, UniformPlayer
from rebel_jax.tables import acpc
from rebel_jax.tables import players as seats
from rebel_jax.tables.acpc import MatchDealer, TableError, play_acpc
from rebel_jax.tables.chips import (
  Call,
  ChipTable,
  Deal,
  RaiseTo,
  hands_of,
  make_rules,
  play_chip_match,
  play_hand,
  seat_of,
)
from rebel_jax.tables.players import SimpleSeat, TreePlayer, make_chip_player
from tests.chip_hands import AlwaysCall, AlwaysFold, PotManiac, Uniform, random_events, random_rules
from tests.sentences import error_of, sentence_of
from tests.tiny import TINY, policy_of

# Two rounds from blinds of 50 and 100, the larger one first in the second.
GAME = dict(ranks="JQKA", suits="sh", blinds=(50, 100), first_to_act=(0, 1), stack=1_000)


def game_of(**changes):
  return games.make("small_holdem", **(GAME | dict(bets=(1.0,)) | changes))


def test_a_raise_becomes_the_nearest_of_the_tree_or_a_smaller():
  game = game_of(bets=(0.5, 2.0))
  (half, low), (twice, high), *_ = game.bets_at(game.initial_state()).items()
  player = SimplePlayer(game, "uniform")
  player.start(0, 0)
  for wish, action in ((low, half), ((low + high) // 2, half), (high - 1, twice)):
    player._wish = lambda *_, wish=wish: wish
    assert player.act().action == action


def test_hands_worked_out():
  rules = make_rules(stack=1_000)
  hand = next(hands_of(rules, num_hands=2))
  # The small blind folds to nothing but a bet, and it faces one at once.
  assert play_hand([AlwaysFold(rules), AlwaysCall(rules)], rules, hand).payoffs() == (-50, 50)
  assert play_hand([AlwaysCall(rules), AlwaysFold(rules)], rules, hand).turn.paid == (100, 100)
  # Pot after pot: 300, 900, all-in; the other folds to the first, or calls.
  assert play_hand([PotManiac(rules), AlwaysFold(rules)], rules, hand).payoffs() == (100, -100)

  assert play_hand([PotManiac(rules), PotManiac(rules)], rules, hand).events[:4] == [
    RaiseTo(300), RaiseTo(900), RaiseTo(1_000), Call(),
  ]  # fmt: skip


def test_duplicate_hands_take_out_luck():
  rules = make_rules(stack=2_000)
  one = play_chip_match([AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=20)
  assert (one.mean, one.half_width) == (0, 0)  # the same play wins from both seats what it loses
  other = play_chip_match(
    [AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=20, duplicate=False
  )
  assert other.half_width > 0
  with pytest.raises(ValueError, match="num_hands=3 must be even"):
    play_chip_match([AlwaysCall(rules), AlwaysCall(rules)], rules, num_hands=3)


class Checked(UniformPlayer):
  """A uniform player who is told legal actions alone; burns are among those of chance."""

  def observe(self, action, infostate=None):
    assert self.game.legal_actions(self._state[None])[0, action]
    super().observe(action, infostate)


def payoffs_of_the_tree(game, player, hole_cards):
  """Returns what the tree says of the hand that `player` followed, to both seats."""
  assert game.actor(player._state[None])[0] == games.TERMINAL
  held = [game.infostate(game.deck.names(cards)) for cards in hole_cards]
  won = game.payoff(player._state, held)
  return won, -won


@pytest.mark.parametrize(
  "changes",
  [
    dict(ranks="9TJQKA", suits="shd", deals=(3, 1), bets="hunl", stack=3_000),
    dict(blinds=(100, 50), first_to_act=(1, 0)),
  ],
)
def test_the_hand_of_the_tree_is_the_hand_at_the_table(changes):
  game = game_of(**changes)
  both = [TreePlayer(game, Checked(game, seed=seed)) for seed in (1, 2)]
  wrong, ends = 0, set()
  for hand in hands_of(game, num_hands=60, seed=1):
    table = play_hand(both, game, hand)
    assert not both[0].lost
    assert (both[0]._state == both[1]._state).all()
    assert payoffs_of_the_tree(game, both[0], hand.hole_cards) == table.payoffs()
    ends.add((table.turn.folded, table.turn.round, table.turn.highest == game.rules.stack))
    exchanged = payoffs_of_the_tree(game, both[0], hand.hole_cards[::-1])
    wrong += exchanged != table.payoffs()
  assert wrong > 0  # the control: with each other's cards
  assert len(ends) >= 5


class Scripted:
  """A player of the tree that makes given moves and remembers what it was told."""

  def __init__(self, *moves):
    self.moves, self.seen = list(moves), []

  def start(self, player, infostate):
    self.held = player, infostate

  def observe(self, action, infostate=None):
    self.seen.append(action)

  def act(self):
    return Move(self.moves.pop(0), self.held[1])


def seat(player_of_tree, *, seat=1, off_tree="nearest", seed=0, **changes):
  """Returns a player of the tree in a seat, with a hand."""
  game = game_of(**changes)
  player = TreePlayer(game, player_of_tree, off_tree=off_tree, seed=seed)
  player.start(seat, game.deck.parse("AsKh"))
  return player


BETS = dict(bets=(0.5, 1.0), stack=2_000)  # to 200, 300 or all-in at first


def test_bets_off_the_tree_are_taken_for_the_nearest():
  for chips, number in ((200, 0), (249, 0), (251, 1), (1_149, 1), (1_151, 2), (2_000, 2)):
    script = Scripted(CALL)
    player = seat(script, **BETS)
    player.observe(RaiseTo(chips))
    assert script.seen == [FIRST_BET + number]
    assert player.act() == Call()


def test_bets_off_the_tree_may_be_mapped_at_random():
  counts = np.zeros(3)
  for seed in range(400):
    script = Scripted()
    player = seat(script, off_tree="map", seed=seed, **BETS)
    player.observe(RaiseTo(240))
    counts[script.seen[0] - FIRST_BET] += 1
  expected = map_bet(140 / 200, [0.5, 1.0, 9.5])
  assert counts[2] == 0
  assert counts / 400 == pytest.approx(expected, abs=0.08)


def test_own_sizes_are_shares_of_the_pot_at_the_table():
  # A bet to 240 is taken for one to 200; the tree then raises by the pot, to 600, and the table by
  # its own, to 720.
  script = Scripted(FIRST_BET + 1)
  player = seat(script, **BETS)
  player.observe(RaiseTo(240))
  assert player.act() == RaiseTo(720)
  player.observe(RaiseTo(720))
  assert script.seen == [FIRST_BET, FIRST_BET + 1]
  # The other's call and the card are the same in both; the tree burns a card where it must.
  player.observe(Call())
  player.observe(Deal(player.rules.deck.parse("Qs")))
  assert script.seen[2] == CALL
  assert (
    player.game.describe([FIRST_BET, FIRST_BET + 1, CALL, *script.seen[3:-1]], script.seen[-1])
    == "deal Qs"
  )
  assert not player.lost


def test_a_tree_without_all_in_is_left_where_the_table_is_all_in():
  # All-in is taken for half the pot. The tree's raise cannot be made, and the table's cards come.
  script = Scripted(FIRST_BET)
  sizes = games.poker.BetSizes((((0.5,),),), all_in=False)
  player = seat(script, bets=sizes, stack=2_000)
  player.observe(RaiseTo(2_000))
  assert player.act() == Call()
  player.observe(Call())
  assert not player.lost
  player.observe(Deal(player.rules.deck.parse("Qs")))
  assert player.lost
  assert script.seen == [FIRST_BET, FIRST_BET]
  assert player.table.is_over
  player.start(0, (0, 1))
  assert not player.lost


ONE_SIZE = games.poker.BetSizes((((0.5,),),), all_in=False, max_raises=1)


@pytest.mark.parametrize(("off_tree", "bets"), [("nearest", "hunl"), ("map", ONE_SIZE)])
def test_any_bets_are_answered_legally(off_tree, bets):
  game = game_of(bets=bets, stack=1_700)
  player = TreePlayer(game, Checked(game, seed=1), off_tree=off_tree, seed=2)
  for other in (Uniform(game, seed=3), PotManiac(game)):
    play_chip_match([player, other], game, num_hands=60, seed=4)  # raises on an illegal move


# Agents of networks.

CONFIG = TINY.replace(
  game="small_holdem", game_params=tuple((GAME | dict(ranks="QKA", stack=300)).items()), depth=4
)


def test_an_agent_that_searches_sits_down(monkeypatch):
  policy = policy_of(CONFIG)
  monkeypatch.setattr(seats.checkpoint, "load", lambda name: policy)

  def match(seated):
    assert seated.rules.rules == CONFIG.make_game().rules
    return play_chip_match([seated, Uniform(seated.rules, seed=2)], seated.rules, num_hands=6)

  # The command lets it compile before it connects; else it plays as any other of its seed.
  alone = make_chip_player("runs/mine", iterations=4, seed=1)
  alone.warm_up()
  connected = []

  def connect(player, rules, host, port, **timeouts):
    connected.append((host, port))
    return match(player)

  monkeypatch.setattr(command, "play_acpc", connect)
  options = command.Options("runs/mine", "there", 7, iterations=4, seed=1)
  assert command.play(options) == match(alone)
  assert connected == [("there", 7)]

  for other in (dict(rules=dict(stack=300)), dict(simulations=4)):
    assert "for run='runs/mine'" in sentence_of(make_chip_player, "runs/mine", **other)


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


class FakeDealer(contextlib.AbstractContextManager):
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

  def __exit__(self, *error):
    self.done.set()
    self.thread.join()
    self.server.close()


FIRST = b"MATCHSTATE:0:0::9s8h|\r\n"


@pytest.mark.parametrize(
  ("sent", "slowly", "message"),  # for the time of an answer counts all of it
  [
    (FIRST, None, "closed the connection in the hand after 0 others"),
    *((FIRST, x, "gave no answer in timeout=0.3") for x in (b"", b"M", b"# still here\r\n")),
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


def test_the_hands_of_the_protocol_s_examples():
  rules, space = make_rules(stack=20_000), " "  # as the examples are printed
  turn = ChipTable(rules).turn
  moves = [acpc.DIALECT.read(turn, answer) for *_, answer in EXAMPLES if answer]
  lines = [f"MATCHSTATE:{hand}:{betting}:{cards}{space}" for hand, betting, cards, _ in EXAMPLES]
  said = ["# GAMEDEF", ";", "", *lines]  # comments and empty lines are left out
  with FakeDealer("".join(f"{line}\r\n" for line in said).encode()) as dealer:
    player = SimpleSeat("always_call", rules)
    player.act = iter(moves).__next__
    played = play_acpc(player, rules, "127.0.0.1", dealer.port, timeout=5)
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
