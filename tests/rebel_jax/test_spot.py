"""The spot command: against the root's own values, subtrees of the same policy, and its errors."""

import asyncio
import dataclasses
import json
import re
import signal
import types
from pathlib import Path

import jax
import numpy as np
import pytest

import games
import solvers
from games.poker.cards import draws, made_hands
from games.poker.lines import expand_policy
from rebel_jax import spot
from rebel_jax.config.config import ConfigError
from rebel_jax.spots import history, report, values
from rebel_jax.spots.explorer import Explorer, grid_text
from rebel_jax.spots.solved import prepare
from rebel_jax.spots.spot import measure
from rebel_jax.spots.study import FIELDS, Study, records
from rebel_jax.spots.trial import Trial
from tests.tiny import python

SPOT = spot.Spot("TdJdQhKc2s", "QQ+,A2s,32", "JJ,KQ,QT:0.5", 201, 900, "33%,a / 2.5x")
SMALL = ["--board", "TdJdQhKc2s", "--oop", "QQ+,A2s,32", "--ip", "JJ,KQ,QT:0.5"]
SMALL += ["--pot", "201", "--stack", "900", "--bets", "33%,a / 2.5x"]
NO_BOARD = SMALL[2:]


@pytest.fixture(scope="module")
def solved():
  return spot.solve(SPOT, target=2.0)


def on_tree(solved):
  """Returns the whole tree of a solved spot, and the policy `[N, H]` on it."""
  tree = games.build_public_tree(solved.game)
  return tree, expand_policy(solved.lines, solved.columns, solved.policy, tree)


def test_tables_agree_with_expected_values(solved):
  table = spot.hand_table(solved)
  values = solvers.expected_values(*on_tree(solved))
  held = solved.game.prior() > 0
  assert np.isfinite(table.ev[held]).all()
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
  values = solvers.expected_values(below, policy, beliefs=table.reach)
  there = (table.mass > 1e-9) & (table.reach > 0)  # others are impossible below
  np.testing.assert_allclose(
    np.where(there, table.ev, 0),
    np.where(there, values + np.array(paid)[:, None], 0),
    rtol=1e-3,
    atol=0.3,
  )
  assert there.any()


def test_tables_below_are_those_of_the_games_below(solved):
  """Suits may change places, so that a later board is not always the one that was solved."""
  check_below(solved, "bet 66", (166.5, 100.5))
  made = spot.solve(
    spot.Spot("TdJdQh", "AA,KQ", "TT,AJ:0.5", 100, 200, "66% / -", ranks="9TJQKA"),
    target=20.0,
    max_iterations=32,
  )
  check_below(made, "bet 66, call, 9c, check", (116, 116))


def test_the_policy_is_as_exploitable_as_it_says(solved):
  assert solved.percent <= 2.0
  exact = solvers.exploitability(*on_tree(solved))
  assert solved.exploitability == pytest.approx(float(exact), rel=1e-3)


def check_locked(made, lines, move, share, hands=None):
  """Compares a locked spot with the tree held to the same: what is kept to, and exploitability."""
  tree, policy = on_tree(made)
  held = None
  for line in lines:
    study = Study(made).at(line)
    own = None if hands is None else [made.game.infostate(hand) for hand in hands]
    how = {"also": held, "infostates": own}
    held = solvers.lock(tree, study.node, {study.moves[move][-1]: share}, **how)
    place = list(study.moves).index(move)
    kept = [
      row.frequency[place]
      for row in study.hands(study.mover)
      if own is None or made.game.infostate(row.name) in own
    ]
    assert kept
    assert kept == pytest.approx([share] * len(kept), abs=1e-5)
  exact = solvers.exploitability(tree, policy, locked=held)
  assert made.exploitability == pytest.approx(float(exact), rel=2e-3, abs=1e-3)
  assert solvers.exploitability(tree, policy) > (1.5 if hands is None else 1.02) * exact


@pytest.mark.parametrize("hands", ["KsQs,KdQd", "QsTs,QcTc,KsQc"])
def test_hands_are_locked_alone(solved, hands):
  """Others answer; suits and cards that a lock tells apart are no longer alike."""
  locked = dataclasses.replace(solved.spot, lock=f"bet 66 [{hands}]: raise 165 1")
  check_locked(spot.solve(locked, target=0.5), ["bet 66"], "raise 165", 1.0, hands.split(","))


