"""The spot command: against the root's own values, subtrees of the same policy, and its errors."""

import asyncio
import dataclasses
import json
import re
import signal
import types

import jax
import numpy as np
import pytest

import games
import solvers
from games.poker.cards import draws, made_hands
from games.poker.lines import expand_policy
from rebel_jax import spot
from rebel_jax.config.config import ConfigError
from rebel_jax.spots import report, values
from rebel_jax.spots.explorer import Explorer, grid_text
from rebel_jax.spots.solved import prepare
from rebel_jax.spots.spot import measure, read_history
from rebel_jax.spots.study import FIELDS, Study, Trial, records

SPOT = spot.Spot("TdJdQhKc2s", "QQ+,A2s,32", "JJ,KQ,QT:0.5", 201, 165, "33%,a / 2.5x")
SMALL = ["--board", "TdJdQhKc2s", "--oop", "QQ+,A2s,32", "--ip", "JJ,KQ,QT:0.5"]
SMALL += ["--pot", "201", "--stack", "165", "--bets", "33%,a / 2.5x"]
NO_BOARD = SMALL[2:]
NINES = spot.Spot("9s9h9dTsTh", "AA,KK", "QQ,AQ", 100, 200, "50%,55%,100% / -")


@pytest.fixture(scope="module")
def solved():
  return spot.solve(SPOT, target=2.0)


@pytest.fixture
def run(capsys):
  """A function that runs the command and returns what it prints, of an error the sentence."""

  def go(*given, code=0):
    assert spot.main([*map(str, given)]) == code
    said = capsys.readouterr()
    return said.err if code else said.out

  return go


def on_tree(solved):
  """Returns the whole tree of a solved spot, and the policy `[N, H]` on it."""
  tree = games.build_public_tree(solved.game)
  return tree, expand_policy(solved.lines, solved.columns, solved.policy, tree)


def test_tables_and_exploitability_agree_with_the_tree(solved):
  table, held = spot.hand_table(solved), solved.game.prior() > 0
  assert np.isfinite(table.ev[held]).all()
  values = solvers.expected_values(*on_tree(solved))
  exact = solvers.exploitability(*on_tree(solved))
  assert solved.exploitability == pytest.approx(float(exact), rel=1e-3)
  assert solved.percent <= 2.0
  np.testing.assert_allclose(table.ev[held] - 100.5, values[held], atol=0.1)
  own = (table.frequency * table.move_ev).sum(axis=0)  # a hand's value is the mean of its moves'
  held = table.reach[0] > 0
  np.testing.assert_allclose(own[held], table.ev[0, held], rtol=1e-3, atol=0.1)


def check_below(solved, line, paid):
  """Compares the table after a line with what that subtree is worth under the same policy."""
  node = solved.find(line)
  table = spot.hand_table(solved, node)
  tree, whole = on_tree(solved)
  below = games.build_public_tree(solved.game, root=node)
  found = {tree.history(n): n for n in range(tree.num_nodes)}
  policy = whole[[found[(*node, *below.history(n))] for n in range(below.num_nodes)]].copy()
  policy[0] = 1
  worth = solvers.expected_values(below, policy, beliefs=table.reach) + np.array(paid)[:, None]
  there = (table.mass > 1e-9) & (table.reach > 0)  # others are impossible below
  assert there.any()
  np.testing.assert_allclose(table.ev[there], worth[there], rtol=1e-3, atol=0.3)


def test_tables_below_are_those_of_the_games_below(solved, turn):
  """Suits may change places, so that a later board is not always the one that was solved."""
  check_below(solved, "bet 66", (166.5, 100.5))
  check_below(turn, "bet 66, call, 9c, check", (116, 116))


@pytest.mark.slow
def test_a_flop_and_a_turn_with_a_lock_of_all_hands():
  turn = solve_turn("check, check, *: bet 66 1")
  check_locked(turn, *locks_after_cards(turn, "check, check", "bet 66", 1.0))
  flop = spot.Spot("TdJdQh", "AA,KQ", "TT,AJ:0.5", 100, 200, "66% / -", ranks="9TJQKA")
  flop = spot.solve(flop, target=20.0, max_iterations=32)
  check_below(flop, "bet 66, call, 9c, check", (116, 116))


