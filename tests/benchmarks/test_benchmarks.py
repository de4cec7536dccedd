"""Benchmarks and studies run, say what they promise to say, and measure what they claim to."""

import dataclasses
import functools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import games
import solvers
from benchmarks import (
  batch_solve,
  checks,
  compiled,
  figures,
  first_use,
  gpu_compiler,
  machine,
  match,
  measurements,
  poker,
  scaling,
  table2,
  tabular,
  timing,
)
from benchmarks.studies import (
  bet_sizes,
  curves,
  family,
  family_parts,
  gadgets,
  large_dice,
  poker_learning,
)
from benchmarks.studies import poker as poker_study
from games.poker import Deck
from rebel_jax import evaluate, flags
from rebel_jax.checkpoints import checkpoint
from rebel_jax.config.config import ConfigError
from tests.tiny import trained

ENVIRONMENT = {"benchmark", "device", "devices", "versions"}
QUICK = timing.Solves(iterations=8, repeats=1, seconds=0.0)


def printed(capsys, main, **options) -> list[dict]:
  main(**options)
  rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert rows
  for row in rows:
    assert row.keys() >= ENVIRONMENT
    assert row["versions"]["jax"] == jax.__version__
  return rows


def test_tabular(capsys):
  options = dict(games=("kuhn",), batch=3, pieces=(1, 2), open_spiel=False, solves=QUICK)
  whole, *pieces = printed(capsys, tabular.main, **options)
  assert (whole["nodes"], whole["infostates"], whole["batch"]) == (9, 3, 3)
  assert whole["microseconds_per_update"] > 0
  assert whole["microseconds_per_update_batched"] > 0
  assert whole["compile_seconds"] > 0
  assert "open_spiel_microseconds_per_iteration" not in whole
  assert [(row["batch"], row["batch_size"]) for row in pieces] == [(2, 1), (2, 2)]


def test_tabular_beside_other_programs(capsys, tmp_path):
  pytest.importorskip("pyspiel")
  other = tmp_path / "python"
  other.write_text("#!/bin/sh\necho said before\necho 0.5\n")
  other.chmod(0o755)
  options = dict(games=("kuhn",), batch=0, lite_efg=str(other), solves=QUICK)
  (row,) = printed(capsys, tabular.main, **options)
  for program in ("open_spiel", "lite_efg"):
    seconds = row[f"{program}_microseconds_per_iteration"] / 1e6
    ratio = 1e6 * seconds / (2 * row["microseconds_per_update"])
    assert row[f"{program}_ratio"] == pytest.approx(ratio, rel=0.01)
  assert seconds == 0.5


def test_flags_are_checked_before_the_work(tmp_path):
  for values, sentence in (
    ({"iterations": -1}, "iterations=-1 must be at least 0"),
    ({"sizes": (1, -2)}, r"sizes=\(1, -2\) must be at least 0"),
    ({"seconds": float("nan")}, "seconds=nan must be at least 0"),
    ({"figure": tmp_path / "missing" / "x.png"}, "figure=.* cannot be drawn"),
  ):
    with pytest.raises(ConfigError, match=sentence):
      timing.check(values)
  timing.check({"figure": None, "seed": 0, "games": ("kuhn",)})
  with pytest.raises(ConfigError, match="num_iterations=0 must be"), timing.in_sentences():
    batch_solve.main("kuhn", root_depth=1, sizes=(1,), solves=timing.Solves(iterations=0))
  with pytest.raises(ConfigError, match="games='chess' is unknown; known: "), timing.in_sentences():
    tabular.main(("chess",))
  with pytest.raises(ConfigError, match="algorithm='chess' is unknown"), timing.in_sentences():
    tabular.main(("kuhn",), solves=timing.Solves(algorithm="chess"))
  with pytest.raises(ValueError, match="no sentence") as caught, timing.in_sentences():
    raise ValueError("no sentence")
  assert not isinstance(caught.value, ConfigError)


def test_batch_solve(capsys, tmp_path):
  figure = tmp_path / "throughput.png"
  options = dict(game="kuhn", root_depth=1, sizes=(1, 3), figure=figure, solves=QUICK)
  rows = printed(capsys, batch_solve.main, **options)
  assert [(row["batch"], row["roots"]) for row in rows] == [(1, 2), (3, 2)]
  for row in rows:
    ratio = row["updates_per_second"] / row["solves_per_second"]
    np.testing.assert_allclose(ratio, row["iterations"], rtol=1e-2)
  assert figure.stat().st_size > 1000