def test_what_is_locked_is_kept_to_and_answered(solved):
  locked = dataclasses.replace(solved.spot, lock="bet 66: fold 0.75")
  check_locked(spot.solve(locked, target=0.5), ["bet 66"], "fold", 0.75)


@pytest.fixture(scope="module")
def turn():
  how = {"ranks": "29TJQKA", "lock": "check, check, *: bet 66 1"}
  made = spot.Spot("TdJdQh2s", "AA,KQ", "TT,AJ:0.5", 100, 200, "66% / -", **how)
  return spot.solve(made, target=1.0, max_iterations=256)


def test_locks_hold_after_any_card(turn):
  cards = turn.children(turn.find("check, check"))
  lines = [f"check, check, {card}" for card in cards]
  check_locked(turn, lines, "bet 66", 1.0)
  hands = ["AsAc", "KdQd"]
  own = f"[{','.join(hands)}]: check 1"
  alone = dataclasses.replace(turn.spot, lock=f"{own}; check, check, * {own}")
  assert len(prepare(alone).columns.alike.permutations) < len(turn.columns.alike.permutations)
  check_locked(
    spot.solve(alone, target=1.0, max_iterations=256),
    ["", *(x for x in lines if x[-2:] not in "AsAcKdQd")],
    "check",
    1.0,
    hands,
  )


def test_all_in_is_a_bet_of_all_chips_or_no_move():
  """Where nobody may bet so much it was taken for a check, a call or another bet."""
  made = spot.prepare(spot.Spot("9s9h9dTsTh", "AA,KK", "QQ,AQ", 20, 60, "50%"))
  for line in ("all-in", "bet 10, all-in", "bet 10, a"):
    with pytest.raises(ConfigError, match="holds 'a.*', and possible there is: "):
      made.find(line)
  made = spot.prepare(spot.Spot("9s9h9dTsTh", "AA,KK", "QQ,AQ", 20, 60, "50%,a"))
  assert made.line(made.find("bet 10, all-in")) == made.line(made.find("bet 10, raise 60"))


def test_the_whole_is_swept_once_for_all_nodes(solved, monkeypatch):
  made = dataclasses.replace(solved)
  swept, played = [], []
  move = type(made.game).next_states
  monkeypatch.setattr(
    type(made.game), "next_states", lambda own, *x: played.append(x) or move(own, *x)
  )
  sweep = values.Values._sweep
  monkeypatch.setattr(values.Values, "_sweep", lambda own, b: swept.append(b) or sweep(own, b))
  assert sum(1 for _ in records(Study(made))) > 100
  assert swept == [0]
  assert len(played) == games.build_public_tree(made.game).num_nodes - 1  # each move once


def test_close_sizes_merge_and_short_stacks_may_go_all_in():
  def moves(line="", **more):
    own = spot.Spot("9s9h9dTsTh", "AA,KK", "QQ,AQ", 100, 200, "50%,55%,100% / -", **more)
    made = spot.prepare(own)
    return list(made.children(made.find(line)))

  # Of 50 and 55 the pots after a call are 200 and 210.
  assert moves() == moves(merge=4.0) == ["check", "bet 50", "bet 55", "bet 100"]
  assert moves(merge=5.0) == ["check", "bet 50", "bet 100"]
  assert moves(add_all_in=200.0) == [*moves(), "bet 200"]
  assert moves("bet 100", add_all_in=33.0) == ["fold", "call"]
  assert moves("bet 100", add_all_in=34.0) == ["fold", "call", "raise 200"]


def test_a_saved_spot_loads_without_solving(solved, tmp_path, monkeypatch):
  solved.save(tmp_path / "kept")
  monkeypatch.setattr(solvers, "solve", None)
  again = spot.load(tmp_path / "kept")
  assert again.spot == solved.spot
  for ours, theirs in zip(again.policy, solved.policy, strict=True):
    np.testing.assert_array_equal(ours, theirs)
  assert Study(again).summary() == Study(solved).summary()
  half, whole = (measure(solved.spot, x).gigabytes for x in (True, False))
  assert half < whole
  spot.load(tmp_path / "kept", half)  # it may have been solved in 16 bits