def test_equities_are_means_over_cards_to_come(turn):
  """Against each pair of hands on each river, by the rules' own strengths."""
  node = turn.find("check, bet 66, call")
  table, game = spot.hand_table(turn, node), turn.game
  worth, mass = np.zeros((2, *table.reach.shape))
  for p, h, other in np.ndindex(2, *[game.num_infostates] * 2):
    if not {*game.hole_cards[h]} & {*game.hole_cards[other]}:
      for row in game.strengths():
        if min(row[h], row[other]) >= 0:
          mass[p, h] += table.reach[1 - p, other]
          worth[p, h] += table.reach[1 - p, other] * (1 + np.sign(row[h] - row[other])) / 2
  held = table.reach > 0
  np.testing.assert_allclose(table.equity[held], (worth / mass)[held], rtol=1e-9)


def check_locked(made, *locks):
  """Compares a locked spot with the tree held to the same: what is kept to, and exploitability."""
  (tree, policy), held = on_tree(made), None
  for line, move, share, hands in locks:
    study, own = Study(made).at(line), hands and [made.game.infostate(hand) for hand in hands]
    how = {"also": held, "infostates": own}
    held = solvers.lock(tree, study.node, {study.moves[move][-1]: share}, **how)
    place, rows = list(study.moves).index(move), study.hands(study.mover)
    kept = [x.frequency[place] for x in rows if own is None or made.game.infostate(x.name) in own]
    assert kept
    assert kept == pytest.approx([share] * len(kept), abs=1e-5)
  exact = solvers.exploitability(tree, policy, locked=held)
  assert made.exploitability == pytest.approx(float(exact), rel=2e-3, abs=1e-3)
  assert solvers.exploitability(tree, policy) > (1.5 if hands is None else 1.02) * exact


@pytest.mark.parametrize(
  ("hands", "move", "share"),
  [
    (None, "fold", 0.75),
    # Suits and cards that a lock tells apart are no longer alike.
    ("KsQs,KdQd", "raise 165", 1.0),
    ("QsTs,QcTc,KsQc", "raise 165", 1.0),
  ],
)
def test_what_is_locked_is_kept_to_and_answered(hands, move, share):
  lock = f"bet 66{f' [{hands}]' if hands else ''}: {move} {share}"
  locked = spot.solve(dataclasses.replace(SPOT, lock=lock), target=0.5)
  check_locked(locked, ("bet 66", move, share, hands and hands.split(",")))


def solve_turn(lock):
  how = {"ranks": "29TJQKA", "lock": lock}
  made = spot.Spot("TdJdQh2s", "AA,KQ", "TT,AJ:0.5", 100, 200, "66% / -", **how)
  return spot.solve(made, target=1.0, max_iterations=256)


@pytest.fixture(scope="module")
def turn():
  """A turn with locks of all hands, and of some before and after a card."""
  own = "[AsAc,KdQd]: check 1"
  return solve_turn(f"{own}; check, bet 66, call, * {own}; check, check, *: bet 66 1")


def locks_after_cards(turn, line, *kept, hands=None):
  lines = [f"{line}, {card}" for card in turn.children(turn.find(line))]
  return [(x, *kept, hands and [y for y in hands if x[-2:] not in y]) for x in lines]


def test_locks_hold_after_any_card(turn):
  free = prepare(dataclasses.replace(turn.spot, lock=None))
  assert len(turn.columns.alike.permutations) < len(free.columns.alike.permutations)
  hands = ["AsAc", "KdQd"]
  own = locks_after_cards(turn, "check, bet 66, call", "check", 1.0, hands=hands)
  every = locks_after_cards(turn, "check, check", "bet 66", 1.0)
  check_locked(turn, ("", "check", 1.0, hands), *own, *every)


def test_the_whole_is_swept_once_for_all_nodes(solved, monkeypatch):
  made, swept, played = dataclasses.replace(solved), [], []
  rules, move, sweep = type(made.game), type(made.game).next_states, values.Values._sweep
  monkeypatch.setattr(rules, "next_states", lambda own, *x: played.append(x) or move(own, *x))
  monkeypatch.setattr(values.Values, "_sweep", lambda own, b: swept.append(b) or sweep(own, b))
  assert sum(1 for _ in records(Study(made))) > 100
  assert swept == [0]
  assert len(played) == games.build_public_tree(made.game).num_nodes - 1  # each move once


def test_close_sizes_merge_and_short_stacks_may_go_all_in():
  def moves(line="", **more):
    made = prepare(dataclasses.replace(NINES, **more))
    return list(made.children(made.find(line)))

  # Where nobody may bet all chips, all-in was taken for a check, a call or another bet.
  for line in ("all-in", "bet 50, all-in", "bet 50, a"):
    with pytest.raises(ConfigError, match="holds 'a.*', and possible there is: "):
      moves(line)
  made = prepare(dataclasses.replace(NINES, bets="50%,a"))
  assert made.find("bet 50, all-in") == made.find("bet 50, raise 200")
  # Of 50 and 55 the pots after a call are 200 and 210.
  assert moves() == moves(merge=4.0) == ["check", "bet 50", "bet 55", "bet 100"]
  assert moves(merge=5.0) == ["check", "bet 50", "bet 100"]
  assert moves(add_all_in=200.0) == [*moves(), "bet 200"]
  assert moves("bet 100", add_all_in=33.0) == ["fold", "call"]
  assert moves("bet 100", add_all_in=34.0) == ["fold", "call", "raise 200"]