def test_scaling(capsys):
  sizes = dict(batches=(1, 2), trees=("kuhn",), updates=(8, 16))
  axes = ("batch", "tree", "updates")
  rows = printed(capsys, scaling.main, axes=axes, game="kuhn", solves=QUICK, **sizes)
  assert [row["axis"] for row in rows] == ["batch", "batch", "tree", "updates", "updates"]
  assert [row["batch"] for row in rows] == [1, 2, 1, 1, 1]
  assert [row["iterations"] for row in rows] == [8, 8, 8, 8, 16]
  assert all(row["milliseconds"] > 0 for row in rows)


@pytest.mark.skipif(jax.default_backend() != "cpu" and jax.device_count() < 2, reason="one device")
def test_scaling_over_devices_does_the_same_work(capsys):
  options = dict(axes=("devices",), game="kuhn", device_counts=(1, 2), solves=QUICK)
  one, two = printed(capsys, scaling.main, device_batch=4, **options)
  assert (one["devices"], two["devices"]) == (1, 2)
  np.testing.assert_allclose(one["checksum"], two["checksum"], rtol=1e-3)
  with pytest.raises(SystemExit, match="device_batch=4 must be a multiple of 3"):
    scaling.main(("devices",), device_counts=(3,), device_batch=4)


def test_a_first_use(capsys, monkeypatch):
  """And, as control, one that fails: a sentence and an exit code."""
  options = dict(cases=("own",))
  monkeypatch.setitem(first_use.CASES, "own", "pass")
  (row,) = printed(capsys, first_use.main, **options)
  assert (row["case"], row["programs"]) == ("own", 0)
  monkeypatch.setitem(first_use.CASES, "own", "pass pass")
  assert flags.command(lambda: first_use.main(**options), is_process=False) == 2
  assert f"error: own in {first_use._ROOT} failed:" in capsys.readouterr().err


def lines(capsys):
  return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.slow
def test_matches(capsys):
  match.main(match.Options(games=40, iterations=8))
  rows = lines(capsys)
  assert [row["opponent"] for row in rows] == list(match.OPPONENTS)
  assert all(row["games"] == 40 for row in rows)
  assert rows[0]["mean"] > 0.1  # uniform play loses to almost anyone
  with pytest.raises(ConfigError, match="opponents='nobody' is unknown"):
    match.main(match.Options(opponents=("nobody",)))


@pytest.mark.slow
def test_table2_is_the_mean_of_the_last_checkpoints(capsys, tmp_path):
  run = trained()
  table2.main((str(run),), 3, 16, checkpoints=2, keep=tmp_path)
  (row,) = lines(capsys)
  paths = checkpoint.checkpoints_of(run)[-2:]
  asked = [evaluate.Options(str(path), playthroughs=3, iterations=16) for path in paths]
  alone = [evaluate.measure(options)["exploitability"] for options in asked]
  assert alone[0] != alone[1]
  assert row["exploitability"] == pytest.approx(alone, rel=1e-3)
  assert row["mean"] == pytest.approx(sum(alone) / 2, rel=1e-3)
  assert row["paper"] is None  # Kuhn poker is not in it
  assert len(list(tmp_path.iterdir())) == 2
  with pytest.raises(SystemExit, match="checkpoints=9 must be from 1 to the"):
    table2.main((str(run),), checkpoints=9)


@pytest.mark.slow
def test_runs_are_drawn_by_game(tmp_path, monkeypatch):
  pytest.importorskip("matplotlib")
  drawn, save = [], figures.save_picture
  monkeypatch.setattr(
    figures, "save_picture", lambda x, *y, **z: (drawn.append(x), save(x, *y, **z))
  )
  figures.main((trained(), trained()), tmp_path / "runs.png")
  (axes,) = drawn[0].axes
  assert len(axes.lines) == 2
  assert [x.get_text() for x in axes.get_legend().get_texts()] == ["ReBeL"]
  assert (tmp_path / "runs.png").stat().st_size > 5_000
  with pytest.raises(ConfigError):
    figures.main((tmp_path,), tmp_path / "other.png")