def test_the_command(tmp_path, capsys, monkeypatch):
  files = [tmp_path / "spot.npz", tmp_path / "grid.png"]
  kept = ["--output", str(files[0]), "--picture", str(files[1])]
  assert spot.main([*SMALL, "--target", "5", "--node", "bet 66", "--hands", *kept]) == 0
  printed = capsys.readouterr().out
  assert "IP to act" in printed
  assert "raise 165" in printed
  assert "QcTc" in printed
  assert all(file.stat().st_size > 100 for file in files)
  with monkeypatch.context() as patch:  # nothing of JAX starts
    for name in ("jit", "devices", "local_devices"):
      patch.setattr(jax, name, None)
    assert spot.main(["--load", str(files[0]), "--node", "bet 66"]) == 0
  assert "IP to act" in capsys.readouterr().out


def test_the_command_starts_without_what_networks_need():
  loaded = "sorted({'chex', 'flax', 'optax'} & {*sys.modules})"
  program = f"""import sys, rebel_jax.spot
assert {{*rebel_jax.__all__}} <= {{*dir(rebel_jax)}}
print({loaded})
from rebel_jax import *
print({loaded})"""
  assert python(program).splitlines() == ["[]", "['chex', 'flax', 'optax']"]


def test_a_saved_spot_is_solved_on(solved, tmp_path, capsys):
  """As if it had never stopped, to what 16 bits leave of regrets; not as from nothing."""
  kept, finer = str(tmp_path / "kept"), str(tmp_path / "finer")
  solved.save(kept)
  number = solved.iterations + 32
  given = ["--load", kept, "--max-iterations", str(number), "--output", finer]
  assert spot.main(given) == 0
  assert f"after {number} iterations" in capsys.readouterr().out
  again, whole = spot.load(finer), spot.solve(solved.spot, target=0.0, max_iterations=number)
  assert again.percent == pytest.approx(whole.percent, rel=1e-3)
  for ours, theirs in zip(again.policy, whole.policy, strict=True):
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
  forgotten = {key: x._replace(numbers=0 * x.numbers) for key, x in solved.sums.items()}
  anew = dataclasses.replace(solved, sums=forgotten)
  anew = spot.solve(anew, target=0.0, max_iterations=number)
  assert abs(anew.percent - whole.percent) > 0.05 * whole.percent
  assert spot.main(["--load", finer, "--target", str(again.percent + 1)]) == 0  # is met
  assert f"after {number} iterations" in capsys.readouterr().out
  assert spot.main(["--load", finer, "--target", "0.001", "--max-iterations", "32"]) == 2
  assert f"max_iterations=32 must be above {number}" in capsys.readouterr().err
  enough = str(measure(solved.spot).gigabytes)  # to solve it anew
  assert spot.main(["--load", finer, "--target", "0.001", "--memory", enough]) == 2
  assert "are allowed; take fewer" in capsys.readouterr().err
  dataclasses.replace(solved, sums={}).save(kept)  # as earlier versions did
  assert spot.load(kept).percent == solved.percent
  assert spot.main(["--load", kept, "--target", "0.001"]) == 2
  assert "is of an earlier version's file, whose solve cannot go on" in capsys.readouterr().err


def test_rows_of_hands_and_kinds_add_up(solved):
  study = Study(solved).at("bet 66")
  for player in (0, 1):
    whole, hands = study.row("", player), study.hands(player)
    assert sum(row.share for row in hands) == pytest.approx(1)
    kinds = study.kinds(player)
    assert sum(row.share for row in kinds) == pytest.approx(1)
    assert whole.ev == pytest.approx(study.table.mean(study.table.ev)[player])
    assert sum(whole.frequency) == pytest.approx(float(player == study.mover))
  names = {row.name for row in study.kinds(1)}
  assert names == {"a set", "two pair"}
  assert "a straight" in {row.name for row in study.kinds(0)}
  assert [x.name for x in study.hands(0) if x.name[1::2] in ("cc", "dd", "hh")] == [
    "Ac2c",
    "Ad2d",
    "Ah2h",
  ]
  assert study.go("raise 165").go("back").node == study.node
  assert study.go("fold").grid(1).summary == pytest.approx(1)