def test_the_command(tmp_path, run, monkeypatch):
  files = [tmp_path / "spot.npz", tmp_path / "grid.png"]
  kept = ["--output", files[0], "--picture", files[1]]
  printed = run(*SMALL, "--target", 5, "--node", "bet 66", "--hands", *kept)
  assert all(words in printed for words in ("IP to act", "raise 165", "QcTc"))
  assert all(file.stat().st_size > 100 for file in files)
  for name in ("jit", "devices", "local_devices"):  # nothing of JAX starts
    monkeypatch.setattr(jax, name, None)
  assert "IP to act" in run("--load", files[0], "--node", "bet 66")


def test_a_saved_spot_is_solved_on(tmp_path, run):
  """As if it had never stopped, to what 16 bits leave of regrets; not as from nothing."""
  begun = dataclasses.replace(SPOT, oop="QQ+,A2s,54s")
  solved = spot.solve(begun, target=2.0)
  kept, finer, number = tmp_path / "kept", tmp_path / "finer", solved.iterations + 32
  solved.save(kept)
  given = ["--load", kept, "--max-iterations", number, "--output", finer]
  assert f"after {number} iterations" in run(*given)
  again, whole = spot.load(finer), spot.solve(begun, target=0.0, max_iterations=number)
  assert again.percent == pytest.approx(whole.percent, rel=1e-3)
  for ours, theirs in zip(again.policy, whole.policy, strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
  forgotten = {key: x._replace(numbers=0 * x.numbers) for key, x in solved.sums.items()}
  anew = dataclasses.replace(solved, sums=forgotten)
  anew = spot.solve(anew, target=0.0, max_iterations=number)
  assert abs(anew.percent - whole.percent) > 0.05 * whole.percent
  said = run("--load", finer, "--target", again.percent + 1)  # is met
  assert f"after {number} iterations" in said
  dataclasses.replace(solved, sums={}).save(kept)  # as earlier versions did
  assert spot.load(kept).percent == solved.percent
  enough = measure(begun)[1]  # to solve it anew
  for file, more, message in (
    (finer, ["--max-iterations", 32], f"max_iterations=32 must be above {number}"),
    (finer, ["--memory", enough], "are allowed; take fewer"),
    (kept, [], "is of an earlier version's file, whose solve cannot go on"),
  ):
    assert message in run("--load", file, "--target", 0.001, *more, code=2)


def test_rows_of_hands_and_kinds_add_up(solved):
  study = Study(solved).at("bet 66")
  for player in (0, 1):
    whole, hands, kinds = study.row("", player), study.hands(player), study.kinds(player)
    for rows in (hands, kinds):
      assert sum(row.share for row in rows) == pytest.approx(1)
    assert whole.ev == pytest.approx(study.table.mean(study.table.ev)[player])
    assert sum(whole.frequency) == pytest.approx(float(player == study.mover))
  assert {row.name for row in study.kinds(1)} == {"a set", "two pair"}
  assert "a straight" in {row.name for row in study.kinds(0)}
  assert [x.name for x in study.hands(0) if x.name[::2] == "A2"] == ["Ac2c", "Ad2d", "Ah2h"]
  assert study.go("raise 165").go("back").node == study.node
  assert study.go("fold").grid(1).summary == pytest.approx(1)


DECK = SPOT.game().deck


# A pair of the board's is nobody's, nor is a draw of its own.
KINDS = """9s8s2d AsKs A high, flush draw; 9s8s2d JhTh J high, open-ended
9s8s2d AhAd overpair, no draw; 9s8s2d 7h7d pocket pair below 2 cards, no draw
9s8s2d Th7s T high, open-ended; 9s8s2d QsJs Q high, flush draw and gutshot
9s8s2d 6h5d 6 high, gutshot; 9s8s2d 9h9d a set, no draw; 9s8s2d 8h2c two pair, no draw
9s8s2d Ah8c second pair, no draw; 9s9d8s7s Kh2c K high, no draw; JsTs9s8s Kh2c K high, no draw"""


@pytest.mark.parametrize("kind", re.split("; |\n", KINDS))
def test_draws_and_pairs_by_hand(kind):
  board, hand, names = kind.split(maxsplit=2)
  board, hands = DECK.parse(board), np.sort([DECK.parse(hand)], axis=1)
  assert [*made_hands(DECK, hands, board), *draws(DECK, hands, board)] == names.split(", ")


def test_next_cards_and_a_whole_solution(turn):
  study = Study(turn).at("check, check")
  rows = study.cards()
  assert [row.name.split()[0] for row in rows] == list(study.moves)
  below = study.go(rows[0].name.split()[0])
  assert rows[0].ev == pytest.approx(below.row("", 0).ev)
  assert sum(rows[0].frequency) == pytest.approx(1)
  tables = [study.go(card).table for card in study.moves]
  held = [study.table.reach[0][table.reach[0] > 0].sum() for table in tables]
  weights = [x * (table.reach[0] * table.mass[0]).sum() for x, table in zip(held, tables)]
  mean = np.average([row.ev for row in rows], weights=weights)
  assert mean == pytest.approx(study.row("", 0).ev, rel=1e-3)
  listed = list(records(below))
  assert {x["line"] for x in listed if x["move"] == "fold"} >= {f"{below.line}, bet 66"}
  played = sum(x["share"] * x["frequency"] for x in listed if x["line"] == below.line)
  assert played == pytest.approx(1)


def test_a_table_is_written_as_lines_of_either_kind(tmp_path, solved, run):
  kept, node, other = tmp_path / "kept", "bet 66", tmp_path / "other.csv"
  csv, lines = tmp_path / "all.csv", tmp_path / "all.jsonl"
  solved.save(kept)
  for path in (csv, lines):
    run("--load", kept, "--node", node, "--table", path)
  rows = csv.read_text().splitlines()
  assert rows[0] == ",".join(FIELDS)
  found = [json.loads(line) for line in lines.read_text().splitlines()]
  assert len(found) == len(rows) - 1 == len(list(records(Study(solved).at(node)))) > 100
  for text in (kept.read_bytes(), lines.read_bytes()):  # nothing of another kind is replaced
    other.write_bytes(text)
    assert "no table of that kind" in run("--load", kept, "--table", other, code=2)
    assert other.read_bytes() == text
  new = tmp_path / "new"
  assert "must be different files" in run(*SMALL, "--output", new, "--table", new, code=2)
  assert "cannot be written" in run("--load", kept, "--table", tmp_path, code=2)


@pytest.mark.parametrize("rake", [0.0, 5.0])
def test_a_hand_against_the_solution(solved, rake):
  raked = dataclasses.replace(SPOT, rake=rake)
  made = dataclasses.replace(solved, spot=raked, game=raked.game())
  for seed in range(12):
    trial = Trial(Study(made), seed % 2, np.random.default_rng(seed))
    dealer, other = trial.dealer, 1 - trial.seat
    while not dealer.is_over():
      assert dealer.actor == trial.seat
      assert trial.study.node == tuple(dealer.history)
      trial.play(list(trial.study.moves)[-1])
    for depth, action in enumerate(dealer.history):
      study = Study(made, tuple(dealer.history[:depth]))
      if study.mover == other:
        place = [node[-1] for node in study.moves.values()].index(action)
        assert study.table.frequency[place, dealer.infostates[other]] > 0
    won = float(trial.record[-1].split("you get ")[1].split()[0])
    stake = abs(float(dealer.game.rules.stakes(dealer.state[None])[0]))
    net = dealer.payoff() * (1 - 2 * trial.seat)
    paid = {1: 0.02 * rake, 0: 0.01 * rake, -1: 0}[int(np.sign(net))] * stake
    assert won == pytest.approx(100.5 + net - paid, abs=0.01)
  with pytest.raises(ConfigError, match="possible there is"):
    Trial(Study(solved), 0, np.random.default_rng(0)).play("bet 7")


def test_the_explorer(solved, tmp_path):
  wanted, kept, other = [], tmp_path / "kept", dataclasses.replace(SPOT, merge=1.0)

  def solve(other, progress):
    again = isinstance(other, spot.SolvedSpot)
    wanted.append("finer" if again else (other.bets, other.lock))
    progress(32, 1.0)
    return Study(solved)

  async def use():
    app = Explorer(Study(solved), solve, str(kept))
    async with app.run_test(size=(80, 24)) as pilot:

      async def press(*keys):
        await pilot.press(*keys)
        await app.workers.wait_for_complete()
        await pilot.pause()

      await press("down", "enter")
      assert (app.study.line, app.player) == ("bet 66", 1)
      await press("backspace", "t")
      assert (app.study.line, app.player) == ("", 1)
      await press("p")
      assert app.trial.record[0].startswith("You are IP")
      await press("p", "s", *"a", "enter")
      assert app.trial is None
      app.show(Study(solved).at("bet 66"))
      await press("l", "end", *"fold", "space", "1", "enter")
      await press("l", "colon", "enter")
      await press("f")
      await press("w")
      assert f"kept in {kept}" in str(app.query_one("#said").render())
      app.show(Study(dataclasses.replace(solved, spot=other)))
      for _ in range(2):  # nothing of another spot is replaced
        await press("w")
        assert f"kept in {kept}-2" in str(app.query_one("#said").render())
      app.show(Study(solved))
      app.file = "/"
      await press("w")
      assert "not kept: output='/' must be" in str(app.query_one("#said").render())
      for tab in ("of-hands", "of-kinds", "of-cards"):
        await press("v")
        assert app.query_one("#tabs").active == tab
      assert app.query_one("#hands").row_count == len(app.study.hands(app.player))

  asyncio.run(use())
  assert [spot.load(x).spot for x in (kept, f"{kept}-2")] == [SPOT, other]
  bets = SPOT.bets
  assert wanted == [("a", None), (bets, "bet 66: fold 1"), (bets, None), "finer"]
  text = grid_text(Study(solved), 0)
  assert max(map(len, text.plain.splitlines())) <= 78
  assert len(text.plain.splitlines()) == 13
  assert len({span.style for span in text.spans}) > 3


BOARDS = ["TdJdQhKc2s", "TdJdQdJs2c", "AhQdTsTc2s"]  # of one shape


@pytest.fixture(scope="module")
def rows():
  return list(report.solve_boards(SPOT, BOARDS, target=2.0))


def test_ctrl_c_keeps_the_rivers_so_far(cpu, monkeypatch):
  calls, kept = [], []

  def solve_batch(lines, **_):
    calls.append(len(lines))
    if len(calls) == 2:
      raise KeyboardInterrupt
    zeros = np.zeros(len(lines), int)
    return solvers.Solution([], exploitability=zeros, iterations=zeros)

  monkeypatch.setattr(report.solvers, "solve_batch", solve_batch)
  monkeypatch.setattr(report, "_row", lambda own: types.SimpleNamespace(percent=0, board=own.spot))
  monkeypatch.setattr(report, "num_cores", lambda: 1)
  with pytest.raises(KeyboardInterrupt):
    kept.extend(report.solve_boards(SPOT, BOARDS[:1] * 9))
  assert calls == [3, 3]
  assert len(kept) == 3


def test_boards_of_a_report_are_solved_as_alone(rows, solved):
  with pytest.raises(ConfigError, match="is for one board"):
    next(report.solve_boards(dataclasses.replace(SPOT, lock="check: check 1"), BOARDS))
  table = spot.hand_table(solved)
  assert rows[0].iterations == solved.iterations
  np.testing.assert_allclose(rows[0].ev, table.mean(table.ev), rtol=1e-5)
  np.testing.assert_allclose([row.ev.sum() for row in rows], 201, rtol=1e-4)
  np.testing.assert_allclose([row.equity.sum() for row in rows], 1, rtol=1e-5)
  assert all(sum(row.frequency.values()) == pytest.approx(1) for row in rows)
  # By frequencies over pairs of hands, not by those of the own range, moves' values add up.
  pairs = zip(table.move_ev, table.frequency, strict=True)
  means = [table.mean(ev, weights)[0] for ev, weights in pairs]
  assert np.dot(means, [*rows[0].frequency.values()]) == pytest.approx(rows[0].ev[0], rel=1e-5)
  assert len({round(float(row.ev[0]), 3) for row in rows}) == 3


def test_means_by_texture(rows):
  assert [row.textures for row in rows] == [
    ("two-tone", "unpaired", "K high"),
    ("monotone", "paired", "Q high"),
    ("two-tone", "paired", "A high"),
  ]
  assert report.textures("9h9d9s4c3s", DECK) == ("two-tone", "trips", "9 high")
  first, second, third = (row.ev[0] for row in rows)
  boards, weights = report.read_boards(",".join(map(str.__add__, BOARDS, (":3", ":0.5", ""))))
  assert boards == BOARDS
  plain, weighed = (
    {line.split("  ")[0]: line.split() for line in report.summary(rows, 201, *x).splitlines()}
    for x in ([], [weights])
  )
  assert plain["two-tone"][1:3] == ["2", f"{(first + third) / 2:.1f}"]
  assert plain["monotone"][2] == f"{second:.1f}" == plain[BOARDS[1]][2]
  assert plain["all"][1] == "3"
  assert weighed["two-tone"][2] == f"{(3 * first + third) / 4:.1f}"
  for wrong in ("-1", "x", "inf"):
    with pytest.raises(ConfigError, match="no positive number"):
      report.read_boards(f"TdJdQhKc2s:{wrong}")


def test_the_report_command(tmp_path, run):
  listed = tmp_path / "boards"
  listed.write_text("\n".join(BOARDS))
  printed = run(*NO_BOARD, "--target", 5, "--boards", listed)
  assert "of the pot or less on each of 3 boards" in printed
  said = run(*NO_BOARD, "--boards", "TdJdQhKc2s,TdJdQh", code=2)
  assert "must be boards of as many cards each" in said


@pytest.mark.parametrize(
  ("more", "message"),
  [
    ("--board;TdJd", "board='TdJd' holds 2 cards; a spot has 3, 4 or 5"),
    ("--oop;QQ+,XX", "oop holds 'XX', which is not understood"),
    ("--oop;KdKh;--ip;KdQd", "cannot both be held"),
    ("--oop;TdTh", "oop='TdTh' holds no hand that the board leaves"),
    ("--board;Td9d6h;--oop;random;--stack;900", "board='Td9d6h' with these bets and ranges makes"),
    ("--load;nothing.npz", "is not for load='nothing.npz', a solved spot"),
    ("--node;bet 7", "node='bet 7' holds 'bet 7', and possible there is: check, bet 66"),
    ("--picture;missing/grid.png", "picture='missing/grid.png' cannot be drawn"),
    ("--picture;grid.png;--node;bet 66, fold", "no player moves at it"),
    ("--table;missing/all.csv", "table='missing/all.csv' cannot be written"),
    ("--open", "open=True needs a terminal"),
    ("--output;notes.txt", "output='notes.txt' is there and cannot be read as"),
    ("--output;missing/kept", "output='missing/kept' must be a file that can"),
    ("--output;/", "output='/' must be a file that can"),
    ("--history;notes.txt", "history='notes.txt' cannot be read as a hand"),
    ("--street;turn", "street='turn' is for --history"),
    ("--boards;TdJdQhKc2s", "is for one board, not for --boards"),
    ("--lock;bet 7: fold 1", "holds 'bet 7', and possible there is: check, bet 66"),
    ("--lock;bet 66: raise 5 0.5", "holds 'raise 5', and possible there is: fold, call, raise 165"),
    ("--lock;bet 66: fold 0.7, call 0.4", "cannot be kept together"),
    ("--lock;bet 66: fold 0.7, Fold 0.2", "for the second time"),
    ("--lock;bet 66: fold 0.7|bet 66.0: call 0.2", "for the second time"),
    ("--lock;bet 66 [JJ]: fold 1|bet 66 [JcJh,KQ]: call 1", "for the second time"),
    ("--lock;bet 66 [AA]: fold 1", "locks no hand"),
    ("--lock;bet 66 [XX]: fold 1", "lock holds 'XX', which is not understood"),
    ("--lock;bet 66, fold: fold 1", "must lead to a move, with * for each card"),
    ("--pot;5.555", "pot=5.555 must be a number of chips of at most two decimals"),
    ("--pot;2.01;--stack;9;--node;bet 7", "possible there is: check, bet 0.66, bet 9"),
    ("--bets;0.555c", "bets='0.555c' holds '0.555c'; a size must be"),
    ("--pot;2.01;--stack;10737418", "stack=10737418 and half of pot=2.01 are more than 10737418"),
  ],
)
def test_mistakes_are_found_before_the_solve(more, message, tmp_path, run, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(spot, "solve", None)
  (tmp_path / "notes.txt").write_text("precious")
  given = [x.replace("|", ";") for x in more.split(";")]
  said = run(*SMALL, "--memory", 1, "--output", "kept.npz", *given, code=2).splitlines()
  assert said[-1].startswith("error: ")
  assert message in said[-1]
  assert len(said) <= 2  # lines of betting are counted first
  assert [x.name for x in tmp_path.iterdir()] == ["notes.txt"]
  assert (tmp_path / "notes.txt").read_text() == "precious"


def test_results_are_saved_before_they_are_shown(solved, tmp_path, run, monkeypatch):
  monkeypatch.setattr(spot, "solve", lambda *_, **__: solved)
  monkeypatch.setattr(spot, "Study", None)  # anything may go wrong there
  with pytest.raises(TypeError):
    run(*SMALL, "--output", tmp_path / "kept")
  assert spot.load(tmp_path / "kept").percent == solved.percent


HAND = """PokerStars Hand #1:  Hold'em No Limit ($0.25/$0.50 USD) - 2021/11/20 12:00:00 ET
Table 'T' 2-max Seat #1 is the button
Seat 1: A ($50.00 in chips)
Seat 2: B ($62.35 in chips)
A: posts small blind $0.25
B: posts big blind $0.50
*** HOLE CARDS ***
A: raises $1 to $1.50
B: calls $1
*** FLOP *** [Td 9d 6h]
B: checks
A: bets $1.75
B: calls $1.75
*** TURN *** [Td 9d 6h] [Qc]
B: bets $59.10 and is all-in
A: folds
"""
PHH = "variant='NT'\nantes=[0,0]\nblinds_or_straddles=[1,2]\nmin_bet=2\nstarting_stacks=[200,150]\n"
ACTIONS = ["d dh p1 ????", "d dh p2 ????", "p2 cc", "p1 cbr 6", "p2 cc", "d db Td9d6h", "p1 cbr 8"]
ACTIONS += ["p2 cbr 20", "p1 cc", "d db Qc", "p1 cc", "p2 cc", "d db 2s", "p1 cc"]
FLOP = "bet 8, raise 20, call, Qc, check, check, 2s, check"


def test_hands_that_were_played_become_spots(tmp_path, run, capsys):
  path = tmp_path / "hand.txt"

  def read(text, street=None):
    path.write_text(text)
    return read_history(str(path), street)

  assert read(HAND) == ("Td9d6hQc", 6.5, 46.75, "bet 46.75, fold")
  line = "check, bet 1.75, call, Qc, bet 46.75, fold"
  assert read(HAND, "flop") == ("Td9d6h", 3, 48.5, line)
  with pytest.raises(ConfigError, match="cannot be read as a hand of no-limit hold'em"):
    read(HAND.replace("59.10", "99.10"))
  with pytest.raises(ConfigError, match="has no street that two players with chips see"):
    read(f"{PHH}actions={[*ACTIONS[:2], 'p2 f']}")
  assert capsys.readouterr().err == ""
  cents = [x.replace("cbr 8", "cbr 8.25") for x in ACTIONS]
  wanted = "Td9d6h", 12, 144, FLOP.replace("bet 8", "bet 8.25")
  assert read(f"{PHH}actions={cents}", "flop") == wanted
  assert read(f"{PHH}actions={ACTIONS}", "flop") == ("Td9d6h", 12, 144, FLOP)
  given = ["--history", path, "--oop", "AA,32,54s", "--ip", "KK", "--bets", "60%,a / 4x"]
  said = run(*given, "--target", 20).splitlines()
  assert said[:2] == ["played: check", "board Td9d6hQc2s, pot 52, stacks 124 and 124"]
  assert "stack=90 is not for history=" in run(*given, "--stack", 90, code=2)


def test_chips_may_have_decimals(tmp_path):
  parts = dataclasses.replace(SPOT, pot=2.01, stack=1.65, bets="0.66c,a / 2.5x")
  whole = dataclasses.replace(SPOT, bets="66c,a / 2.5x")
  ours, theirs = (spot.solve(x, target=5.0) for x in (parts, whole))
  ours.save(tmp_path / "kept")
  ours = spot.load(tmp_path / "kept")
  assert ours.percent == pytest.approx(theirs.percent)
  assert list(ours.children(ours.find("bet 0.66"))) == ["fold", "call", "raise 1.65"]
  assert ours.find("bet 0.660, raise 1.650") == ours.find("bet .66, raise to 1.65")
  locks = (f"bet .66: {x} 0.5" for x in ("raise 1.65", "Raise to 1.650"))
  assert len({str(prepare(dataclasses.replace(parts, lock=x)).lock()) for x in locks}) == 1
  study, other = Study(ours).at("bet 0.66"), Study(theirs).at("bet 66")
  assert study.situation == "board TdJdQhKc2s, pot 2.67, stacks 0.99 and 1.65"
  np.testing.assert_allclose(100 * study.table.ev, other.table.ev, rtol=1e-6)
  shares = [re.findall(r"[\d.]+%", x.summary().split("OOP  EV ")[1]) for x in (study, other)]
  assert shares[0] == shares[1]
  trial = Trial(Study(ours), 1, np.random.default_rng(1))
  trial.play("bet 1.65")
  assert trial.record[-1].endswith("you get 2.01 of the pot.")
  for pot, stack in ((5.5, 20_000), (200, 2_000_000)):  # geometric sizes of large stacks
    made = prepare(dataclasses.replace(SPOT, pot=pot, stack=stack, bets="2e / -"))
    bet = float([*made.children(())][1].removeprefix("bet "))
    grown = pot * (1 + 2 * stack / pot) ** 0.5
    assert bet == pytest.approx((grown - pot) / 2, abs=1 / made.spot.unit)


def test_large_tables_are_halved_and_time_ends_a_solve(monkeypatch, run):
  said, tables = run(*SMALL, "--target", 0.001, "--max-seconds", 0.001), []
  assert "after 32 iterations, 16 of both players" in said
  monkeypatch.setattr(solvers, "solve", lambda *_, **how: 1 / tables.append(how["tables"]))
  for board in ("TdJdQhKc2s", "TdJdQhKc"):
    with pytest.raises(TypeError):
      spot.solve(spot.Spot(board, "AA", "QQ", 10, 5), half_tables=True)
  assert tables == [None, "float16"]


def test_saved_spots_load_without_solving_and_altered_ones_are_refused(
  solved, tmp_path, monkeypatch
):
  solved.save(tmp_path / "kept")
  monkeypatch.setattr(solvers, "solve", None)
  with np.load(tmp_path / "kept") as archive:
    good = {name: archive[name] for name in archive.files}
  about = json.loads(str(good["about"]))
  first = next(name for name in good if name != "about")

  def written(fields=(), about=about, **more):
    said = about | {"spot": about["spot"] | dict(fields)}
    np.savez(tmp_path / "kept.npz", **good | more | {"about": np.array(json.dumps(said))})
    return spot.load(tmp_path / "kept.npz")

  again = written()
  assert (again.spot, Study(again).summary()) == (solved.spot, Study(solved).summary())
  for ours, theirs in zip(again.policy, solved.policy, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  half, whole = (measure(solved.spot, x)[1] for x in (True, False))
  assert half < whole
  spot.load(tmp_path / "kept", half)  # it may have been solved in 16 bits
  # Files of earlier versions have no checksum.
  old = {name: value for name, value in about.items() if name != "checksum"}
  assert again.sealed
  assert not written(about=old).sealed
  assert "says a file without a checksum" in Study(written(about=old)).summary()
  wide = {"board": "TdJdQh", "oop": "random", "ip": "random", "bets": "33%,66%,a", "stack": 900}
  for altered, message in (
    ({"fields": {"pot": 203}}, "was altered"),
    ({"fields": {"oop": "QQ+,A2s,42"}}, "was altered"),
    ({"about": about | {"exploitability": 0.1}}, "was altered"),
    ({"about": old, first: -good[first]}, "holds no policy"),
    ({"about": old, first: good[first] / 2}, "holds no policy"),
    ({"about": old, "fields": wide}, "are allowed; take fewer"),
  ):
    with pytest.raises(ConfigError, match=message):
      written(**altered)


def test_a_signal_keeps_what_there_is(tmp_path, run, rows, capsys, monkeypatch):
  look, check_fits, sized = spot.Display.show, spot.check_fits, []
  stopped, output = 128 + signal.SIGTERM, tmp_path / "kept"

  def show(self, what, *rest):
    if what == "solving":
      signal.raise_signal(signal.SIGTERM)
    look(self, what, *rest)

  monkeypatch.setattr(spot.Display, "show", show)
  monkeypatch.setattr(spot, "check_fits", lambda *x: sized.append(x) or check_fits(*x))
  given = [*SMALL, "--target", 0.001]
  assert f"--load {output} shows" in run(*given, "--output", output, code=stopped)
  assert len(sized) == 1  # which takes seconds of a flop
  assert spot.load(output).iterations == 32
  assert spot.main([*map(str, given)]) == stopped
  assert "after 32 iterations" in capsys.readouterr().out
  with monkeypatch.context() as patch:
    patch.setattr(spot.Display, "show", lambda *_: signal.raise_signal(signal.SIGTERM))
    patch.setattr(spot, "prepare", None)  # ends at once, before there is anything to keep
    assert run(*given, code=stopped).endswith("interrupted\n")
  monkeypatch.setattr(spot.Display, "show", look)

  def two_rows(*_, **__):
    yield from rows[:2]
    raise KeyboardInterrupt

  monkeypatch.setattr(report, "solve_boards", two_rows)
  assert spot.main([*NO_BOARD, "--boards", ",".join(BOARDS)]) == 130
  assert "on each of 2 boards" in capsys.readouterr().out


def test_seconds_end_a_flop_on_the_way(monkeypatch, run, rows):
  looks = []
  monkeypatch.setattr(report, "solve", lambda *_, progress, **__: looks.append(progress(32, 9.0)))
  monkeypatch.setattr(report, "_row", lambda own: rows[0])
  said = run(*NO_BOARD, "--boards", "TdJdQh,9h9d4s", "--max-seconds", 1e-9)
  assert looks == [True]
  assert "on each of 1 boards" in said