def test_a_part_takes_its_own_settings_and_no_others(tmp_path):
  parts = {"rivers": lambda number=1: number}
  assert [timing.run_part(parts, "rivers", number=n, lines=()) for n in (3, None)] == [3, 1]
  with pytest.raises(ConfigError, match="runs=0 must be at least 1"):
    family.main("tabular", runs=0)
  for main, part, given in (
    (poker.main, "spots", {"number": 3}),
    (poker_study.main, "grid", {"algorithms": ("linear_cfr",)}),
    (poker_learning.main, "draw", {"steps": 3}),
    (bet_sizes.main, "narrowing", {"pot": 100}),
    (bet_sizes.main, "transfer", {"picture": tmp_path / "drawn.png"}),
    (family.main, "warm_start", {"algorithms": ("CFR+",)}),
    (family.main, "tabular", {"rows": tmp_path / "rows", "runs": 3}),
    (large_dice.main, "deep_cfr", {"width": 8}),
  ):
    with pytest.raises(ConfigError, match=f"is not for {part}, which takes"):
      main(part, **given)


def test_endgames_are_read_as_they_are_written(tmp_path):
  """In the format of Libratus's endgames: two hands against all."""
  deck = Deck()
  every = [deck.names(hand) for hand in deck.hole_cards()]
  reach = np.zeros((2, len(every)))
  reach[0, every.index("KsAs")] = 0.75
  reach[0, every.index("2s2h")] = 0.25
  reach[1] = 1e-3
  path = tmp_path / "river.txt"
  numbers = " ".join(repr(float(x)) for x in reach.reshape(-1))
  path.write_text(f"-round 4\n-board 4s8hTc9h2d\n-pot 500\n-reach {numbers}\n")
  game, beliefs = poker_study.read_endgame(path)
  assert game.deck.names(game.board) == "4s8hTc9h2d"
  assert game.rules.paid == (250, 250)
  assert game.rules.stacks == (20_000, 20_000)
  assert beliefs[0, game.infostate("AsKs")] == 0.75
  assert beliefs[0, game.infostate("2s2h")] == 0.25
  np.testing.assert_allclose(beliefs[1], 1 / 1081)  # the board's hands have no weight
  bets = [game.describe((), action) for action in (1, 2, 3, 4)]
  assert bets == ["check", "bet to 500", "bet to 750", "bet to 20000 (all-in)"]
  assert game.describe((2,), 2) == "raise to 1500"  # later raises are the pot or all-in


@pytest.mark.slow
def test_a_flop_of_few_hands():
  small = dataclasses.replace(poker.FLOP, oop="AA,KQs", ip="QQ,AKs", ranks="9TJQKA", board="TsJs9h")
  found = poker.flop("float16", small, target=20.0)
  assert found["percent_of_pot"] <= 20
  assert found["boards"] > 100
  assert found["processor_seconds"] > 0


@pytest.mark.slow
def test_a_point_of_a_curve_is_what_solve_returns(x64):
  kuhn = games.build_public_tree(games.make("kuhn_poker"))
  start = family_parts.noisy(kuhn, family_parts.even(kuhn), 1.0, seed=1)
  algorithm = solvers.warm_started(solvers.linear_cfr())
  found = curves.curve(kuhn, algorithm, [2, 10, 24], initial_policy=start)
  for place, count in ((1, 10), (2, 24)):
    solution = solvers.solve(kuhn, algorithm=algorithm, num_iterations=count, initial_policy=start)
    expected = float(solvers.exploitability(kuhn, solution.average_policy))
    assert found[place] == pytest.approx(expected, rel=1e-9)
  other = curves.curve(kuhn, algorithm, [2, 12, 26], initial_policy=start)
  assert (np.abs(other[1:] / found[1:] - 1) > 1e-3).all()  # control: two iterations are seen


@pytest.mark.slow
def test_a_completion_is_as_good_as_what_is_kept_allows(x64):
  """An even player of modified rock-paper-scissors loses 1/3 to the best answer, on either side."""
  tree = games.build_public_tree(games.make("rock_paper_scissors"))
  policy = jnp.asarray(family_parts.even(tree))
  for first, second, expected in ((1, 1, 1 / 3), (1, 0, 1 / 6), (0, 1, 1 / 6), (0, 0, 0.0)):
    kept = np.array([True, first, second, second, second], bool)
    completed = family_parts.complete(tree, policy, kept, 2048)
    assert float(solvers.exploitability(tree, completed)) == pytest.approx(expected, abs=2e-3)