def test_draws_and_pairs_by_hand():
  deck = solved_deck()
  board = deck.parse("9s8s2d")
  named = {
    "AsKs": ("A high", "flush draw"),
    "JhTh": ("J high", "open-ended"),
    "Th7s": ("T high", "open-ended"),
    "QsJs": ("Q high", "flush draw and gutshot"),
    "AhAd": ("overpair", "no draw"),
    "7h7d": ("pocket pair below 2 cards", "no draw"),
    "9h9d": ("a set", "no draw"),
    "8h2c": ("two pair", "no draw"),
    "Ah8c": ("second pair", "no draw"),
    "6h5d": ("6 high", "gutshot"),
  }
  hands = np.array([deck.parse(name) for name in named])
  low = np.sort(hands, axis=1)
  assert list(zip(made_hands(deck, low, board), draws(deck, low, board))) == [*named.values()]
  # A pair of the board's is nobody's, nor is a draw of its own.
  shown = deck.parse("9s9d8s7s")
  hand = np.array([sorted(deck.parse("Kh2c"))])
  assert made_hands(deck, hand, shown) == ["K high"]
  assert draws(deck, hand, deck.parse("JsTs9s8s")) == ["no draw"]


def solved_deck():
  return spot.Spot(BOARDS[0], "AA", "KK", 10, 10).game().deck


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


def test_a_table_is_written_as_lines_of_either_kind(tmp_path, solved, capsys):
  kept, node = str(tmp_path / "kept"), "bet 66, raise 165"
  solved.save(kept)
  csv, lines = tmp_path / "all.csv", tmp_path / "all.jsonl"
  for path in (csv, lines):
    assert spot.main(["--load", kept, "--node", node, "--table", str(path)]) == 0
  rows = csv.read_text().splitlines()
  assert rows[0] == ",".join(FIELDS)
  found = [json.loads(line) for line in lines.read_text().splitlines()]
  assert len(found) == len(rows) - 1 == len(list(records(Study(solved).at(node)))) > 100
  for other in (kept, str(lines)):  # nothing of another kind is replaced
    path = tmp_path / "other.csv"
    path.write_bytes(Path(other).read_bytes())
    assert spot.main(["--load", kept, "--table", str(path)]) == 2
    assert "no table of that kind" in capsys.readouterr().err
    assert path.read_bytes() == Path(other).read_bytes()
  assert spot.main([*SMALL, "--output", str(csv) + "2", "--table", str(csv) + "2"]) == 2
  assert "must be different files" in capsys.readouterr().err
  assert spot.main(["--load", kept, "--table", str(tmp_path)]) == 2
  assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("rake", [0.0, 5.0])
def test_a_hand_against_the_solution(solved, rake):
  raked = dataclasses.replace(solved.spot, rake=rake)
  made = dataclasses.replace(solved, spot=raked, game=raked.game())
  for seed in range(12):
    trial = Trial(Study(made), seed % 2, np.random.default_rng(seed))
    other = 1 - trial.seat
    while not trial.dealer.is_over():
      assert trial.dealer.actor == trial.seat
      assert trial.study.node == tuple(trial.dealer.history)
      trial.play(list(trial.study.moves)[-1])
    dealer = trial.dealer
    for depth in range(len(dealer.history)):
      study = Study(made, tuple(dealer.history[:depth]))
      if study.mover == other:
        actions = [node[-1] for node in study.moves.values()]
        place = actions.index(dealer.history[depth])
        assert study.table.frequency[place, dealer.infostates[other]] > 0
    won = float(trial.record[-1].split("you get ")[1].split()[0])
    stake = abs(float(dealer.game.rules.stakes(dealer.state[None])[0]))
    net = dealer.payoff() * (1 - 2 * trial.seat)
    paid = {1: 0.02 * rake, 0: 0.01 * rake, -1: 0}[int(np.sign(net))] * stake
    assert won == pytest.approx(100.5 + net - paid, abs=0.01)
  with pytest.raises(ConfigError, match="possible there is"):
    Trial(Study(solved), 0, np.random.default_rng(0)).play("bet 7")


def test_the_explorer(solved):
  wanted = []

  def solve(other, progress):
    if isinstance(other, spot.SolvedSpot):
      wanted.append("finer")
    else:
      wanted.append((other.bets, other.lock))
    progress(32, 1.0)
    return Study(solved)

  async def use():
    app = Explorer(Study(solved), solve)
    async with app.run_test(size=(80, 24)) as pilot:
      await pilot.press("down", "enter")
      assert app.study.line == "bet 66"
      assert app.player == 1
      await pilot.press("backspace", "t")
      assert app.study.line == ""
      assert app.player == 1
      await pilot.press("p")
      assert app.trial.record[0].startswith("You are IP")
      await pilot.press("p", "s", *"a", "enter")
      await app.workers.wait_for_complete()
      await pilot.pause()
      assert app.trial is None
      app.show(Study(solved).at("bet 66"))
      for keys in (("l", "end", *"fold", "space", "1"), ("l", "colon")):
        await pilot.press(*keys, "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
      await pilot.press("f")
      await app.workers.wait_for_complete()
      for tab in ("of-hands", "of-kinds", "of-cards"):
        await pilot.press("v")
        assert app.query_one("#tabs").active == tab
      assert app.query_one("#hands").row_count == len(app.study.hands(app.player))

  asyncio.run(use())
  bets = solved.spot.bets
  assert wanted == [("a", None), (bets, "bet 66: fold 1"), (bets, None), "finer"]
  text = grid_text(Study(solved), 0)
  assert max(map(len, text.plain.splitlines())) <= 78
  assert len(text.plain.splitlines()) == 13
  assert len({span.style for span in text.spans}) > 3


BOARDS = ["TdJdQhKc2s", "TdJdQd2s2c", "9h9d9s4c3s"]


@pytest.fixture(scope="module")
def rows():
  return list(report.solve_boards(SPOT, BOARDS, target=2.0))


def test_ctrl_c_keeps_the_rivers_so_far(monkeypatch):
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
    next(report.solve_boards(dataclasses.replace(solved.spot, lock="check: check 1"), BOARDS))
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
  said = [row.textures for row in rows]
  assert said == [
    ("two-tone", "unpaired", "K high"),
    ("monotone", "paired", "Q high"),
    ("two-tone", "trips", "9 high"),
  ]
  lines = {line.split("  ")[0]: line.split() for line in report.summary(rows, 201).splitlines()}
  mean = (rows[0].ev[0] + rows[2].ev[0]) / 2
  assert lines["two-tone"][1:3] == ["2", f"{mean:.1f}"]
  assert lines["monotone"][2] == f"{rows[1].ev[0]:.1f}" == lines[BOARDS[1]][2]
  assert lines["all"][1] == "3"
  boards, weights = report.read_boards("TdJdQhKc2s:3,TdJdQd2s2c:0.5,9h9d9s4c3s")
  weighed = report.summary(rows, 201, weights)
  assert boards == BOARDS
  assert (
    f"{(3 * rows[0].ev[0] + rows[2].ev[0]) / 4:.1f}" in weighed.split("two-tone")[1].split()[1:2]
  )
  for wrong in ("-1", "x", "inf"):
    with pytest.raises(ConfigError, match="no positive number"):
      report.read_boards(f"TdJdQhKc2s:{wrong}")


def test_the_report_command(tmp_path, capsys):
  listed = tmp_path / "boards"
  listed.write_text("\n".join(BOARDS[:2]))
  assert spot.main([*NO_BOARD, "--target", "5", "--boards", str(listed)]) == 0
  printed = capsys.readouterr().out
  assert "of the pot or less on each of 2 boards" in printed
  assert spot.main([*NO_BOARD, "--boards", "TdJdQhKc2s,TdJdQh"]) == 2
  assert "must be boards of as many cards each" in capsys.readouterr().err


@pytest.mark.parametrize(
  ("more", "message"),
  [
    (["--board", "TdJd"], "board='TdJd' holds 2 cards; a spot has 3, 4 or 5"),
    (["--oop", "QQ+,XX"], "oop holds 'XX', which is not understood"),
    (["--oop", "KdKh", "--ip", "KdQd"], "cannot both be held"),
    (["--board", "Td9d6h", "--oop", "random"], "board='Td9d6h' with these bets and ranges makes"),
    (["--load", "nothing.npz"], "is not for load='nothing.npz', a solved spot"),
    (["--node", "bet 7"], "node='bet 7' holds 'bet 7', and possible there is: check, bet 66"),
    (["--picture", "missing/grid.png"], "picture='missing/grid.png' cannot be drawn"),
    (["--table", "missing/all.csv"], "table='missing/all.csv' cannot be written"),
    (["--open"], "open=True needs a terminal"),
    (["--picture", "grid.png", "--node", "bet 66, fold"], "no player moves at it"),
    (["--output", "notes.txt"], "output='notes.txt' is there and cannot be read as"),
    (["--output", "missing/kept"], "output='missing/kept' must be a file that can"),
    (["--output", "/"], "output='/' must be a file that can"),
    (["--lock", "bet 7: fold 1"], "holds 'bet 7', and possible there is: check, bet 66"),
    (
      ["--lock", "bet 66: fold 0.5, raise 5 0.5"],
      "holds 'raise 5', and possible there is: fold, call, raise 165",
    ),
    (["--lock", "bet 66: fold 0.7, call 0.4"], "cannot be kept together"),
    (["--lock", "bet 66: fold 0.7, Fold 0.2"], "for the second time"),
    (["--lock", "bet 66 [JJ]: fold 1; bet 66 [JcJh,KQ]: call 1"], "for the second time"),
    (["--lock", "bet 66 [AA]: fold 1"], "locks no hand"),
    (["--lock", "bet 66 [XX]: fold 1"], "lock holds 'XX', which is not understood"),
    (["--lock", "bet 66: fold 0.7; bet 66.0: call 0.2"], "for the second time"),
    (["--lock", "bet 66, fold: fold 1"], "must lead to a move, with * for each card"),
    (["--history", "notes.txt"], "history='notes.txt' cannot be read as a hand"),
    (["--street", "turn"], "street='turn' is for --history"),
    (["--oop", "TdTh"], "oop='TdTh' holds no hand that the board leaves"),
    (["--boards", "TdJdQhKc2s"], "is for one board, not for --boards"),
  ],
)
def test_mistakes_are_found_before_the_solve(more, message, tmp_path, capsys, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(spot, "solve", None)
  (tmp_path / "notes.txt").write_text("precious")
  assert spot.main([*SMALL, "--memory", "1", "--output", "kept.npz", *more]) == 2
  said = capsys.readouterr().err.splitlines()
  assert said[-1].startswith("error: ")
  assert message in said[-1]
  assert len(said) <= 2  # lines of betting are counted first
  assert [x.name for x in tmp_path.iterdir()] == ["notes.txt"]
  assert (tmp_path / "notes.txt").read_text() == "precious"


def test_results_are_saved_before_they_are_shown(solved, tmp_path, monkeypatch, capsys):
  output = str(tmp_path / "kept")
  monkeypatch.setattr(spot, "solve", lambda *_, **__: solved)
  monkeypatch.setattr(spot, "Study", None)  # anything may go wrong there
  with pytest.raises(TypeError):
    spot.main([*SMALL, "--output", output])
  monkeypatch.undo()
  assert spot.load(output).percent == solved.percent


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


def test_hands_that_were_played_become_spots(tmp_path, capsys):
  path = tmp_path / "hand.txt"
  path.write_text(HAND)
  assert history.read_history(str(path)) == ("Td9d6hQc", 6.5, 46.75, "bet 46.75, fold")
  line = "check, bet 1.75, call, Qc, bet 46.75, fold"
  assert history.read_history(str(path), "flop") == ("Td9d6h", 3, 48.5, line)
  path.write_text(HAND.replace("59.10", "99.10"))
  with pytest.raises(ConfigError, match="cannot be read as a hand of no-limit hold'em"):
    history.read_history(str(path))
  assert capsys.readouterr().err == ""
  path.write_text(f"{PHH}actions={ACTIONS}")
  line = "bet 8, raise 20, call, Qc, check, check, 2s, check"
  assert history.read_history(str(path), "flop") == ("Td9d6h", 12, 144, line)
  given = ["--history", str(path), "--oop", "AA,32", "--ip", "KK", "--bets", "a"]
  assert spot.main([*given, "--target", "20"]) == 0
  said = capsys.readouterr().out.splitlines()
  assert spot.main([*given, "--stack", "90"]) == 2
  assert "stack=90 is not for history=" in capsys.readouterr().err
  assert said[:2] == ["played: check", "board Td9d6hQc2s, pot 52, stacks 124 and 124"]
  path.write_text(f"{PHH}actions={[x.replace('cbr 8', 'cbr 8.25') for x in ACTIONS]}")
  line = "bet 8.25, raise 20, call, Qc, check, check, 2s, check"
  assert history.read_history(str(path), "flop")[1:] == (12, 144, line)
  path.write_text(f"{PHH}actions={[*ACTIONS[:2], 'p2 f']}")
  with pytest.raises(ConfigError, match="has no street that two players with chips see"):
    history.read_history(str(path))


def test_chips_may_have_decimals(solved, tmp_path, capsys):
  parts = dataclasses.replace(solved.spot, pot=2.01, stack=9.0, bets="0.66c,a / 2.5x")
  whole = dataclasses.replace(solved.spot, bets="66c,a / 2.5x")
  ours, theirs = (spot.solve(x, target=5.0) for x in (parts, whole))
  ours.save(tmp_path / "kept")
  ours = spot.load(tmp_path / "kept")
  assert ours.percent == pytest.approx(theirs.percent)
  assert list(ours.children(ours.find("bet 0.66"))) == ["fold", "call", "raise 1.65"]
  assert ours.find("bet 0.660, raise 1.650") == ours.find("bet .66, raise to 1.65")
  locks = (f"bet .66: {x} 0.5" for x in ("raise 1.65", "Raise to 1.650"))
  assert len({str(prepare(dataclasses.replace(parts, lock=x)).lock()) for x in locks}) == 1
  study, other = Study(ours).at("bet 0.66"), Study(theirs).at("bet 66")
  assert study.situation == "board TdJdQhKc2s, pot 2.67, stacks 8.34 and 9"
  np.testing.assert_allclose(100 * study.table.ev, other.table.ev, rtol=1e-6)
  shares = [re.findall(r"[\d.]+%", x.summary().split("OOP  EV ")[1]) for x in (study, other)]
  assert shares[0] == shares[1]
  trial = Trial(Study(ours), 1, np.random.default_rng(1))
  trial.play("bet 9")
  assert trial.record[-1].endswith("you get 2.01 of the pot.")
  for more, message in (
    (["--pot", "5.555"], "pot=5.555 must be a number of chips of at most two decimals"),
    (["--node", "bet 7"], "possible there is: check, bet 0.66, bet 9"),
    (["--bets", "0.555c"], "bets='0.555c' holds '0.555c'; a size must be"),
    (["--stack", "10737418"], "stack=10737418 and half of pot=2.01 are more than 10737418"),
  ):
    assert spot.main([*SMALL, "--pot", "2.01", "--stack", "9", "--bets", "33%,a", *more]) == 2
    assert message in capsys.readouterr().err


def test_geometric_sizes_of_large_stacks():
  for pot, stack in ((5.5, 20_000), (200, 2_000_000)):
    made = prepare(spot.Spot("TdJdQhKc2s", "AA", "QQ", pot, stack, "2e / -"))
    grown = pot * (1 + 2 * stack / pot) ** 0.5
    bet = float([*made.children(())][1].removeprefix("bet "))
    assert bet == pytest.approx((grown - pot) / 2, abs=1 / made.spot.unit)


def test_large_tables_are_halved_and_time_ends_a_solve(monkeypatch, capsys):
  tables = []
  given = [*SMALL, "--target", "0.001", "--max-seconds", "0.001"]
  assert spot.main(given) == 0
  assert "after 32 iterations, 16 of both players" in capsys.readouterr().out
  monkeypatch.setattr(solvers, "solve", lambda *_, **how: 1 / tables.append(how["tables"]))
  for board in ("TdJdQhKc2s", "TdJdQhKc"):
    with pytest.raises(TypeError):
      spot.solve(spot.Spot(board, "AA", "QQ", 10, 5), half_tables=True)
  assert tables == [None, "float16"]


def test_altered_solutions_are_refused(solved, tmp_path):
  solved.save(tmp_path / "kept")
  with np.load(tmp_path / "kept") as archive:
    good = {name: archive[name] for name in archive.files}
  about = json.loads(str(good["about"]))

  def written(about, **levels):
    members = good | levels | {"about": np.array(json.dumps(about))}
    np.savez(tmp_path / "kept.npz", **members)
    return spot.load(tmp_path / "kept.npz")

  first = next(name for name in good if name != "about")
  assert written(about).sealed
  for name, value in (("pot", 203), ("oop", "QQ+,A2s,42")):
    with pytest.raises(ConfigError, match="was altered"):
      written(about | {"spot": about["spot"] | {name: value}})
  with pytest.raises(ConfigError, match="was altered"):
    written(about | {"exploitability": 0.1})
  # Files of earlier versions have no checksum.
  old = {name: value for name, value in about.items() if name != "checksum"}
  loaded = written(old)
  assert not loaded.sealed
  assert "says a file without a checksum" in Study(loaded).summary()
  for level in (-good[first], good[first] / 2):
    with pytest.raises(ConfigError, match="holds no policy"):
      written(old, **{first: level})
  wide = {"board": "TdJdQh", "oop": "random", "ip": "random", "bets": "33%,66%,a"}
  with pytest.raises(ConfigError, match="are allowed; take fewer"):
    written(old | {"spot": about["spot"] | wide})


def test_a_signal_keeps_what_there_is(tmp_path, capsys, monkeypatch):
  look, check_fits, sized = spot.Display.show, spot.check_fits, []

  def show(self, what, *rest):
    if what == "solving":
      signal.raise_signal(signal.SIGTERM)
    look(self, what, *rest)

  monkeypatch.setattr(spot.Display, "show", show)
  monkeypatch.setattr(spot, "check_fits", lambda *x: sized.append(x) or check_fits(*x))
  output = str(tmp_path / "kept")
  given = [*SMALL, "--target", "0.001", "--output", output]
  assert spot.main(given) == 128 + signal.SIGTERM
  assert len(sized) == 1  # which takes seconds of a flop
  assert f"--load {output} shows" in capsys.readouterr().err
  assert spot.load(output).iterations == 32
  assert spot.main(given[:-2]) == 128 + signal.SIGTERM
  assert "after 32 iterations" in capsys.readouterr().out

  monkeypatch.setattr(spot.Display, "show", lambda *_: signal.raise_signal(signal.SIGTERM))
  with monkeypatch.context() as patch:
    patch.setattr(spot, "prepare", None)  # ends at once
    assert spot.main(given) == 128 + signal.SIGTERM  # before there is anything to keep
  assert capsys.readouterr().err.endswith("interrupted\n")
  monkeypatch.setattr(spot.Display, "show", look)
  two = list(report.solve_boards(spot.load(output).spot, BOARDS[:1] * 2, target=20.0))

  def two_rows(*_, **__):
    yield from two
    raise KeyboardInterrupt

  monkeypatch.setattr(report, "solve_boards", two_rows)
  assert spot.main([*NO_BOARD, "--boards", ",".join(BOARDS)]) == 130
  assert "on each of 2 boards" in capsys.readouterr().out


def test_seconds_end_a_flop_on_the_way(monkeypatch, capsys, rows):
  looks = []
  monkeypatch.setattr(report, "solve", lambda *_, progress, **__: looks.append(progress(32, 9.0)))
  monkeypatch.setattr(report, "_row", lambda own: rows[0])
  assert spot.main([*NO_BOARD, "--boards", "TdJdQh,9h9d4s", "--max-seconds", "1e-9"]) == 0
  assert looks == [True]
  assert "on each of 1 boards" in capsys.readouterr().out