def test_a_table_holds_the_points_that_were_asked_for(capsys, tmp_path):
  row = {"part": "discounts", "game": "kuhn", "x": "iterations", "iterations": [8, 16]}
  row |= {"exploitability": [0.5, 0.25], "low": [0.5, 0.2], "high": [0.5, 0.25]}
  rows = [row | {"algorithm": "a"}, row | {"algorithm": "b", "game": "leduc"}]
  path = tmp_path / "rows.jsonl"
  path.write_text("\n".join(json.dumps(row) for row in rows))
  family.main("discounts", rows=path, table=(16, 8, 32))
  printed = capsys.readouterr().out.splitlines()
  assert printed == [
    "| algorithm | kuhn, 16 | kuhn, 8 | leduc, 16 | leduc, 8 |",
    "| --- | --- | --- | --- | --- |",
    "| a | 0.25 (0.2 – 0.25) | 0.5 |  |  |",
    "| b |  |  | 0.25 (0.2 – 0.25) | 0.5 |",
  ]


@pytest.fixture
def leduc(x64):
  game = games.make("leduc_poker")
  tree = games.build_public_tree(game)
  return game, tree, timing.average_policy(tree, solvers.vanilla_cfr(), 20)


@pytest.mark.slow
def test_estimates_end_where_a_best_response_begins(leduc):
  (game, tree, policy), searcher = leduc, 0
  nodes = np.flatnonzero(np.asarray(tree.kind) == games.CHANCE)
  known = solvers.blueprint_values(game, tree, policy, searcher=searcher)
  found = gadgets.estimated(game, tree, policy, searcher, nodes)
  assert (found.value <= known.value + 1e-9).all()
  assert found.spread[nodes].max() > 0.1
  np.testing.assert_allclose(found.value + found.spread, known.value, atol=1e-9)
  # Against a best response, nothing is beyond.
  best = solvers.best_response(tree, policy, 1 - searcher).policy
  against = solvers.resolving.graft(
    tree, policy, [(np.arange(len(best)), best)], player=1 - searcher
  )
  assert gadgets.estimated(game, tree, against, searcher, nodes).spread.max() < 1e-9


@pytest.mark.slow
def test_each_player_is_refined_against_the_others_blueprint(leduc):
  game, tree, policy = leduc
  new = gadgets.refine_both(game, tree, policy, "maxmargin", 256)
  before, after = (solvers.best_response_values(tree, x) for x in (policy, new))
  assert (after < before - 0.05).all()  # each player's part got better by itself


GOLDEN = json.loads(checks.GOLDEN.read_text())
CHEAP = ("showdowns", "muon", "network, float32", "network, default", "network, bfloat16")


@pytest.mark.parametrize(
  "name",
  [x if x in CHEAP else pytest.param(x, marks=pytest.mark.slow) for x in checks.CHECKS],
)
def test_numbers_are_those_of_the_golden_file(name):
  row = checks.compare(name, GOLDEN)
  assert row["ok"], row


@pytest.fixture
def tiny(monkeypatch):
  """Replaces checks and rates by few that take no time; returns how often each rate was made."""
  made = []

  def prepare(name, error=None):
    made.append(name)
    if error is not None:
      raise error
    return measurements.Prepared(lambda: jnp.zeros(1), lambda seconds: 2.0)

  rates = {
    "fast": measurements.Rate(functools.partial(prepare, "fast"), "things/s", 3.0),
    "fails": measurements.Rate(functools.partial(prepare, "fails", MemoryError("none")), "x"),
    "large": measurements.Rate(functools.partial(prepare, "large"), "x", accelerator=True),
  }
  monkeypatch.setattr(measurements, "rates", lambda small: rates)
  monkeypatch.setattr(machine.jax, "default_backend", lambda: "cpu")
  for name in list(checks.CHECKS):
    if name != "muon":
      monkeypatch.delitem(checks.CHECKS, name)
  return made


def run(output, **options):
  return flags.command(lambda: machine.main(output, small=True, **options), is_process=False)


def test_it_measures_what_is_missing(tmp_path, tiny, capsys):
  output = tmp_path / "machine.jsonl"
  assert run(output) == 0
  assert tiny == ["fast", "fails"]  # nothing that is for accelerators alone
  first, *lines = map(json.loads, output.read_text().splitlines())
  assert first["machine"]["platform"]
  rows = {line["measurement"]: line for line in lines}
  assert rows["fast"]["figure"] == 2.0
  assert rows["fails"]["error"] == "MemoryError: none"
  assert rows["check: muon"]["ok"]
  assert "2 things/s" in capsys.readouterr().out

  with output.open("a") as file:  # the command was killed while it wrote
    file.write('{"benchmark": "machine", "measurem')
  kept = output.read_text().splitlines()[:-2]
  output.write_text("\n".join(kept) + "\n")  # and one result is missing
  tiny.clear()
  assert run(output) == 0
  assert len(tiny) == 1
  assert run(output) == 0
  assert len(tiny) == 1  # all is there now


@pytest.mark.slow
def test_every_program_runs_in_small_form(tmp_path):
  output = tmp_path / "machine.jsonl"
  command = [sys.executable, "-m", "benchmarks.machine", "--output", str(output)]
  subprocess.run([*command, "--small", "--minutes", "20"], check=True)
  rows = [json.loads(line) for line in output.read_text().splitlines()][1:]
  assert not [row for row in rows if "error" in row]
  wanted = {name for name, rate in measurements.rates(small=True).items() if not rate.accelerator}
  assert wanted <= {row["measurement"] for row in rows}


def rows(*programs):
  """Returns the figures of programs, compiled in a process that may change what JAX is told."""
  command = [sys.executable, "-m", "benchmarks.compiled", "--limit", "0", "--programs", *programs]
  done = subprocess.run(
    command, env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True, text=True, check=False
  )
  if "no GPU compiler" in done.stderr + done.stdout:
    pytest.skip("no GPU compiler: pip install 'rebel-jax[gpu-compiler]'")
  assert done.returncode == 0, done.stderr[-2000:]
  return [json.loads(line) for line in done.stdout.splitlines()]


def test_kernels_of_a_turn_of_small_games():
  for row, most in zip(rows("solve kuhn", "solve leduc"), (17, 40), strict=True):
    assert 4 < row["kernels"] <= most
    assert row["waits_for_the_host"] == row["rounded_products"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
  ("program", "most", "waits"),
  [
    ("solve liars_dice_1x4f", {"kernels": 32}, 0),
    ("batch of 1,024", {"kernels": 50}, 0),
    ("self-play liars_dice_1x4f_paper", {"kernels_a_turn": 28}, 0),
    ("training liars_dice_1x4f", {"kernels": 1_500}, 1),  # the number of steps is the host's
    ("training hunl_small", {}, 1),
    ("training pog_kuhn", {}, 2),  # and that of gradient steps
  ],
)
def test_main_loops(program, most, waits):
  (row,) = rows(program)
  assert all(row[name] <= number for name, number in most.items())
  assert row["waits_for_the_host"] == waits


def test_a_program_that_ends_with_an_error_says_so(capsys, monkeypatch):
  def run(command, **_):
    raise subprocess.CalledProcessError(1, command)

  monkeypatch.setattr(subprocess, "run", run)
  compiled.main(programs=("solve kuhn",))
  row = json.loads(capsys.readouterr().out)
  assert row["not_compiled_in_seconds"] == 300
  assert "exit status 1" in row["why"]


_TEXT = """
%body (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  %fusion.1 = f32[2]{0} fusion(%x), kind=kLoop, calls=%f
  ROOT %copy.1 = f32[2]{0} copy(%fusion.1)
}

%other (y: f32[2]) -> f32[2] {
  %y = f32[2]{0} parameter(0)
  ROOT %fusion.2 = f32[2]{0} fusion(%y), kind=kLoop, calls=%f
}

ENTRY %main (a: f32[2], p: pred[]) -> f32[2] {
  %a = f32[2]{0} parameter(0)
  %p = pred[] parameter(1)
  %while.1 = f32[2]{0} while(%a), body=%body, backend_config={"known_trip_count":{"n":"3"}}
  %while.2 = f32[2]{0} while(%while.1), condition=%c, body=%other
  ROOT %if.1 = f32[2]{0} conditional(%p, %a, %a), true_computation=%body, false_computation=%other
}
"""


def test_what_is_counted():
  """Three turns of two kernels, a loop of unknown length, and the longer of two branches."""
  assert gpu_compiler.count(_TEXT) == (3 * 2 + 1 + 2, (3 * 2 + 1 + 2) * 16, 2, 2)
